/* SPDX-License-Identifier: MIT */
/* Private to daemon/units/:
 *   captures.c  code object -> which rule names it, which of its locals the sampler must capture
 *   read.c      sample record -> values of its frames, kept until the sample event comes
 *   tree.c      sample event -> which units continue, begin and end, which lines they are at
 *   lines.c     the table of these lines
 *   units.c     the event sink: tables of the epoch, and the batches that go to the next sink
 *
 * A "word" is the first 8 bytes of a captured local: a pointer to its object. A rule code captures at most
 * FRAME_VALUES_WORDS of them; masks of words have one bit for each. A "path" is a source with attributes (`kernel.name`) whose
 * object the tick copies; it counts as a word, too: UNIT_WORDS. */
#pragma once

#include "base/buf.h"
#include "base/hash.h"
#include "base/slots.h"
#include "base/texts.h"
#include "attribution/attribution.h"
#include "units/units.h"
#include "python/values.h"

#define UNIT_WORDS (FRAME_VALUES_WORDS + CAPTURE_PATHS)
_Static_assert(UNIT_WORDS <= 8, "masks of words are bytes");

/* The id of a text (base/texts.h); 0: it is empty, or there is no room. */
uint32_t units__text(struct units *units, const char *text, size_t len);

/* The name, signature and so on that were read from the locals of one frame. */
struct value {
	uint64_t read;         /* time of the record for which it was read */
	/* texts (units__text) and a line number; 0: not known */
	uint32_t name, signature, file, line;
	uint32_t object;       /* hash of the object that names it; 0: not known */
	bool named;            /* false: reading is tried again with later samples */
	uint8_t asked;         /* mask of the words that the value depends on, unset ones among them */
	uint16_t skip;         /* samples to skip before the next try */
	uint16_t backoff;       /* the last such number: it doubles with each try (back-off) */
};

/* A frame of a sample record whose code a rule names. */
struct seen_frame {
	uint64_t address, words; /* of the frame; hash of its words. Both 0: the locals could not be read */
	uint64_t key;            /* of its code object */
	uint64_t called_from;    /* hash of the places of the Python frames outside of it; 0: some may be missing */
	uint32_t outside;        /* number of Python frames outside of it: its depth */
	uint64_t locals;         /* hash of the words that are of no path */
	uint64_t paths;          /* hash of the paths' words that the value depends on; 0: one of them is not known (yet) */
	bool unset;              /* a captured local, not an argument, is not assigned yet */
	bool deleted;            /* an argument has no value: the function deleted it (del x) */
	uint32_t rule;
	struct value value;
};

#define HAD_MAX 8u   /* `once` phases that are remembered for one unit */
#define ONCE_MAX 64u /* code objects of such phases, of all rules */
#define UNRULED_MAX 256u

/* A code object whose locals a rule needs. */
struct rule_code {
	uint64_t key;
	uint32_t rule;
	uint8_t slots[FRAME_VALUES_WORDS]; /* as struct locals_capture has them */
	/* of each source of name, signature, defined: the word it begins with; 255: none */
	uint8_t words[RULES_CHOICES_MAX * 3];
	uint16_t copies;   /* as struct locals_capture has them: whose objects the record carries (PART_OBJECT) */
	uint8_t paths[RULES_CHOICES_MAX * 2]; /* of each source of name, signature: its path; 255: none */
	uint8_t arguments; /* mask of the words that are arguments: they were set when the call began */
	/* of each word that is an argument in a cell: the offset in the bytecode from which on it is a cell for sure; else 0 */
	uint16_t made[FRAME_VALUES_WORDS];
	/* of each source of name, signature: what @function and the like give (texts) */
	uint32_t own[RULES_CHOICES_MAX * 2];
	bool gave[RULES_CHOICES_MAX * 2]; /* each source of name, signature: it gave something once */
};

/* Which rule a Python function matched when its local variables were known (`has` in a rule). The function rows of the
 * event stream have no variables, so the answer is kept here by name, file and line. */
struct function_rule {
	uint64_t hash;           /* of its name, file and first line */
	uint32_t rule;
	bool valued;             /* it has a local that its rule takes the name from */
};

