/* SPDX-License-Identifier: MIT */
/* Jit: code that JIT compilers create in a running target, found from outside while the target runs. It reads three
 * sources and answers one question: which function was at `pc` at `time`?
 *
 *   GDB        the list of in-memory ELF objects that a JIT keeps for debuggers
 *              ("JIT Compilation Interface" in GDB's manual): LLVM, so Numba, JAX
 *   JITDUMP    jit-PID.dump (Linux, tools/perf/Documentation/jitdump-specification.txt)
 *   PERF_MAP   /tmp/perf-PID.map (the same, jit-interface.txt): Node, Java, CPython -X perf
 *
 * Example: Numba compiles foo() to 0x7f0c12a41000. A poll finds its ELF image on LLVM's list and makes an object of it.
 * jit__find(jit, 0x7f0c12a41020, time of a sample) gives {name "_ZN8__main__3foo...", start 0x7f0c12a41000, object 7}.
 *
 * There is one `struct jit` for each process image (an exec begins a new one). All input is the target's bytes: they
 * may be anything, and may change while they are read. Memory and time are bounded by the limits below; what exceeds
 * them is counted.
 *
 * Callers: modules/, which polls lists and reads the files, and codemap/find.c, which asks the question.
 *
 * Owner: the caller owns the struct jit; everything returned is borrowed from it, valid until the next call that takes
 * a `struct jit *` without const. Units: addresses are the target's; times are CLOCK_MONOTONIC ns; sizes are bytes.
 * Threads: one at a time. Errors: -errno. docs/jit.md explains how it works and what it costs. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/range.h"
#include "cprofd/host.h"
#include "jit/reach.h"

/* Limits of one struct jit. What exceeds them is refused and counted; what is known stays. */
#define JIT_DESCRIPTORS_MAX 16u
#define JIT_ENTRIES_MAX 65536u         /* of one list */
#define JIT_IMAGE_MAX (64u << 20)      /* one ELF image; XLA's largest are some MB */
#define JIT_BYTES_MAX (64u << 20)      /* memory of one struct jit */
#define JIT_POLL_BYTES (64u << 20)     /* of images, in one poll */
#define JIT_NAME_MAX 65535u            /* longer names are cut */

/* In the order in which jit__find() asks them. A GDB image has exact sizes and unwind information; a perf map has no
 * times. */
enum jit_source { JIT_SOURCE_GDB, JIT_SOURCE_JITDUMP, JIT_SOURCE_PERF_MAP, JIT_SOURCE_COUNT };

struct jit;
/* CLOCK_MONOTONIC when `clock` is NULL; tests have their own. */
int jit__new(uint64_t (*clock)(void), struct jit **ret);
struct jit *jit__free(struct jit *jit); /* NULL */
/* For a forked child: a copy with the objects that can have existed at `time_ns`, under their ids, and the lists as
 * they were known. jit__poll() with the child's memory finds the differences. */
int jit__fork(const struct jit *jit, uint64_t time_ns, struct jit **ret);
/* Sets the number that new objects get as `origin`: the process that made them. Objects copied by jit__fork() keep
 * theirs, so (origin, id) names an object in all processes that run it. 0 at first. */
void jit__set_origin(struct jit *jit, uint32_t origin);
/* The memory held: names, ranges, unwind information and rows. */
size_t jit__bytes(const struct jit *jit);

/* --- source GDB --- */

/* The address of __jit_debug_descriptor, the head of a module's list. `file`: the ELF file; `bias`: its load bias.
 * Linear in the size of its symbol table (3-15 ms for libjax_common.so, 329 MB). -ENOENT: it has symbols, but no
 * descriptor; -ENODATA: it is stripped, so it may have one; -EBADMSG: it is not a readable ELF file. */
struct elf_bytes;
int jit_descriptor__find(const struct elf_bytes *file, uint64_t bias, uint64_t *ret_address);
/* The same of the file at `fd`, without a bias. `folder`: where the answer for a large file is kept (base/kept.h); < 0:
 * nowhere. */
int jit_descriptor__open(const struct elf_bytes *file, int fd, int folder, uint64_t *ret_address);

/* Adds a descriptor to those that are polled. 0 (also if it was added before), -ENOSPC. */
int jit__add_descriptor(struct jit *jit, uint64_t address);

/* Are there files? They have no record of an end: what they name may be replaced at any time. */
bool jit__has_files(const struct jit *jit);

/* Where JIT code ever was (reach.h), of all sources. Never shrinks. */
const struct jit_reach *jit__reach(const struct jit *jit);

/* Polls all lists for changes. To be called every 20 to 100 ms, and at once when a pc is unknown. Without changes it
 * costs 3 reads of target memory per list (at most 4). `memory` reads the target, which may run.
 * `full`: walk whole lists in any case. Otherwise that happens only after a change, for at most 1 % of the time, and
 * for 0.025 % as long as no object was dropped.
 * 1: there are new objects, or some ended; 0: no change; -EAGAIN: a list changed while it was read, and there is more:
 * call again soon; -ENOMEM; -EFAULT: memory cannot be read (the process ended). What was verified is kept always. */
