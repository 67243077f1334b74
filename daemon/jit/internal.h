/* SPDX-License-Identifier: MIT */
/* Private to daemon/jit/.
 *   list.c, copy.c         source GDB: the list of objects in target memory, and verified copies of their images
 *   perf_map.c, jitdump.c  the two file formats, fed with bytes as the files grow
 *   registry.c             all objects with their lives; rows over addresses are in spans.c
 *   find.c                 the question: which function, at pc, at time
 *   fork.c                 a child's copy; image.c: parses ELF; descriptor.c: finds a list in a file */
#pragma once

#include "base/buf.h"
#include "base/hash.h"
#include "base/slots.h"
#include "jit/image.h"
#include "jit/spans.h"

struct list;

/* One JIT object with what it owns. `seen` is the public part; its `ranges` points to the same array as `ranges`
 * here. An object stays until jit__done(), so that samples from before its end still find it. */
struct object {
	struct jit_object seen;
	struct range *ranges;
	char *names;
	uint32_t names_len;
	uint32_t n_rows;
	struct jit_unwind unwind; /* eh_frame NULL: none, or taken */
	uint64_t code_index;    /* JITDUMP */
	const struct list *list; /* GDB: the list it is on; lists are never moved */
};

/* An entry of a list, as it was when its image was copied and verified. `next` and `prev` are the target's pointers,
 * updated by each walk that finds the entry unchanged. */
struct entry {
	uint64_t address, next, prev; /* of a struct jit_code_entry, in the target */
	uint64_t image, size;
	uint64_t probe_offset[2];
	uint32_t probe_len[2];
	uint64_t probe;         /* hash of the image's bytes there: another object at the same addresses has another */
	uint32_t object;        /* id; 0: none was made of it */
	uint32_t walk;          /* number of the walk that saw it last */
};

/* struct jit_descriptor in GDB's manual: 24 bytes, read at once. `relevant`: the entry that `action` is about. */
struct jit_head {
	uint32_t version, action;
	uint64_t relevant, first;
};

/* One __jit_debug_descriptor and all entries that are on it. Times are CLOCK_MONOTONIC ns; 0: never. */
struct list {
	uint64_t address;       /* of the descriptor */
	struct jit_head head;   /* as the last complete poll read it */
	struct entry *entries;
	uint32_t n, capacity;
	struct slots slots;     /* by entry.address */
	uint64_t complete;      /* when the last complete poll began: all entries that existed then are known */
	uint64_t sound;         /* at that time all living objects were seen on the list */
	uint64_t whole_due;     /* a whole walk is due, not before */
	uint64_t retry_due;     /* after too many failures, or a slow poll: the next poll, not before */
	bool slow;              /* the last poll used up its time before it had all objects */
	uint32_t walk;
	uint32_t failed;        /* failed polls in a row */
	bool incomplete;        /* the last poll did not see everything */
	bool whole_wanted;      /* something changed since the last whole walk */
	bool drops;             /* an object was seen to end; Numba's never do */
};

/* State of reading /tmp/perf-PID.map: only the line that is incomplete. Its functions are objects of the registry. */
struct perf_map {
	struct buf line;        /* begin of a line whose end has not come yet */
	uint64_t ended;         /* everything that was written by that time was read */
};

/* State of reading jit-PID.dump. Unwind information and lines come in records of their own, before the load that
 * they are for. */
struct jitdump {
	struct buf head;        /* the bytes so far of the record that is being read, without its code */
	uint64_t skip;          /* bytes to skip after it */
	bool began, closed;     /* the file's header was read; JIT_CODE_CLOSE came */
	bool own_clock;         /* timestamps are of another clock: use the time of reading */
	int error;
	uint64_t ended;
	struct jit_unwind unwind; /* belongs to the next load record; its address is not known yet */
	uint64_t lines_of;      /* address of the code that the last DEBUG_INFO describes; 0: none */
};