/* The frames of one record, outermost first, kept until its sample event comes. */
struct waiting {
	uint64_t time;
	uint32_t tid, n;
	bool off_cpu;             /* the thread was switched out: its event has a later time, or never comes */
	uint64_t key;            /* ... where (part_wait.key) */
	uint32_t python;         /* number of Python frames in its stack */
	struct seen_frame *frames; /* reference counted: equal ones in a row are stored once */
};

#define OFF_CPU_MAX 16u /* places of a thread, as in profile/waits.c */

/* The value of a rule with `lasting`: the same words of the same process give it again, so it is read once. */
struct lasting_value {
	uint64_t hash;           /* of process, code object and words; 0: free */
	struct value value;
};
#define LASTING_MAX 256u

/* A thread, as its records show it: the frames and values of its last sample, so that equal ones are not read again. */
struct reading {
	uint32_t tid, n;
	uint64_t process_start, time;
	struct seen_frame frames[VALUES_FRAMES_MAX];
	uint64_t words[VALUES_FRAMES_MAX][UNIT_WORDS]; /* of these frames, by content (content_words()) */
	struct seen_frame *shared; /* the same, with a reference; NULL: none */
	struct waiting off_cpu[OFF_CPU_MAX]; /* the newest off-CPU record of each place; frames NULL: free */
	/* code of `once` phases: seen since one began again, and in the last record */
	uint64_t had[HAD_MAX], now[HAD_MAX];
	uint32_t n_had, n_now;
};

/* --- tables of the epoch --- */
struct function_info {
	uint32_t rule;
	uint32_t text;           /* its name by a source that needs no captured value; 0: none */
	uint32_t signature;      /* its signature, if that needs no captured value at all */
	uint32_t file;           /* of units.files; 0: none */
	uint64_t own;            /* a bit for each compiler: the function is the compiler's own */
	uint64_t calls;          /* a bit for each rule of units.from: the rule names this function as caller */
	uint8_t from;            /* its rule is units.from[from - 1]; 0: its rule accepts any caller */
	bool valued;             /* Python function, and its rule needs captured values */
	bool python;
	bool cut;                /* a note such as "(cut: ...)": frames are missing here */
};
struct frame_info {
	uint32_t function, line;
};
struct stack_info {
	uint32_t parent, frame;
	bool cut;                /* frames are missing in it, or outside of it */
	uint32_t python;         /* number of Python frames, this one included */
	uint32_t call_site;          /* hash of its Python frames and lines: where a call comes from; 0: none */
	uint32_t innermost;      /* function of its innermost Python frame; none if `python` is 0 */
	uint32_t rule_code;         /* this stack, or the next one outwards, whose function a rule names; 0: none */
};

/* A unit that has begun and not ended. */
struct open_unit {
	struct unit_row row;     /* as it was emitted; `late`: with what became known since */
	uint32_t id, function, rule;
	uint32_t call_site;          /* where a Python frame was called from (stack_info.call_site) */
	uint64_t address, locals, paths; /* 0: not known */
	bool unset;
	struct value value;
	bool late;               /* its name became known after its row was emitted */
	uint64_t last;           /* time of its last sample */
	uint32_t had[HAD_MAX], n_had; /* functions of the `once` phases that it has had */
	uint64_t since;          /* values read before this time belong to an earlier call; 0: there was none */
	bool doubted;            /* its value is older than `since`: replaced by the next one that is read */
};
struct thread_units {
	uint32_t tid, n;
	uint64_t seen;           /* when its newest stack was recorded */
	uint64_t now;            /* how far its samples have come: of a wait row.over, else row.time */
	bool asleep;             /* its last sample was off-CPU */
	struct open_unit *open;  /* outermost first; UNITS_DEPTH_MAX */
	/* A worker: the unit of the calling thread inside which all units here lie. 0: it works for no other thread. */
	uint32_t outer;
	uint32_t outer_depth;    /* number of compiles around the units here: `outer`, and those around it */
	uint32_t line;           /* of its newest stack (lines.c) */
	uint32_t outer_rule;     /* rule of the compile around `outer`; RULE_NONE: none */
};

/* A line that a compiler is at: a source_line_row of the epoch. */
struct line {
	uint32_t parent, depth, number;
	uint32_t file; /* a text */
};

/* The sink and its tables, three groups: by code object (as long as the session), records that wait, and the
 * tables of the epoch. */
