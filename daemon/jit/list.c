/* SPDX-License-Identifier: MIT */
/* Follows one list of JIT objects (GDB's interface) by polling it from outside.
 *
 * New entries: LLVM, like every JIT whose source was read, links a new entry at the head. So a poll walks from the head
 * until it reaches an entry that is known and unchanged.
 *
 * Ended entries: one that was unlinked further down shows only in the descriptor's `relevant_entry`, and not even there
 * if another was registered since. So after any change the whole list is walked once, later: for at most 1 % of the
 * time if the list is known to drop objects, and for 1/40 of that if not (Numba's never does). Seeing an end late does
 * no harm: no pc lies in freed code, and new code at its addresses ends it (registry.c).
 *
 * No change: if descriptor, head entry and the head's names are as before, the poll is done. Names (the "probe") are
 * compared because a function that is dropped and compiled again may get the same addresses. For entries after an
 * unchanged one this is not needed: to change, they would have had to be linked anew, in front of it. But if the list
 * drops objects, an entry that looks unchanged may be another one with the same names; PROOF such entries in a row are
 * not.
 *
 * One case is missed: after a drop, between two polls, an entry appears at the address of the dropped one and ends, and
 * another one is dropped meanwhile. The next change shows it. */
#include <errno.h>

#include "base/cleanup.h"
#include "jit/internal.h"

#define JIT_UNREGISTER 2u  /* of GDB's manual */
#define ROUNDS 4u          /* tries of one poll while the list changes */
#define WHOLE_SHARE 100u   /* whole walks take at most 1/100 of the time, */
#define STEADY_SHARE 4000u /* and 1/4000 if nothing was ever dropped */
#define PROOF 16u          /* unchanged entries in a row after which the rest counts as unchanged */
#define KEPT_MAX (1u << 20) /* bytes of an image that is kept for jit__take_image() */
#define FAILED_MAX 16u     /* after so many polls with inconsistent links it may not be a list at all: */
#define RETRY_SHARE 20u    /* try again for 1/20 of the time only */
#define SLOW_SHARE 4u
/* A poll may spend TAKE_NS on taking objects; then it pauses SLOW_SHARE times as long. An object's cost grows with the
 * number of older ones at its addresses, so a hostile target could make it arbitrarily slow. */
#define TAKE_NS 100000000ull

static bool hash_entry(const void *holder, uint32_t row, uint64_t *ret)
{
	const struct list *list = holder;

	*ret = list->entries[row].address * 0x9e3779b97f4a7c15ull >> 16;
	return true;
}

/* The entry at this address in the target, by a hash index; NULL: none. Pointers into list->entries are valid until
 * remember(). */
static struct entry *known(const struct list *list, uint64_t address)
{
	uint32_t row = SLOTS_FIND(&list->slots, i, address * 0x9e3779b97f4a7c15ull >> 16,
				  list->entries[i].address == address);

	return row == SLOTS_NONE ? NULL : &list->entries[row];
}

/* Adds the entry, or replaces the one at its address. */
static int remember(struct list *list, const struct entry *entry)
{
	struct entry *there = known(list, entry->address);

	if (!there)
		return SLOTS_ADD(&list->slots, hash_entry, list, list->entries, list->n, list->capacity, *entry);
	*there = *entry;
	return 0;
}

/* True as well of an entry without a probe: nothing was made of it, so there is nothing to confuse it with. */
static bool has_names(struct jit *jit, struct host_reader *memory, const struct entry *entry)
{
	return !entry->probe || entry__probe(jit, memory, entry) == entry->probe;
}

/* Is the entry still the same object? `behind`: a later one is unchanged, so its names need not be compared. */
static bool unchanged(struct jit *jit, struct host_reader *memory, const struct entry *entry,
		      const struct node *node, bool behind)
{
	return entry->image == node->image && entry->size == node->size &&
	       (behind || has_names(jit, memory, entry)) &&
	       !registry__revived(jit, entry->object);
}

/* --- the walk --- */

struct walk {
	struct node *fresh;     /* unknown entries, the newest first */
	uint32_t n, capacity;
	bool truncated;         /* more than JIT_ENTRIES_MAX */
};

/* Walks from `first` to the first unchanged entry (`whole`: to the end). `proof`: compare names until so many entries
 * in a row were unchanged. -EAGAIN: links are inconsistent, so the target is changing them. */
static int walk(struct jit *jit, struct list *list, struct host_reader *memory, uint64_t first,
		bool whole, uint32_t proof, struct walk *ret)
{
	uint64_t at = first, before = 0;
	uint32_t steps, proven = 0;
	bool behind = false;
	int err;

	ret->n = 0;
	ret->truncated = false;
	for (steps = 0; at; steps++) {
		struct entry *entry = known(list, at);
		struct node node;

		if (steps == JIT_ENTRIES_MAX) {
			ret->truncated = true;
			break;
		}
		/* Each entry's `prev` must be the one before: that also excludes cycles. */
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
			err = ARRAY_ADD(ret->fresh, ret->n, ret->capacity, node);
			if (err)
				return err;
		}
		before = at;
		at = node.next;
	}
	return 0;
}

/* --- taking what a walk found --- */

