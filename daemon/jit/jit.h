/* SPDX-License-Identifier: MIT */
/* Jit: the code that JIT compilers make in a running target, found from outside
 * while the target runs on. Three sources are read, and one question is answered:
 * which function was at `pc` at `time`?
 *
 *   GDB        the list of in-memory ELF objects that a JIT keeps for debuggers
 *              ("JIT Compilation Interface" in GDB's manual): LLVM, so Numba, JAX
 *   JITDUMP    jit-PID.dump (Linux, tools/perf/Documentation/jitdump-specification.txt)
 *   PERF_MAP   /tmp/perf-PID.map (the same, jit-interface.txt): Node, Java, CPython -X perf
 *
 * One `struct jit` for each process image (an exec begins a new one). What it reads
 * are the target's bytes, which may be anything and may change meanwhile; memory and
 * time are bounded by the limits below, and what was refused is counted.
 *
 * Owner: the caller owns the struct jit; all that is returned is borrowed from it,
 * valid until the next call that takes a `struct jit *` without const.
 * Units: addresses are the target's; times are CLOCK_MONOTONIC ns; sizes are bytes.
 * Threads: one at a time. Errors: -errno; nothing is printed. docs/jit.md tells how
 * it works and what it costs. */
#ifndef CPROFD_JIT_JIT_H
#define CPROFD_JIT_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cprofd/host.h"
#include "jit/reach.h"

#define JIT_DESCRIPTORS_MAX 16u
#define JIT_ENTRIES_MAX 65536u         /* of one list */
#define JIT_IMAGE_MAX (64u << 20)      /* one ELF image; XLA's largest are some MB */
#define JIT_BYTES_MAX (64u << 20)      /* all that is kept */
#define JIT_POLL_BYTES (64u << 20)     /* of images, in one poll */
#define JIT_NAME_MAX 65535u            /* longer names are cut */

enum jit_source { JIT_SOURCE_GDB, JIT_SOURCE_JITDUMP, JIT_SOURCE_PERF_MAP, JIT_SOURCE_COUNT };

/* What was met. X(id, sentence) */
#define JIT_COUNTS(X) \
	X(QUIET, "polls of a list that had not changed") \
	X(WALKS, "walks along a list") \
	X(READS, "reads of the target's memory") \
	X(TAKEN, "objects that were taken") \
	X(TORN, "copies that were thrown away, as the target changed them meanwhile") \
	X(VANISHED, "objects that were gone before they could be copied") \
	X(REFUSED, "objects that are no ELF image, or too large") \
	X(OVERLAPS, "objects whose address a newer one took without their being unregistered") \
	X(NO_ROOM, "objects and functions that were not kept: too many") \
	X(BAD_LINES, "lines of a perf map that are none") \
	X(BAD_RECORDS, "records of a jitdump that do not fit together")
#define JIT_COUNT_ENUM(id, sentence) JIT_COUNT_##id,
enum jit_count { JIT_COUNTS(JIT_COUNT_ENUM) JIT_COUNT_COUNT };
#undef JIT_COUNT_ENUM

struct jit;
/* CLOCK_MONOTONIC when `clock` is NULL; tests have their own. */
int jit__new(uint64_t (*clock)(void), struct jit **ret);
struct jit *jit__free(struct jit *jit); /* NULL */
/* What a forked child has of it: the objects that can have been there at `time_ns`, with their ids, and
 * the lists as they were known; jit__poll() with the child's memory tells the rest. */
int jit__fork(const struct jit *jit, uint64_t time_ns, struct jit **ret);
/* A number that objects taken from now on have: who made them. After jit__fork() those of the parent
 * keep theirs, so that (maker, id) is an object, whichever of its heirs runs it. 0 at first. */
void jit__set_origin(struct jit *jit, uint32_t origin);
uint64_t jit__count(const struct jit *jit, enum jit_count count);
size_t jit__bytes(const struct jit *jit);

/* --- source GDB --- */

/* Where a module keeps its list: the address of __jit_debug_descriptor. `file` is
 * the ELF file; `bias` is what was added to its addresses. Linear in the size of its symbol table
 * (3-15 ms for libjax_common.so, 329 MB). -ENOENT: it has symbols, and no descriptor; -ENODATA: it
 * is stripped, so whether it has one cannot be told; -EBADMSG: it is no ELF file that can be read.
 */
struct elf_bytes;
int jit_descriptor__find(const struct elf_bytes *file, uint64_t bias, uint64_t *ret_address);

/* Adds a descriptor to those that are polled. 0 (also when it is there already), -ENOSPC. */
int jit__add_descriptor(struct jit *jit, uint64_t address);

/* Other code may come to where code was: a list dropped objects, or there are files of it. */
bool jit__replaces(const struct jit *jit);

/* Where there ever was code. */
const struct jit_reach *jit__reach(const struct jit *jit);

/* Looks for changes of all lists. Meant to be called each 20 to 100 ms, and at once when a
 * pc is not known: quiet, it costs 3 reads a list (4 at most). `memory` reads the target's
 * memory; the target may run. `full`: look through whole lists, too (else that is
 * done when something changed, for at most 1 % of the time; 0.025 % as long as nothing was dropped).
 * 1: there are new objects, or some ended; 0: nothing; -EAGAIN: a list changed while
 * it was read, and there is more to come: call again soon; -ENOMEM; -EFAULT: memory
 * cannot be read (the process ended). What was verified is kept in every case. */
