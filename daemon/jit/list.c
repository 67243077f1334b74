/* SPDX-License-Identifier: MIT */
/* One list of objects, followed from outside.
 *
 * LLVM (and all that were read) push a new entry at the head: a poll walks from the
 * head until it meets an entry that it knows and that is as it was. Entries that are
 * unlinked further down show only in the descriptor's `relevant_entry`, and not at all
 * when another was registered since: after any change the whole list is walked once
 * more, later: for at most 1 % of the time of a list that was seen to drop objects, and
 * for 1/40 of that of one that was not (Numba's never does). An end that is seen late does
 * no harm: no pc lies in code that is gone, and code that comes to its place ends it (registry.c).
 *
 * A poll that finds descriptor, head entry and the head's names as they were is done.
 * The names are looked at since a function that is dropped and compiled again may come
 * to the very addresses of the former. What lies behind an entry that is as it was is not
 * looked at so: it would have had to come back in front of it. Where something was dropped,
 * an entry that is as it was may be another with the same names; of PROOF in a row not all are.
 * One thing is not seen: after a drop, between two looks, an entry that comes and goes at the
 * address of the dropped one, with another dropped meanwhile. The next change shows it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "jit/internal.h"

#define JIT_UNREGISTER 2u  /* of GDB's manual */
#define ROUNDS 4u          /* over a list that changes */
#define WHOLE_SHARE 100u   /* whole walks take at most 1/100 of the time, */
#define STEADY_SHARE 4000u /* and 1/4000 where nothing was ever dropped */
#define PROOF 16u
#define KEPT_MAX (1u << 20) /* bytes of an image */
#define FAILED_MAX 16u     /* polls that met links that do not fit: it may not be a list at all, */
#define RETRY_SHARE 20u    /* and is tried for 1/20 of the time */
#define SLOW_SHARE 4u
/* At once, and then not for SLOW_SHARE times as long: what one object costs grows with how many others lay where it
 * lies. */
#define TAKE_NS 100000000ull

static bool hash_entry(const void *holder, uint32_t row, uint64_t *ret)
{
	const struct list *list = holder;

	*ret = list->entries[row].address * 0x9e3779b97f4a7c15ull >> 16;
	return true;
}

static struct entry *known(const struct list *list, uint64_t address)
{
	uint32_t at, row;

	if (!list->slots.capacity)
		return NULL;
	for (at = slots__first(&list->slots, address * 0x9e3779b97f4a7c15ull >> 16);
	     slots__row(&list->slots, at, &row); at = slots__next(&list->slots, at))
		if (list->entries[row].address == address)
			return &list->entries[row];
	return NULL;
}

static int remember(struct list *list, const struct entry *entry)
{
	struct entry *there = known(list, entry->address);
	uint64_t hash;
	int err;

	if (there) {
		*there = *entry;
		return 0;
	}
	err = slots__reserve(&list->slots, list->n, hash_entry, list);
	if (!err)
		err = array__reserve((void **)&list->entries, sizeof(*list->entries), list->n,
				     &list->capacity);
	if (err)
		return err;
	list->entries[list->n] = *entry;
	hash_entry(list, list->n, &hash);
	slots__enter(&list->slots, hash, list->n++);
	return 0;
}

static bool has_names(struct jit *jit, struct host_reader *memory, const struct entry *entry)
{
	return !entry->probe || entry__probe(jit, memory, entry) == entry->probe;
}

/* `behind`: one that was registered later is as it was. */
static bool unchanged(struct jit *jit, struct host_reader *memory, const struct entry *entry,
		      const struct node *node, bool behind)
{
	return entry->image == node->image && entry->size == node->size &&
	       (behind || has_names(jit, memory, entry)) &&
	       !registry__revived(jit, entry->object);
}

/* --- the walk --- */

struct walk {
	struct node *fresh;     /* entries that are not known, the newest first */
	uint32_t n, capacity;
	bool truncated;         /* more than JIT_ENTRIES_MAX */
};

