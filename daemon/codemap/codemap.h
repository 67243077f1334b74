/* SPDX-License-Identifier: MIT */
/* The code map of a session: what is at this address, of this process, at this time?
 *
 *    modules       which file or JIT object was mapped there      (modules/)
 *    names         its symbols and lines, read by a thread of its own: the namer (namer.h)
 *    this folder   puts the two together: module, function, name, line; what it is to weaving and to Python
 *
 *    codemap__find(task 4711, 0x7f14a1fe4df2, time) -> {"libc.so.6", "clock_nanosleep", start, LOCATION_LIBRARY}
 *
 * Callers: profile/ for samples, dump/ for dumps; serve/ drives it (codemap__tick(), files that the namer needs).
 *
 * Owner: one struct codemap for each session. Strings are valid until the next call. Threads: one, the one that
 * drains the rings. codemap__find() and codemap__generations() take microseconds; what would take longer is prepared
 * by the namer, and is unknown until then. Errors: -errno; -ENOENT is a normal answer. Times are CLOCK_MONOTONIC ns. */
#pragma once

#include <errno.h>

#include "classes/callables.h"
#include "collect/collect.h"
#include "cprofd/record.h"
#include "modules/modules.h"
#include "weave/weave.h"

/* Whose code it is. UNKNOWN: executable memory that is neither a file's nor known JIT code. */
enum location_kind {
	LOCATION_UNKNOWN,
	LOCATION_LIBRARY,     /* a program or shared library */
	LOCATION_INTERPRETER, /* the module that has the eval loop: libpython, or python itself */
	LOCATION_JIT,
	LOCATION_VDSO,
	LOCATION_KERNEL,
};

/* The answer. The numbers `module` and `function` identify a row of the tables; the strings are for people. */
struct code_location {
	uint64_t module;	 /* a number that no other module gets during the code map's life */
	uint64_t function;	 /* likewise, in its module: the same for all addresses of a function */
	const char *module_name; /* for people: "libLLVM-14.so.1"; "" if there is none */
	const char *name;	 /* for people; "module+0xoffset" where no symbol is */
	bool kept;		 /* `name` is valid until codemap__new_epoch() */
	uint64_t vaddr;		 /* address in the module's own terms (JIT, kernel: the address itself) */
	uint64_t start;		 /* vaddr of the function's begin; without a name: the offset that `name` shows */
	uint8_t kind;		 /* enum location_kind */
	uint8_t role;		 /* enum frame_role; not WEAVE_CODE for code of an interpreter, or greenlet */
	/* What Python code calls this function (classes/callables.h); NULL: no table of the module has it. Lives as
	 * long as the code map. */
	const struct callable *callable;
	bool stable;   /* holds until code_generations.stable changes, which is rare: JIT code does not count */
	bool lineless; /* no address there has a line, so all of its function is one frame */
	/* The symbols of its module are still being read. Until codemap__name() knows, `name`, `function` and
	 * `start` are those of an address without a name. */
	bool pending;
	/* Range of addresses around the one asked for with the same answer (but for `vaddr`); both 0: unknown. Set
	 * by codemap__locate() alone, for answers that are `lineless` and `stable`. */
	uint64_t from, to;
};

/* code_location.module of all the kernel's code. */
#define LOCATION_MODULE_KERNEL (1ull << 62)

struct codemap;

/* `modules` is borrowed, and outlives the code map; NULL: nothing is known of processes. `kernel`: also read the
 * kernel's names. `folder`: cache on disk for later sessions (borrowed; < 0: none). */
int codemap__new(struct modules *modules, bool kernel, int folder, struct codemap **ret);
struct codemap *codemap__free(struct codemap *codemap); /* NULL */

/* --- the question --- */

/* What was at `address` of the image that this task ran at `time`? Of a return address pass the byte before it;
 * addresses with the highest bit set are the kernel's. -ENOENT: nothing is known to have been there; -EACCES: the
 * kernel hides its names. */
int codemap__find(struct codemap *codemap, const struct record_task *task, uint64_t address, uint64_t time,
		  struct code_location *ret);