/* Makes an object of a verified copy. An image that cannot be parsed is counted, and its entry is remembered without
 * an object, so that it is not copied at each poll. The object was born after the last complete poll and before now. */
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
	int err = jit_image__parse(bytes, node->size, &image);

	if (err)
		return err == -EBADMSG ? 0 : err;
	for (unsigned i = 0; i < 2; i++) {
		entry->probe_offset[i] = image.probe[i].offset;
		entry->probe_len[i] = image.probe[i].len;
	}
	making.life = (struct jit_life){.born_after = list->complete, .born_by = jit->clock()};
	err = registry__add(jit, &making, &entry->object);
	jit_image__free(&image);
	if (err == -ENOSPC)
		return 0; /* counted; the entry is remembered, so that it is not read again */
	jit->counts.taken += !err;
	return err;
}

/* A host_reader over a copy in our memory, for entry__probe(). */
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

/* The probe comes from the copy, as the target's memory may hold another object by now. */
static uint64_t probe_copy(struct jit *jit, const struct entry *entry, const char *bytes)
{
	struct copy_reader copy = {{read_copy}, bytes, entry->image};

	return entry->object ? entry__probe(jit, &copy.reader, entry) : 0;
}

/* Keeps the newest image: mostly one object comes at a time, and its lines are read next (jit__take_image). */
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

/* Copies one new entry and makes an object of it. If another object is known at the entry's address, that one has
 * ended: malloc() gave its memory out again. */
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

	if (former && (!err || err == -ENOENT || err == -EBADMSG)) { /* the known object at this entry is gone */
		registry__end(jit, former->object, list->sound, jit->clock());
		list->drops = true;
		former->image = former->size = 0;
	}
	if (err == -EBADMSG)
		return remember(list, &entry);
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

/* Takes all new entries, oldest first, so that ids are in the order of registration. -EAGAIN: one changed; walk again.
 * -ENOBUFS: out of time or bytes; the next poll takes the rest. */
static int take_all(struct jit *jit, struct list *list, struct host_reader *memory,
		    const struct walk *walk, size_t *budget, bool *ret_changed)
{
	uint64_t begin = jit->clock();
	int err;

	for (uint32_t i = walk->n; i-- > 0;) {
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
			list->drops = true;
			continue;
		}
		if (err == -EAGAIN)
			jit->counts.torn++;
		if (err)
			return err;
		*ret_changed = true;
	}
	return 0;
}

/* --- ends --- */

/* Keeps the first n entries and rebuilds the hash index. */
static void shrink(struct list *list, uint32_t n)
{
	uint64_t hash;

	list->n = n;
	slots__clear(&list->slots);
	for (uint32_t i = 0; i < n; i++) {
		hash_entry(list, i, &hash);
		slots__enter(&list->slots, hash, i);
	}
}

/* Is the entry still linked, with the same names? (Another may have taken its place since the walk.) */
static bool is_there(struct jit *jit, struct list *list, struct host_reader *memory,
		     const struct entry *entry)
{
	struct node node = {entry->address, 0, 0, entry->image, entry->size};

	return node__linked(jit, memory, list, &node) != 0 && has_names(jit, memory, entry);
}

/* After a whole walk: an entry that the walk did not see and that is not linked has ended. */
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

/* Is nothing new? Costs 3 reads: descriptor (by the caller), head entry, its probe. */
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

/* One poll: up to ROUNDS walks while the target changes its list. Order matters: `begin` is taken before the head is
 * read, so that "complete at begin" is true for entries linked before; list->head is stored only after all was
 * taken, else the next poll would take the list for unchanged. 1: something new or ended; 0; -EAGAIN: more to do;
 * -EFAULT, -ENOMEM. */
int list__poll(struct jit *jit, struct list *list, struct host_reader *memory, bool full,
	       size_t *budget)
{
	_cleanup_free_ struct node *nodes = NULL;
	struct walk found = {};
	struct jit_head head;
	uint64_t begin = 0;
	bool whole = false, news = false;
	int err = -EAGAIN;

	for (unsigned round = 0; round < ROUNDS && err == -EAGAIN; round++) {
		begin = jit->clock();
		if ((list->failed >= FAILED_MAX || list->slow) && begin < list->retry_due)
			return list->slow ? -EAGAIN : 0;
		list->slow = false;
		err = head__read(jit, memory, list->address, &head);
		if (err)
			return -EFAULT;
		if (head.version != 1) /* there is only version 1; 0: the library is still being loaded */
			return 0;
		whole = full || (list->whole_wanted && begin >= list->whole_due);
		if (!whole && quiet(jit, list, memory, &head)) {
			list->complete = begin;
			/* nothing changed since the last whole walk, so all objects are still there */
			if (!list->whole_wanted)
				list->sound = begin;
			return news;
		}
		list->whole_wanted = true;
		list->drops |= head.action == JIT_UNREGISTER;
		list->walk++;
		err = walk(jit, list, memory, head.first, whole, full ? UINT32_MAX : list->drops ? PROOF : 0, &found);
		nodes = found.fresh;
		err = err ?: take_all(jit, list, memory, &found, budget, &news);
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
	/* All entries that were linked when this round began are known, or are gone. */
	list->complete = begin;
	return err ? err : news;
}

void list__free(struct list *list)
{
	free(list->entries);
	free(list->slots.slots);
}

/* Entries whose objects the child did not get are left out: its first poll finds what is there now. */
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
	for (uint32_t i = 0; i < jit->n_lists; i++)
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

	for (uint32_t i = 0; i < jit->n_lists; i++) {
		int got = list__poll(jit, &jit->lists[i], memory, full, &budget);

		if (got == -EAGAIN)
			more = true;
		else if (got < 0)
			return got;
		else
			news |= got;
	}
	return more ? -EAGAIN : news;
}