struct jit {
	uint64_t (*clock)(void);
	struct object *objects; /* sorted by id */
	uint32_t n_objects, capacity;
	uint32_t next_id, origin;
	uint64_t ends; /* number of objects that ended */
	size_t bytes;           /* memory of names, ranges, unwind */
	struct spans spans[JIT_SOURCE_COUNT];
	struct jit_reach reach;
	struct list lists[JIT_DESCRIPTORS_MAX];
	uint32_t n_lists;
	/* Random: a target must not be able to make objects whose probes collide. */
	struct hash_seed seed;
	struct range replaced[JIT_REPLACED_MAX]; /* the last ones, a ring */
	uint64_t n_replaced;    /* all so far */
	bool trampolines;
	struct perf_map perf_map;
	struct jitdump dump;
	struct {
		char *bytes; /* NULL: none, or taken */
		size_t size;
		uint32_t object;
	} image; /* of the newest object of a list */
	/* Since it began, for tests: objects, copies that the target changed meanwhile, objects whose address a newer
	 * one took without their being unregistered, what was too much, lines and records that are none. */
	struct {
		uint64_t taken, torn, overlaps, no_room, bad_lines, bad_records;
	} counts;
};

/* --- registry.c --- */
struct object *registry__get(const struct jit *jit, uint32_t id); /* NULL */
/* What an object is made from. On success `image` is taken over and emptied: ranges, names, eh_frame. */
struct making {
	enum jit_source source;
	struct jit_life life;
	struct jit_image *image; /* GDB, JITDUMP: all of it; PERF_MAP: names and symbols */
	uint64_t address, size; /* GDB: where the image lies */
	struct list *list;      /* GDB */
	uint64_t code_index;
};
/* Adds an object, and ends older ones where its code lies. -ENOMEM, -ENOSPC. */
int registry__add(struct jit *jit, struct making *making, uint32_t *ret_id);
/* The object was last known to live at died_after, and was gone at died_by. No effect if it has ended before. */
void registry__end(struct jit *jit, uint32_t id, uint64_t died_after, uint64_t died_by);
/* The object ended because a newer one took its addresses, and that one ended, too. If its entry is still on the list,
 * it was registered again. */
bool registry__revived(const struct jit *jit, uint32_t id);
/* CPython's Python/perf_trampoline.c writes "py::%s:%s". */
static inline bool is_trampoline(enum jit_source source, const char *name)
{
	return name && source != JIT_SOURCE_GDB && !strncmp(name, "py::", 4);
}

/* Notes that a file put other code into [start, end), for jit__replaced(). */
void registry__replaced(struct jit *jit, uint64_t start, uint64_t end);
void registry__recount(struct jit *jit); /* bytes of its objects */
void registry__free(struct jit *jit);

/* --- list.c --- */
/* Polls one list; see jit__poll(), whose results are the same. *budget: bytes of images that this poll may still
 * copy. */
int list__poll(struct jit *jit, struct list *list, struct host_reader *memory, bool full,
	       size_t *budget);
void list__free(struct list *list);
/* Copies the entries whose object `to` has, and those without an object. -ENOMEM: *ret is empty. */
int list__fork(const struct list *list, const struct jit *to, struct list *ret);

/* --- copy.c: one entry's image, verified --- */
/* An entry of a list as it is in the target at this instant (struct jit_code_entry of GDB's manual), with its own
 * address. */
struct node {
	uint64_t address, next, prev, image, size;
};
/* Reads an entry; -EFAULT. */
int node__read(struct jit *jit, struct host_reader *memory, uint64_t address, struct node *ret);
int head__read(struct jit *jit, struct host_reader *memory, uint64_t address, struct jit_head *ret);
/* Is the entry on the list now, with the same image and size? 1, 0, -EFAULT. */
int node__linked(struct jit *jit, struct host_reader *memory, const struct list *list,
		 const struct node *node);
/* 0: *ret_bytes (to be freed) is the entry's image at one instant at which the entry was on the list. -EAGAIN: it
 * changed; -ENOENT: it is gone; -EBADMSG: it is on the list and cannot be read; -ENOMEM. */
int node__copy(struct jit *jit, struct host_reader *memory, const struct list *list,
	       const struct node *node, char **ret_bytes);
/* A hash of the parts that differ between objects (struct jit_image.probe); 0: they cannot be read. */
uint64_t entry__probe(struct jit *jit, struct host_reader *memory, const struct entry *entry);

/* --- perf_map.c, jitdump.c --- */
void perf_map__free(struct perf_map *map);
void jitdump__free(struct jitdump *dump);