/* The same, but `name` may be NULL for a function that was found before: codemap__name() has it, with `module_name`.
 * Names are most of what a codemap__find() costs, and callers have most functions in their tables already. */
int codemap__locate(struct codemap *codemap, const struct record_task *task, uint64_t address, uint64_t time,
		    struct code_location *ret);
/* The name of an answer that was `pending`. -EAGAIN: still unknown, and *ret is as codemap__find() gave it. */
int codemap__name(struct codemap *codemap, uint64_t module, uint64_t vaddr, struct code_location *ret);
/* The line of an address in its function (not in what was inlined there). -ENOENT: there is no debug information, or
 * none for it; -EAGAIN: it is being read. *ret_file may be NULL. */
int codemap__line(struct codemap *codemap, uint64_t module, uint64_t vaddr, const char **ret_file, uint32_t *ret_line,
		  uint32_t *ret_column);
/* The GNU build id of a file: its size in bytes; 0: it has none, or was not read yet. Lives as long as the code map. */
uint32_t codemap__build_id(const struct codemap *codemap, uint64_t module, const uint8_t **ret);
/* Is the eval loop of the interpreter that this process ran at `time` known, so that the absence of a role means
 * something? 1, 0; -EAGAIN: it is being searched for. */
int codemap__eval_known(struct codemap *codemap, const struct record_task *task, uint64_t time);
/* Must the sample wait for the eval loop? Python frames find their place among native ones by it, so only a sample
 * with both does, for some 50 ms after the first sample of an interpreter. */
static inline bool codemap__awaits_eval(struct codemap *codemap, const struct sample *sample)
{
	const struct record_header *header = &sample->record->header;

	return sample->native && sample->python && sample->python->n &&
	       codemap__eval_known(codemap, &header->task, header->time) == -EAGAIN;
}
/* Reads the task's memory as it is now: all of `size` bytes, or -EFAULT. `time`: selects the image of the process. */
int codemap__read(struct codemap *codemap, const struct record_task *task, uint64_t time, uint64_t address, void *dst,
		  size_t size);

/* --- walks that the sampler could not finish --- */

/* Can codemap__walk() work at all? False without `modules`, and for NULL. */
bool codemap__walks(const struct codemap *codemap); /* NULL: no */
/* Walks the native stack of a sample again, over the copy that the sample has (struct part_stack). 0: `ret` (room
 * for RECORD_NATIVE_FRAMES_MAX) has n, flags, pc and the part's loss. -EAGAIN: a table is missing that may come;
 * never the answer to the `last` question. Others: there is no better walk than the kernel's. */
int codemap__walk(struct codemap *codemap, const struct sample *sample, bool last, struct part_native_frames *ret);

/* --- how long an answer holds --- */

/* Numbers that differ whenever an answer of codemap__find() could: `stable` for answers with that flag, `all` for
 * every answer. They count what is mapped, JIT code included, as far as it is known of that time. Answers may be
 * kept until their number changes (cache.h). `task` NULL: those about the kernel. */
struct code_generations {
	uint64_t all, stable;
};
struct code_generations codemap__generations(struct codemap *codemap, const struct record_task *task, uint64_t time);
/* Changes when a codemap__line() that was -EAGAIN may have an answer. */
uint64_t codemap__lines_generation(const struct codemap *codemap);
/* The caller has dropped all names that were `kept`: they may be freed. */
void codemap__new_epoch(struct codemap *codemap);

/* --- the loop that drives it; NULL: nothing is done --- */

/* Once per poll: takes what the namer has read since. */
void codemap__tick(struct codemap *codemap);
bool codemap__reads(const struct codemap *codemap); /* names of modules are being read */
bool codemap__waits(const struct codemap *codemap); /* lines are */
void codemap__hurry(struct codemap *codemap);	    /* the end is near: what waits is read at once */
/* Files that the namer needs, which the engine requests from the broker: when the event is readable, take the
 * question and answer it (namer.h). */
int codemap__event(const struct codemap *codemap);
bool codemap__question(struct codemap *codemap, int32_t *ret_pid, const char **ret_path);
void codemap__answer(struct codemap *codemap, int fd);