struct units {
	struct event_sink sink;
	struct event_sink *next;
	const struct rules *rules;
	/* ns between ticks, by the session's rate; 0: not known */
	uint64_t tick;
	/* the same in sessions of CPU time, where waiting before a tick is not counted; else 0 */
	uint64_t period;
	struct texts texts;

	bool (*asleep)(const struct record_sample *sample); /* units__asleep() */
	struct rule_code *rule_codes;
	uint32_t n_rule_codes, rule_codes_capacity;
	/* index of rule_codes by their key */
	struct slots by_key;
	struct hash_seed seed;

	struct function_rule *function_rules;
	uint32_t n_function_rules, function_rules_capacity;
	struct slots by_function;

	/* Functions that no rule names, at a place by their hash: programs make the same ones again and again. */
	uint64_t unruled[UNRULED_MAX];

	struct lasting_value lasting[LASTING_MAX]; /* at a place by their hash */

	uint64_t once[ONCE_MAX]; /* code objects of `once` phases */
	uint32_t n_once;
	struct reading *readings;
	uint32_t n_readings, readings_capacity;
	struct waiting *waiting; /* a ring buffer, in order of time */
	uint32_t waiting_first, n_waiting, waiting_capacity;
	struct buf scratch[2];
	struct class_memo classes;
	uint64_t process; /* hash of the process whose values are being read */
	struct py_path paths[UNITS_PATHS_MAX]; /* found since units__paths() */
	uint32_t n_paths;

	struct function_info *functions;
	uint32_t n_functions, functions_capacity;
	struct frame_info *frames;
	struct texts files;      /* of this epoch's functions, if a rule `traces` */
	bool traces;             /* a rule does */
	uint32_t n_frames, frames_capacity;
	struct stack_info *stacks; /* [i] is stack i + 1 */
	uint32_t n_stacks, stacks_capacity;
	struct thread_units *threads;
	uint32_t n_threads, threads_capacity;

	struct line *lines;      /* of this epoch, [id - 1]; the first emitted_lines of them are emitted */
	uint32_t n_lines, emitted_lines, lines_capacity;
	struct slots by_line;

	uint32_t emitted_rows;      /* of this epoch; ended ones are not kept */
	struct unit_row *rows;   /* not emitted yet, ids emitted_rows + 1...; strings are in `texts` */
	uint32_t n_rows, rows_capacity;
	struct event_unit_end *names; /* late names, not emitted yet */
	uint32_t n_names, names_capacity;
	struct event_unit_end *ends;
	uint32_t n_ends, ends_capacity;
	uint32_t unnamed; /* compiles that ended without a name, not reported yet */
	struct sample_row samples[1024];
	uint32_t from[64], n_from; /* rules that name their callers */
};

/* captures.c */
/* The rule of a Python function: decided with its variables if its code object was seen, else by its names alone.
 * *ret_valued: it has locals that the rule takes the name from. */
uint32_t captures__rule(const struct units *units, const char *name, const char *file, uint32_t line, bool *ret_valued);
/* NULL: no rule needs a local of this code object. */
const struct rule_code *captures__find(const struct units *units, uint64_t key);
/* read.c: the frames of the record of this sample, or NULL. Valid until the next call. */
const struct waiting *read__take(struct units *units, uint32_t tid, uint64_t time);
/* The same for a wait that ended at `time`, whose stack was recorded at `taken`. */
const struct waiting *read__off_cpu(struct units *units, uint32_t tid, uint64_t taken, uint64_t time);
void read__free(struct units *units);
/* lines.c: the id of a line inside of another; that of the other, if the number is none, or there is no memory. `file`: a text. */
uint32_t unit_lines__id(struct units *units, uint32_t parent, uint32_t depth, uint32_t file, uint32_t number);
/* The same, of a number that is a text. */
uint32_t unit_lines__of_text(struct units *units, uint32_t parent, uint32_t depth, uint32_t file, uint32_t text);
/* Rows from `first` (an id) on, to the sink. */
int unit_lines__emit(const struct units *units, uint32_t first, struct event_sink *sink);
void unit_lines__clear(struct units *units);
void unit_lines__free(struct units *units);
/* tree.c: fills in row->unit and row->line, and queues rows, names and ends of units for the next batch. */
int tree__sample(struct units *units, struct sample_row *row);
/* The thread has ended, and so have its units. */
void tree__end_thread(struct units *units, struct thread_units *thread);