/* `proof`: of so many entries in a row the names are looked at. -EAGAIN: links do not fit together: they are being
 * changed. */
static int walk(struct jit *jit, struct list *list, struct host_reader *memory, uint64_t first,
		bool whole, uint32_t proof, struct walk *ret)
{
	uint64_t at = first, before = 0;
	uint32_t steps, proven = 0;
	bool behind = false;
	int err;

	jit->counts[JIT_COUNT_WALKS]++;
	ret->n = 0;
	ret->truncated = false;
	for (steps = 0; at; steps++) {
		struct entry *entry = known(list, at);
		struct node node;

		if (steps == JIT_ENTRIES_MAX) {
			ret->truncated = true;
			break;
		}
		/* A link back that fits at each step leaves no room for a cycle. */
		if (node__read(jit, memory, at, &node) || node.prev != before)
			return -EAGAIN;
		if (entry && unchanged(jit, memory, entry, &node, behind && entry->next == node.next)) {
			bool same_next = entry->next == node.next;

			proven += entry->probe != 0;
			behind = same_next && proven >= proof;
			entry->prev = node.prev;
			entry->next = node.next;
			entry->walk = list->walk;
			if (same_next && !whole)
				break;
		} else {
			behind = false;
			proven = 0;
			err = array__reserve((void **)&ret->fresh, sizeof(node), ret->n,
					     &ret->capacity);
			if (err)
				return err;
			ret->fresh[ret->n++] = node;
		}
		before = at;
		at = node.next;
	}
	return 0;
}

/* --- taking what a walk found --- */

static int keep(struct jit *jit, struct list *list, const struct node *node, const char *bytes,
		struct entry *entry)
{
	struct jit_image image;
	struct making making = {
		.source = JIT_SOURCE_GDB,
		.image = &image,
		.address = node->image,
		.size = node->size,
		.list = list,
	};
	unsigned i;
	int err = jit_image__parse(bytes, node->size, &image);

	if (err == -EBADMSG)
		jit->counts[JIT_COUNT_REFUSED]++;
	if (err)
		return err == -EBADMSG ? 0 : err;
	for (i = 0; i < 2; i++) {
		entry->probe_offset[i] = image.probe[i].offset;
		entry->probe_len[i] = image.probe[i].len;
	}
	making.life = (struct jit_life){.born_after = list->complete, .born_by = jit->clock()};
	err = registry__add(jit, &making, &entry->object);
	jit_image__free(&image);
	if (err == -ENOSPC)
		return 0; /* counted; not to be read again */
	jit->counts[JIT_COUNT_TAKEN] += !err;
	return err;
}

struct copy_reader {
	struct host_reader reader;
	const char *bytes;
	uint64_t base;
};

static int read_copy(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	const struct copy_reader *copy = (const struct copy_reader *)self;

	memcpy(dst, copy->bytes + (address - copy->base), size); /* entry__probe checked it */
	return 0;
}

/* The probe is read from the copy: what the target has now may be another's. */
static uint64_t probe_copy(struct jit *jit, const struct entry *entry, const char *bytes)
{
	struct copy_reader copy = {{read_copy}, bytes, entry->image};

	return entry->object ? entry__probe(jit, &copy.reader, entry) : 0;
}

/* Most often one object comes at a time, and its image is asked for next. */
static void keep_image(struct jit *jit, uint32_t object, char *bytes, size_t size)
{
	free(jit->image.bytes);
	jit->image.bytes = bytes;
	jit->image.size = size;
	jit->image.object = object;
}

int jit__take_image(struct jit *jit, uint32_t id, void **ret_bytes, size_t *ret_size)
{
	if (!jit->image.bytes || jit->image.object != id)
		return -ENOENT;
	*ret_bytes = take_ptr(jit->image.bytes);
	*ret_size = jit->image.size;
	return 0;
}

