/* SPDX-License-Identifier: MIT */
/* The tables of an epoch: functions, frames, the stack tree.
 *
 *   modules    2: {"libc.so.6", build id "e3f3..."}
 *   functions  7: {"fib", "/home/me/fib.py", line 3}        8: {"clock_nanosleep", module "libc.so.6"}
 *   frames     12: function 7, offset 34, line 5            13: function 8, offset 0x42
 *   stacks     40: parent 0, frame 12                       41: parent 40, frame 13    (a sample's stack is a node)
 *
 * A row is emitted once, and rows go out in the order of their numbers. A row whose name or line is still on its way
 * holds up those behind it for at most TABLES_DEADLINE ticks (native code: longer), and is then emitted as unknown. A
 * tick is a PROFILE_BATCH_NS.
 *
 * Inside daemon/profile/ only. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/slots.h"
#include "classes/classes.h"
#include "cprofd/loss.h"
#include "events/events.h"
#include "name/codes.h"
#include "codemap/codemap.h"

#define TABLES_DEADLINE 2u
#define TABLES_DEADLINE_NATIVE 20u /* for lines of native code, once for each library */
#define TABLES_DEADLINE_LINE 10u    /* for one more address in a function whose row was emitted */
#define TABLES_LATE_TICKS 10u       /* between two checks for lines that did not come in time */
#define TABLES_DEADLINE_NAMES 50u  /* for its names: without one a row says nothing, and it stays so */

enum function_state {
	FUNCTION_NOTED,   /* a note: .note */
	FUNCTION_NAMED,   /* .code is its serial */
	FUNCTION_WAITING, /* its code object has not come yet */
	FUNCTION_UNKNOWN, /* it did not come in time */
	FUNCTION_CODE,    /* native: .code is its number in natives[] */
};

/* Key of a function: (module, key), where module 0 is Python with its capture key. Of equal functions there is one
 * row. */
struct function {
	uint64_t key;     /* capture key; 0: must not be found any more. CODE: code_location.function */
	uint64_t module;  /* CODE: code_location.module + 1; else 0 */
	uint32_t code;    /* NAMED: serial. WAITING: how many frames of samples have it */
	uint32_t since;   /* tick of its first sample */
	uint16_t note;    /* enum note */
	uint8_t state;    /* enum function_state */
	struct trait trait; /* classify.c; kind TRAIT_NONE: not determined yet */
};

/* A native function, or one that is known by its name alone. Strings live as long as the epoch. */
struct native {
	const char *name, *module, *file; /* file: "" until it is known */
	uint64_t start;   /* vaddr */
	uint32_t line;
	uint8_t kind;     /* enum function_kind */
	bool lines_asked;
	bool late;        /* emitted without its lines, which may still come */
};

/* What of a frame's row is known. Only WAITING and PENDING hold up emission. */
enum frame_state {
	FRAME_KNOWN,
	FRAME_WAITING,    /* for its line table; row.line counts the sample frames that want it.
			   * Native code: for its line; row.column is the tick of its first sight */
	FRAME_PARTIAL,    /* emitted without a line: LOSS_LINES_PARTIAL */
	FRAME_BAD,        /* LOSS_LINES_BAD */
	FRAME_LATE,       /* native: emitted without a line, which may still come */
	FRAME_REPLACED,   /* superseded by a newer row; not found any more */
	FRAME_PENDING,    /* native: its name is being read; row.function is a number in pendings[] */
};

/* An address of native code whose function is not known yet. */
struct pending {
	uint64_t module, vaddr; /* as in code_location */
	uint32_t frame, since;  /* since: tick */
	bool named;
};

/* "(cut: ...)" of a loss is NOTE_CUT + loss. */
enum note { NOTE_NO_PYTHON, NOTE_NO_FRAME, NOTE_EXITING, NOTE_UNKNOWN, NOTE_NO_PLACE, NOTE_CUT, NOTE_COUNT = NOTE_CUT + LOSS_COUNT };

struct tables {
	struct codes *codes;
	struct codemap *codemap; /* NULL: no native frames */
	bool without_lines;      /* as in struct profile_options */
	struct hash_seed seed;
	uint64_t *losses;   /* by enum loss; the ledger's own[] */
	uint32_t tick;

	struct function *functions;
	uint32_t n_functions, functions_capacity, emitted_functions;
	struct slots by_key;

	/* Files whose build id is known, by the time that a function of theirs was new. */
	struct module_row *modules;
	uint32_t n_modules, modules_capacity, emitted_modules;
	struct buf noted_modules; /* bool by code_location.module */