int jit__poll(struct jit *jit, struct host_reader *memory, bool full);

/* --- sources JITDUMP and PERF_MAP: give the next bytes of the file, split anywhere. 0, -ENOMEM; for a jitdump also
 * -EBADMSG, -ENOTSUP: no more of it can be read. --- */
int jit__perf_map(struct jit *jit, const void *bytes, size_t len);
int jit__jitdump(struct jit *jit, const void *bytes, size_t len);
/* At `time` the file ended where the given bytes end: later bytes were written after that time. */
void jit__file_ended(struct jit *jit, enum jit_source source, uint64_t time);
/* The file was truncated or replaced: its bytes begin anew. Objects that are known stay. */
void jit__perf_map_restart(struct jit *jit);
void jit__jitdump_restart(struct jit *jit);
/* Number of the jitdump's next bytes, at most `most`, that are machine code and need not be given: they count as given.
 * */
uint64_t jit__jitdump_skip(struct jit *jit, uint64_t most);

enum jit_kind {
	JIT_KIND_CODE,
	JIT_KIND_PY_TRAMPOLINE, /* CPython -X perf: name is "py::QUALNAME:FILE"; it only calls the
				 * interpreter, which has a frame of its own */
};

/* A function that one of these files names. */
struct jit_function {
	uint64_t start, size;
	uint32_t object, serial; /* as jit_found */
	enum jit_kind kind;
};
/* Functions that begin in [lo, hi), sorted, at most `max`; only those whose first byte still belongs to them, even if
 * the list names it, too. */
uint32_t jit__functions(const struct jit *jit, uint64_t lo, uint64_t hi, struct jit_function *ret, uint32_t max);
/* Has any function been of kind JIT_KIND_PY_TRAMPOLINE? */
bool jit__has_trampolines(const struct jit *jit);
/* Ranges in which the files replaced code since `*cursor`, which is advanced: at most JIT_REPLACED_MAX. UINT32_MAX:
 * there were more, so anything may have been replaced. */
#define JIT_REPLACED_MAX 256u
uint32_t jit__replaced(const struct jit *jit, uint64_t *cursor, struct range *ret);

/* --- the question --- */

struct jit_found {
	const char *name;       /* as the JIT wrote it (mangled); any bytes but NUL. NULL: the
				 * pc is in a known object, but in none of its functions */
	uint64_t start, size;   /* of the function; without a name, of the text around it */
	enum jit_source source;
	enum jit_kind kind;
	uint32_t object;
	uint32_t serial;        /* the line in a perf map's object: several may begin at one address */
	uint32_t origin;
	bool doubtful;          /* the time lies between two polls of a list that drops objects:
				 * another object, perhaps never seen, can have been there */
};

/* -ENOENT: nothing is known to have been there at that time. A doubtful answer may become certain with the next poll:
 * ask again then if it matters. */
int jit__find(const struct jit *jit, uint64_t pc, uint64_t time_ns, struct jit_found *ret);

/* --- objects: an ELF image of the list, a record of a jitdump, a batch of lines --- */

/* When an object was there. Polls see it only at some times: it was not there at born_after, but at born_by; it was
 * still there at died_after, but no longer at died_by (0: it lives). */
struct jit_life {
	uint64_t born_after, born_by;
	uint64_t died_after, died_by;
};

struct jit_object {
	uint32_t id;            /* a serial number from 1, in the order of registration as far as it is known */
	uint32_t origin;         /* jit__set_origin() */
	enum jit_source source;
	struct jit_life life;
	const struct range *ranges; /* of code, sorted; a perf map has none */
	uint32_t n_ranges;
	uint32_t n_symbols;
	uint64_t image, image_size; /* GDB: where the image lies in the target's memory */
	bool has_lines;         /* GDB: .debug_line; JITDUMP: DEBUG_INFO came */
	bool has_unwind;        /* unwind information can be taken */
	bool had_unwind;        /* it could be taken, or was */
};

/* The object with the smallest id >= `id`; NULL: none. */
const struct jit_object *jit__object(const struct jit *jit, uint32_t id);

/* How many objects have ended so far: a number that only grows, so that a caller notices a change by comparing. */
uint64_t jit__ends(const struct jit *jit);

/* .eh_frame as it is in the target at `address`: relocated, which the copy in the registered image is not. */
struct jit_unwind {
	uint8_t *eh_frame;      /* the caller's now: free() */
	size_t len;
	uint64_t address;
	bool whole;             /* all relocations were applied (but for undefined personalities) */
};
/* Moves it to the caller, once for each object. -ENOENT: it has none, or it was taken. */
int jit__take_unwind(struct jit *jit, uint32_t id, struct jit_unwind *ret);
/* Moves the image of the newest object to the caller, who frees it. -ENOENT: `id` is not the newest, or it was taken;
 * the image may still be in the target's memory. */
int jit__take_image(struct jit *jit, uint32_t id, void **ret_bytes, size_t *ret_size);

/* jit__find() will not be called for times before `time_ns`: objects that ended by then may be freed. */
void jit__done(struct jit *jit, uint64_t time_ns);