static int take(struct jit *jit, struct list *list, struct host_reader *memory,
		const struct node *node)
{
	struct entry *former = known(list, node->address);
	struct entry entry = {
		.address = node->address,
		.next = node->next,
		.prev = node->prev,
		.image = node->image,
		.size = node->size,
		.walk = list->walk,
	};
	_cleanup_free_ char *bytes = NULL;
	int err = node__copy(jit, memory, list, node, &bytes);

	if (former && (!err || err == -ENOENT || err == -EBADMSG)) { /* another is there now, or none */
		registry__end(jit, former->object, list->sound, jit->clock());
		list->drops = true;
		former->image = former->size = 0;
	}
	if (err == -EBADMSG) {
		jit->counts[JIT_COUNT_REFUSED]++;
		return remember(list, &entry);
	}
	if (err)
		return err;
	err = keep(jit, list, node, bytes, &entry);
	if (err)
		return err;
	entry.probe = probe_copy(jit, &entry, bytes);
	if (entry.object && node->size <= KEPT_MAX)
		keep_image(jit, entry.object, take_ptr(bytes), node->size);
	return remember(list, &entry);
}

/* Oldest first, so that ids are in the order of registration. -EAGAIN: not all. -ENOBUFS: the rest comes with the next
 * poll. */
static int take_all(struct jit *jit, struct list *list, struct host_reader *memory,
		    const struct walk *walk, size_t *budget, bool *ret_changed)
{
	uint64_t begin = jit->clock();
	uint32_t i;
	int err;

	for (i = walk->n; i-- > 0;) {
		const struct node *node = &walk->fresh[i];

		if (jit->clock() >= begin + TAKE_NS) {
			list->slow = true;
			return -ENOBUFS;
		}
		if (*budget < node->size && node->size <= JIT_IMAGE_MAX)
			return -ENOBUFS;
		err = take(jit, list, memory, node);
		if (node->size <= JIT_IMAGE_MAX)
			*budget -= node->size;
		if (err == -ENOENT) {
			jit->counts[JIT_COUNT_VANISHED]++;
			list->drops = true;
			continue;
		}
		if (err == -EAGAIN)
			jit->counts[JIT_COUNT_TORN]++;
		if (err)
			return err;
		*ret_changed = true;
	}
	return 0;
}

/* --- ends --- */

/* The first n entries are those that stay. */
static void shrink(struct list *list, uint32_t n)
{
	uint64_t hash;
	uint32_t i;

	list->n = n;
	memset(list->slots.slots, 0, list->slots.capacity * sizeof(*list->slots.slots));
	for (i = 0; i < n; i++) {
		hash_entry(list, i, &hash);
		slots__enter(&list->slots, hash, i);
	}
}

/* Is it still that one, or did another come to its place since the walk? */
static bool is_there(struct jit *jit, struct list *list, struct host_reader *memory,
		     const struct entry *entry)
{
	struct node node = {entry->address, 0, 0, entry->image, entry->size};

	return node__linked(jit, memory, list, &node) != 0 && has_names(jit, memory, entry);
}

/* After a whole walk: what it did not meet, and what is not linked, has ended. */
static int sweep(struct jit *jit, struct list *list, struct host_reader *memory, bool *ret_changed)
{
	uint32_t i, n = 0;

	for (i = 0; i < list->n; i++) {
		struct entry *entry = &list->entries[i];

		if (entry->walk != list->walk && !is_there(jit, list, memory, entry)) {
			registry__end(jit, entry->object, list->sound, jit->clock());
			list->drops = true;
			*ret_changed = true;
			continue;
		}
		list->entries[n++] = *entry;
	}
	if (n != list->n)
		shrink(list, n);
	return 0;
}

static bool quiet(struct jit *jit, const struct list *list, struct host_reader *memory,
		  const struct jit_head *head)
{
	struct entry *first;
	struct node node;

	if (list->incomplete || memcmp(head, &list->head, sizeof(*head)))
		return false;
	if (!head->first)
		return true;
	first = known(list, head->first);
	return first && !node__read(jit, memory, head->first, &node) && node.next == first->next &&
	       unchanged(jit, memory, first, &node, false);
}