	struct native *natives;
	uint32_t n_natives, natives_capacity;
	struct arena strings;
	uint32_t n_late, late_tick; /* functions and frames; tick of the last check for their lines */
	uint64_t late_news;         /* codemap__lines_generation() of then */
	uint64_t asked_news;        /* ... as lines were asked for last, of so many functions and frames */
	uint32_t asked_functions, asked_frames;
	uint64_t replaced;          /* grows when an address may get another frame */

	struct pending *pendings; /* emptied when all are named */
	uint32_t n_pendings, pendings_capacity, n_unnamed;
	struct slots by_pending;

	struct frame_row *frames;
	uint8_t *frame_states;
	uint32_t n_frames, frames_capacity, emitted_frames;
	struct slots by_frame;
	uint32_t note_frames[NOTE_COUNT]; /* frame + 1 */

	struct stack_row *stacks;  /* [i] is stack id i + 1 */
	uint64_t *paths;           /* [i]: a hash of all frames from the outermost to this one */
	uint32_t n_stacks, stacks_capacity, emitted_stacks;
	struct slots by_stack;
};

int tables__init(struct tables *tables, struct codes *codes, struct codemap *codemap, uint64_t *losses);
void tables__free(struct tables *tables);
/* A new epoch. The arrays stay: growing them again in each epoch would leave holes in the heap. */
void tables__clear(struct tables *tables);
uint64_t tables__used(const struct tables *tables);  /* bytes of the rows that are there */
uint64_t tables__bytes(const struct tables *tables); /* of memory */

/* The frame of a code object at an offset; counts what it lacks. *ret_clean: it
 * lacks nothing and may be remembered. */
int tables__frame(struct tables *tables, uint64_t key, int32_t offset, uint32_t *ret_frame,
		  bool *ret_clean);
/* The frame of native code. */
int tables__native(struct tables *tables, const struct code_location *place, uint32_t *ret_frame);
/* Is it a frame of the interpreter itself, which no traceback shows? */
bool tables__is_shim(const struct tables *tables, uint32_t frame);
/* The frame of what was called by that name; equal names are one function. */
int tables__callee(struct tables *tables, const char *name, uint32_t *ret_frame);
/* The frame that says so: a note. */
int tables__says(struct tables *tables, const char *words, uint32_t *ret_frame);
/* The row of a function as it is emitted. Strings are valid until the tables change. */
struct function_row tables__function_row(const struct tables *tables, uint32_t function);
int tables__note(struct tables *tables, enum note note, uint32_t *ret_frame);
int tables__stack(struct tables *tables, uint32_t parent, uint32_t frame, uint32_t *ret_stack);
/* tables__stack() will be asked for these, each below the one before it, the first below `parent`: what it needs is
 * on its way to the cache, all at once. */
void tables__expect_stacks(const struct tables *tables, uint32_t parent, const uint32_t *frames, uint32_t n);

/* A code object came, or more of it. */
void tables__code_changed(struct tables *tables, uint64_t key, uint32_t serial);

/* natives.c. Names what was pending, as far as it is known by now (give_up: all of it). */
int tables__name_pending(struct tables *tables, bool give_up);
/* Asks for the lines of all rows that were not emitted yet: they are read together. */
void tables__ask_lines(struct tables *tables);
/* Asks for lines; false: they may be known later. */
bool tables__native_lines(struct tables *tables, struct function *function);
bool tables__native_line(const struct tables *tables, const struct function *function,
			 struct frame_row *row);

/* late.c. Rows that were emitted without a line which is known by now are not found any more. */
void tables__poll_late(struct tables *tables);
/* Of struct tables: is that frame, or its function, one of these? */
bool tables__is_replaced(const void *holder, uint32_t frame);

/* Rows, for tables.c and natives.c. */
int tables__add_function(struct tables *tables, const struct function *function);
struct function *tables__find_function(const struct tables *tables, uint64_t module, uint64_t key);
void tables__enter_frame(struct tables *tables, uint32_t frame); /* it has its function now */
int tables__add_frame(struct tables *tables, const struct frame_row *row, enum frame_state state);
uint32_t tables__find_frame(const struct tables *tables, uint32_t function, int32_t offset);

/* Emits all rows that are ready (give_up: all, those that wait as unknown). */
int tables__emit(struct tables *tables, struct event_sink *sink, bool give_up);
/* Emits again, to this sink, all that was emitted in the epoch. */
int tables__replay(const struct tables *tables, struct event_sink *sink);