int jit__poll(struct jit *jit, struct host_reader *memory, bool full);

/* --- sources JITDUMP and PERF_MAP: the bytes that follow those given before, cut
 * anywhere. 0, -ENOMEM; a jitdump: -EBADMSG, -ENOTSUP: it can be read no further. --- */
int jit__perf_map(struct jit *jit, const void *bytes, size_t len);
int jit__jitdump(struct jit *jit, const void *bytes, size_t len);
/* The file ended at `time` where the bytes that were given do: what comes later was written later. */
void jit__file_ended(struct jit *jit, enum jit_source source, uint64_t time);
/* The file was truncated, or is another one now: bytes begin anew. What is known stays. */
void jit__perf_map_restart(struct jit *jit);
void jit__jitdump_restart(struct jit *jit);
/* So many of the jitdump's next bytes, at most `most`, are code that nobody looks at: they are taken as given. */
uint64_t jit__jitdump_skip(struct jit *jit, uint64_t most);

enum jit_kind {
	JIT_KIND_CODE,
	JIT_KIND_PY_TRAMPOLINE, /* CPython -X perf: name is "py::QUALNAME:FILE"; it only calls the
				 * interpreter, which has a frame of its own */
};

struct jit_range {
	uint64_t start, end;
};

/* A function of one of these files. */
struct jit_function {
	uint64_t start, size;
	uint32_t object, serial; /* as jit_found */
	enum jit_kind kind;
};
/* Those that begin in [lo, hi), by address, and of which the beginning is theirs now (also where the list has one).
 * At most `max`. */
uint32_t jit__functions(const struct jit *jit, uint64_t lo, uint64_t hi, struct jit_function *ret, uint32_t max);
/* Is one of them of kind JIT_KIND_PY_TRAMPOLINE? */
bool jit__has_trampolines(const struct jit *jit);
/* Where code of theirs was replaced since `*cursor`, which is moved on: at most JIT_REPLACED_MAX. UINT32_MAX: it was
 * more, so it may have been anywhere. */
#define JIT_REPLACED_MAX 256u
uint32_t jit__replaced(const struct jit *jit, uint64_t *cursor, struct jit_range *ret);

/* --- the question --- */

struct jit_found {
	const char *name;       /* as the JIT wrote it (mangled); any bytes but NUL. NULL: the
				 * object is known, and none of its functions is there */
	uint64_t start, size;   /* of the function; without a name, of the text around it */
	enum jit_source source;
	enum jit_kind kind;
	uint32_t object;
	uint32_t serial;        /* in a perf map's object: several may have begun at one address */
	uint32_t origin;
	bool doubtful;          /* the time lies between two looks at the list, by a JIT that drops
				 * objects: another one, perhaps never seen, can have been there */
};

/* -ENOENT: nothing is known to have been there at that time. An answer that is doubtful
 * may be certain after the next poll: ask again then, where it matters. */
int jit__find(const struct jit *jit, uint64_t pc, uint64_t time_ns, struct jit_found *ret);

/* --- objects: an ELF image of the list, a record of a jitdump, a batch of lines --- */

/* It was not there at born_after, and it was at born_by; it was still there at
 * died_after, and not any more at died_by (0: it lives). */
struct jit_life {
	uint64_t born_after, born_by;
	uint64_t died_after, died_by;
};

struct jit_object {
	uint32_t id;            /* a serial number from 1, in the order of registration as far as told */
	uint32_t origin;         /* jit__set_origin() */
	enum jit_source source;
	struct jit_life life;
	const struct jit_range *ranges; /* of code, by address; none: a perf map */
	uint32_t n_ranges;
	uint32_t n_symbols;
	uint64_t image, image_size; /* GDB: where the image lies in the target's memory */
	bool has_lines;         /* GDB: .debug_line; JITDUMP: DEBUG_INFO came */
	bool has_unwind;        /* unwind information is there to be taken */
	bool had_unwind;        /* it is, or was */
};

/* The object with the smallest id >= `id`; NULL: none. */
const struct jit_object *jit__object(const struct jit *jit, uint32_t id);

/* How many have ended so far. */
uint64_t jit__ends(const struct jit *jit);

/* The symbols of an object, in no order; linear in all that is known. */
typedef void jit_symbol_fn(void *ctx, const char *name, uint64_t start, uint64_t size);
void jit__each_symbol(const struct jit *jit, uint32_t id, jit_symbol_fn *fn, void *ctx);

/* .eh_frame as it is at `address`: relocated here, as the image's own copy is not. */
struct jit_unwind {
	uint8_t *eh_frame;      /* the caller's now: free() */
	size_t len;
	uint64_t address;
	bool whole;             /* all relocations were applied (but for undefined personalities) */
};
/* Once for each object. -ENOENT: it has none, or it was taken. */
int jit__take_unwind(struct jit *jit, uint32_t id, struct jit_unwind *ret);
/* The image of the object that a list was found to have last: the caller's now, free(). -ENOENT: it is another's, or
 * was taken; it may be in the target's memory still. */
int jit__take_image(struct jit *jit, uint32_t id, void **ret_bytes, size_t *ret_size);

/* No question will be asked about times before `time_ns`: what ended by then may go. */
void jit__done(struct jit *jit, uint64_t time_ns);

#endif
