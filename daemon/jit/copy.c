/* SPDX-License-Identifier: MIT */
/* An entry's image, copied while the target may be freeing it.
 *
 * What can go wrong: the entry is unlinked, its image freed, and both addresses given
 * to the next object, while a copy is under way: the copy would be the beginning of
 * one object and the end of another. Two looks at the entry do not tell, as the next
 * object may have the same addresses and the same size (a function that is compiled
 * again does). So five steps:
 *
 *   1  the entry is on the list, and says image and size
 *   2  copy the image
 *   3  the entry is on the list, and says the same
 *   4  read the image again: each byte is equal to the copy
 *   5  the entry is on the list, and says the same
 *
 * A byte that is equal in 2 and 4 had that value during 3, as far as it did not
 * change and change back. So the copy is what memory held at the instant of 3; and an
 * entry that is linked has a whole image, as a JIT writes the image first, and unlinks
 * before it frees. Step 5 leaves no copy of an object that ended meanwhile.
 *
 * "On the list": the entry before it, or the head, points to it. One look at one
 * pointer is one instant; a whole walk would be many. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "jit/internal.h"

#define PIECE 16384u
#define POLLS 4u

static int get(struct jit *jit, struct host_reader *memory, void *dst, size_t size, uint64_t address)
{
	jit->counts[JIT_COUNT_READS]++;
	if (address + size < address)
		return -EFAULT;
	return memory->read(memory, dst, size, address);
}

int head__read(struct jit *jit, struct host_reader *memory, uint64_t address, struct jit_head *ret)
{
	_Static_assert(sizeof(*ret) == 24, "struct jit_descriptor on 64-bit machines");
	return get(jit, memory, ret, sizeof(*ret), address);
}

int node__read(struct jit *jit, struct host_reader *memory, uint64_t address, struct node *ret)
{
	uint64_t words[4]; /* struct jit_code_entry: next, prev, symfile_addr, symfile_size */

	if (!address || address & 7)
		return -EFAULT; /* malloc would not have given it */
	if (get(jit, memory, words, sizeof(words), address))
		return -EFAULT;
	*ret = (struct node){address, words[0], words[1], words[2], words[3]};
	return 0;
}

/* Whether what is before it points to it. */
static int points_to(struct jit *jit, struct host_reader *memory, const struct list *list, const struct node *node)
{
	struct node before;
	struct jit_head head;

	if (node->prev)
		return !node__read(jit, memory, node->prev, &before) && before.next == node->address;
	if (head__read(jit, memory, list->address, &head))
		return -EFAULT;
	return head.first == node->address;
}

int node__linked(struct jit *jit, struct host_reader *memory, const struct list *list,
		 const struct node *node)
{
	struct node now = *node;
	uint64_t prev;
	unsigned i;
	int linked = 0;

	/* Another may come in front of it, or what was in front go, between two reads: its own link tells. */
	for (i = 0; !linked && i < POLLS; i++) {
		prev = now.prev;
		if (node__read(jit, memory, node->address, &now))
			return 0; /* freed, and its page given back */
		if (now.image != node->image || now.size != node->size || (i && now.prev == prev))
			return 0;
		linked = points_to(jit, memory, list, &now);
	}
	return linked;
}

static int same_again(struct jit *jit, struct host_reader *memory, const struct node *node,
		      const char *copy)
{
	char piece[PIECE]; /* the same each time: memory that is fresh costs a fault a page */
	size_t at, len;

	for (at = 0; at < node->size; at += len) {
		len = node->size - at < sizeof(piece) ? node->size - at : sizeof(piece);
		if (get(jit, memory, piece, len, node->image + at) || memcmp(piece, copy + at, len))
			return -EAGAIN;
	}
	return 0;
}

int node__copy(struct jit *jit, struct host_reader *memory, const struct list *list,
	       const struct node *node, char **ret_bytes)
{
	_cleanup_free_ char *copy = NULL;
	bool readable, same;
	int linked;

	linked = node__linked(jit, memory, list, node); /* 1 */
	if (linked != 1)
		return linked ? linked : -ENOENT;
	if (node->size < 64 || node->size > JIT_IMAGE_MAX)
		return -EBADMSG; /* no ELF header fits, or more than is taken */
	copy = malloc(node->size);
	if (!copy)
		return -ENOMEM;
	readable = !get(jit, memory, copy, node->size, node->image); /* 2 */
	linked = node__linked(jit, memory, list, node); /* 3 */
	if (linked != 1)
		return linked ? linked : -EAGAIN;
	same = readable && !same_again(jit, memory, node, copy); /* 4 */
	linked = node__linked(jit, memory, list, node); /* 5 */
	if (linked != 1)
		return linked ? linked : -EAGAIN;
	if (!readable)
		return -EBADMSG;
	if (!same)
		return -EAGAIN;
	*ret_bytes = take_ptr(copy);
	return 0;
}

uint64_t entry__probe(struct jit *jit, struct host_reader *memory, const struct entry *entry)
{
	uint64_t hash = 1;
	char bytes[16384];
	unsigned i;

	for (i = 0; i < 2; i++) {
		uint32_t len = entry->probe_len[i] < sizeof(bytes) ? entry->probe_len[i] : sizeof(bytes);

		if (entry->probe_offset[i] > entry->size || len > entry->size - entry->probe_offset[i])
			return 0;
		if (len && get(jit, memory, bytes, len, entry->image + entry->probe_offset[i]))
			return 0;
		hash = hash__mix(hash, hash__bytes(&jit->seed, bytes, len)) | 1;
	}
	return hash;
}
