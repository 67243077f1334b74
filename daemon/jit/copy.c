/* SPDX-License-Identifier: MIT */
/* Copies the ELF image of a list entry while the target runs and may be freeing it.
 *
 * The race: while the copy is being made, the target unlinks the entry, frees its image, and gives both addresses to
 * the next object. The copy would then be the begin of one object and the end of another. Checking the entry before and
 * after is not enough, as the next object may have the same addresses and size (a function that is compiled again
 * does). So:
 *
 *   1  check that the entry is on the list; it has image address and size
 *   2  copy the image
 *   3  check that the entry is on the list, with the same address and size
 *   4  read the image again and compare it with the copy
 *   5  check the entry once more, as in 3
 *
 * A byte that is equal in 2 and 4 had that value during 3 (unless it changed and changed back). So the copy is what
 * memory held at the instant of 3. A linked entry has a complete image, because a JIT writes the image before it links
 * the entry, and unlinks before it frees. Step 5 rejects objects that ended meanwhile.
 *
 * "On the list": the previous entry, or the head, points to it. Reading one pointer is one instant; walking the whole
 * list would be many.
 *
 * What remains: the target writes A, B, A to one byte between the reads. A JIT does not; a hostile target only
 * deceives about itself. */
#include <errno.h>

#include "base/cleanup.h"
#include "jit/internal.h"

#define PIECE 16384u /* bytes that are compared at once */
#define POLLS 4u     /* tries to find the entry linked while its neighbours change */

/* One read of target memory. It does not stop the target, and may fail: its pages may be gone. */
static int get(struct jit *jit, struct host_reader *memory, void *dst, size_t size, uint64_t address)
{
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
		return -EFAULT; /* no result of malloc(): the list is damaged, or is none */
	if (get(jit, memory, words, sizeof(words), address))
		return -EFAULT;
	*ret = (struct node){address, words[0], words[1], words[2], words[3]};
	return 0;
}

/* Does the previous entry, or the head, point to this one? 1, 0, -EFAULT. */
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
	int linked = 0;

	/* Between two reads an entry may be linked in front of this one, or the previous one unlinked. Its own `prev`
	 * then changed: try again. If `prev` is the same and does not point here, the entry was unlinked. */
	for (unsigned i = 0; !linked && i < POLLS; i++) {
		uint64_t prev = now.prev;

		if (node__read(jit, memory, node->address, &now))
			return 0; /* freed, and its page given back */
		if (now.image != node->image || now.size != node->size || (i && now.prev == prev))
			return 0;
		linked = points_to(jit, memory, list, &now);
	}
	return linked;
}

/* Step 4. Piece by piece: only the copy is ever in memory as a whole. */
static int same_again(struct jit *jit, struct host_reader *memory, const struct node *node,
		      const char *copy)
{
	char piece[PIECE]; /* on the stack: fresh heap memory would cost a page fault for each page */
	size_t at, len;

	for (at = 0; at < node->size; at += len) {
		len = node->size - at < sizeof(piece) ? node->size - at : sizeof(piece);
		if (get(jit, memory, piece, len, node->image + at) || memcmp(piece, copy + at, len))
			return -EAGAIN;
	}
	return 0;
}

/* The numbers are the five steps of the first comment. -EBADMSG only if the entry stayed on the list the whole time:
 * then the image itself is unreadable, and trying again would not help. */
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
		return -EBADMSG; /* smaller than an ELF header, or above our limit */
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

/* See struct entry: section headers and names identify an object, and cost one or two short reads. 0: unreadable. */
uint64_t entry__probe(struct jit *jit, struct host_reader *memory, const struct entry *entry)
{
	uint64_t hash = 1;
	char bytes[16384];

	for (unsigned i = 0; i < 2; i++) {
		uint32_t len = entry->probe_len[i] < sizeof(bytes) ? entry->probe_len[i] : sizeof(bytes);

		if (entry->probe_offset[i] > entry->size || len > entry->size - entry->probe_offset[i])
			return 0;
		if (len && get(jit, memory, bytes, len, entry->image + entry->probe_offset[i]))
			return 0;
		hash = hash__mix(hash, hash__bytes(&jit->seed, bytes, len)) | 1;
	}
	return hash;
}