int list__poll(struct jit *jit, struct list *list, struct host_reader *memory, bool full,
	       size_t *budget)
{
	_cleanup_free_ struct node *nodes = NULL;
	struct walk found = {};
	struct jit_head head;
	uint64_t begin = 0;
	bool whole = false, news = false;
	int err = -EAGAIN;
	unsigned round;

	for (round = 0; round < ROUNDS && err == -EAGAIN; round++) {
		begin = jit->clock();
		if ((list->failed >= FAILED_MAX || list->slow) && begin < list->retry_due)
			return list->slow ? -EAGAIN : 0;
		list->slow = false;
		err = head__read(jit, memory, list->address, &head);
		if (err)
			return -EFAULT;
		if (head.version != 1) /* the interface has one version; 0: not loaded yet */
			return 0;
		whole = full || (list->whole_wanted && begin >= list->whole_due);
		if (!whole && quiet(jit, list, memory, &head)) {
			jit->counts[JIT_COUNT_QUIET]++;
			list->complete = begin;
			if (!list->whole_wanted) /* what did not change is as the last whole walk saw it */
				list->sound = begin;
			return news;
		}
		list->whole_wanted = true;
		list->drops |= head.action == JIT_UNREGISTER;
		list->walk++;
		err = walk(jit, list, memory, head.first, whole, full ? UINT32_MAX : list->drops ? PROOF : 0, &found);
		nodes = found.fresh;
		if (!err)
			err = take_all(jit, list, memory, &found, budget, &news);
	}
	list->incomplete = err != 0;
	list->failed = err == -EAGAIN ? list->failed + 1 : 0;
	list->retry_due = jit->clock() + (jit->clock() - begin) * (list->slow ? SLOW_SHARE : RETRY_SHARE);
	if (err)
		return err == -ENOBUFS ? -EAGAIN : err;
	list->head = head;
	if (whole) {
		err = found.truncated ? 0 : sweep(jit, list, memory, &news);
		list->whole_wanted = false;
		list->sound = begin;
		list->whole_due = jit->clock() + (jit->clock() - begin) * (list->drops ? WHOLE_SHARE : STEADY_SHARE);
	}
	/* All that was linked when the round began is known, or has gone. */
	list->complete = begin;
	return err ? err : news;
}

void list__free(struct list *list)
{
	free(list->entries);
	free(list->slots.slots);
}

int list__fork(const struct list *list, const struct jit *to, struct list *ret)
{
	size_t slots = list->slots.capacity * sizeof(*list->slots.slots);
	uint32_t i, n = 0;

	*ret = *list;
	ret->capacity = list->n + 64; /* arrays grow by half */
	ret->entries = malloc(ret->capacity * sizeof(*ret->entries));
	ret->slots.slots = slots ? malloc(slots) : NULL;
	if (!ret->entries || (slots && !ret->slots.slots)) {
		list__free(ret);
		*ret = (struct list){};
		return -ENOMEM;
	}
	for (i = 0; i < list->n; i++)
		if (!list->entries[i].object || registry__get(to, list->entries[i].object))
			ret->entries[n++] = list->entries[i];
	if (slots)
		shrink(ret, n);
	return 0;
}

int jit__add_descriptor(struct jit *jit, uint64_t address)
{
	uint32_t i;

	for (i = 0; i < jit->n_lists; i++)
		if (jit->lists[i].address == address)
			return 0;
	if (jit->n_lists == JIT_DESCRIPTORS_MAX)
		return -ENOSPC;
	jit->lists[jit->n_lists++] = (struct list){.address = address};
	return 0;
}

int jit__poll(struct jit *jit, struct host_reader *memory, bool full)
{
	size_t budget = JIT_POLL_BYTES;
	bool news = false, more = false;
	uint32_t i;
	int got;

	for (i = 0; i < jit->n_lists; i++) {
		got = list__poll(jit, &jit->lists[i], memory, full, &budget);
		if (got == -EAGAIN)
			more = true;
		else if (got < 0)
			return got;
		else
			news |= got;
	}
	return more ? -EAGAIN : news;
}
