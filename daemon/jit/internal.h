/* SPDX-License-Identifier: MIT */
/* What the files of this folder share. */
#ifndef CPROFD_JIT_INTERNAL_H
#define CPROFD_JIT_INTERNAL_H

#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/slots.h"
#include "jit/image.h"
#include "jit/jit.h"
#include "jit/spans.h"

struct list;

struct object {
	struct jit_object seen;
	struct jit_range *ranges;
	char *names;
	uint32_t names_len;
	uint32_t n_rows;
	struct jit_unwind unwind; /* eh_frame NULL: none, or taken */
	uint64_t code_index;    /* JITDUMP */
	const struct list *list; /* GDB: whose it is; lists are never moved */
};

/* An entry of a list, as it was when it was verified. */
struct entry {
	uint64_t address, next, prev; /* of a struct jit_code_entry, in the target */
	uint64_t image, size;
	uint64_t probe_offset[2];
	uint32_t probe_len[2];
	uint64_t probe;         /* a hash of those bytes */
	uint32_t object;        /* 0: nothing of it is kept */
	uint32_t walk;          /* the whole walk that saw it last */
};

struct jit_head {                /* struct jit_descriptor of GDB's manual */
	uint32_t version, action;
	uint64_t relevant, first;
};

struct list {
	uint64_t address;       /* of the descriptor */
	struct jit_head head;   /* as the last complete poll read it */
	struct entry *entries;
	uint32_t n, capacity;
	struct slots slots;     /* by entry.address */
	uint64_t complete;      /* when the last complete poll began: all entries of then are known */
	uint64_t sound;         /* all objects that live were seen to be there at that time */
	uint64_t whole_due;     /* not before */
	uint64_t retry_due;     /* not before, when it failed too often, or was slow */
	bool slow;              /* the last poll took what it may, and not all objects */
	uint32_t walk;
	uint32_t failed;        /* polls in a row */
	bool incomplete;        /* the last poll was */
	bool whole_wanted;      /* something changed since the last look at all entries */
	bool drops;             /* it was seen that objects end: Numba's never do */
};

struct perf_map {
	struct buf line;        /* the half one */
	uint64_t ended;         /* all that was written by then was given */
};

struct jitdump {
	struct buf head;        /* what is needed of the record at hand */
	uint64_t skip;          /* bytes to be passed over after it */
	bool began, closed;     /* the file's header was read; JIT_CODE_CLOSE came */
	bool own_clock;         /* timestamps are of another clock: the time of reading is taken */
	int error;
	uint64_t ended;
	struct jit_unwind unwind; /* of the next load; address: not known yet */
	uint64_t lines_of;      /* address that DEBUG_INFO came for, 0: none */
};

struct jit {
	uint64_t (*clock)(void);
	struct object *objects; /* by id */
	uint32_t n_objects, capacity;
	uint32_t next_id, origin;
	uint32_t n_dead;
	uint64_t ends; /* so many objects ended */
	size_t bytes;           /* of names, ranges, unwind */
	struct spans spans[JIT_SOURCE_COUNT];
	struct jit_reach reach;
	struct list lists[JIT_DESCRIPTORS_MAX];
	uint32_t n_lists;
	struct hash_seed seed;
	struct jit_range replaced[JIT_REPLACED_MAX]; /* the last ones, in a ring */
	uint64_t n_replaced;    /* of all times */
	bool trampolines;
	struct perf_map perf_map;
	struct jitdump dump;
	struct {
		char *bytes; /* NULL: none, or taken */
		size_t size;
		uint32_t object;
	} image; /* of the object that a list was found to have last */
	uint64_t counts[JIT_COUNT_COUNT];
};

/* --- registry.c --- */
struct object *registry__get(const struct jit *jit, uint32_t id); /* NULL */
/* What makes an object. Taken over (and emptied) on success: ranges, names, eh_frame. */
struct making {
	enum jit_source source;
	struct jit_life life;
	struct jit_image *image; /* GDB, JITDUMP: all of it; PERF_MAP: names and symbols */
	uint64_t address, size; /* GDB: where the image lies */
	struct list *list;      /* GDB */
	uint64_t code_index;
};
/* Also ends what lived where its code is. -ENOMEM, -ENOSPC. */
int registry__add(struct jit *jit, struct making *making, uint32_t *ret_id);
void registry__end(struct jit *jit, uint32_t id, uint64_t died_after, uint64_t died_by);
/* It ended as a newer one took its place, and that one ended, too: if its entry is on
 * the list, it was registered again. */
bool registry__revived(const struct jit *jit, uint32_t id);
/* CPython's Python/perf_trampoline.c writes "py::%s:%s". */
static inline bool is_trampoline(enum jit_source source, const char *name)
{
	return name && source != JIT_SOURCE_GDB && !strncmp(name, "py::", 4);
}

void registry__replaced(struct jit *jit, uint64_t start, uint64_t end);
void registry__recount(struct jit *jit); /* bytes of its objects */
void registry__free(struct jit *jit);

/* --- list.c --- */
int list__poll(struct jit *jit, struct list *list, struct host_reader *memory, bool full,
	       size_t *budget);
void list__free(struct list *list);
/* Those of its entries whose object `to` knows, or that have none. -ENOMEM: *ret is empty. */
int list__fork(const struct list *list, const struct jit *to, struct list *ret);

/* --- copy.c: one entry's image, verified --- */
struct node {
	uint64_t address, next, prev, image, size;
};
/* Reads an entry; -EFAULT. */
int node__read(struct jit *jit, struct host_reader *memory, uint64_t address, struct node *ret);
int head__read(struct jit *jit, struct host_reader *memory, uint64_t address, struct jit_head *ret);
/* Whether the entry is on the list now and still says the same. 1, 0, -EFAULT. */
int node__linked(struct jit *jit, struct host_reader *memory, const struct list *list,
		 const struct node *node);
/* 0: *ret_bytes (to be freed) is what the entry's image was at one instant at which it
 * was on the list. -EAGAIN: it changed; -ENOENT: it is gone; -EBADMSG: it stays, and
 * cannot be read; -ENOMEM. */
int node__copy(struct jit *jit, struct host_reader *memory, const struct list *list,
	       const struct node *node, char **ret_bytes);
/* A hash of what differs between objects; 0: cannot be read. */
uint64_t entry__probe(struct jit *jit, struct host_reader *memory, const struct entry *entry);

/* --- perf_map.c, jitdump.c --- */
void perf_map__free(struct perf_map *map);
void jitdump__free(struct jitdump *dump);

#endif
