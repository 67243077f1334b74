/* SPDX-License-Identifier: MIT */
/* What the files of daemon/units/ share:
 *   captures.c   code object -> which rule it is of, which locals are asked for
 *   read.c    record -> values of its frames, that wait for the sample event
 *   tree.c    sample event -> units that go on, begin, end
 *   units.c   the sink: tables of the epoch, and all others */
#ifndef CPROFD_UNITS_INTERNAL_H
#define CPROFD_UNITS_INTERNAL_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/slots.h"
#include "attribution/attribution.h"
#include "units/units.h"
#include "python/values.h"

/* A text that is kept once; id 0 is "". */
struct texts {
	struct hash_seed seed;
	struct arena arena;
	const char **texts;
	uint32_t n, capacity;
	struct slots slots;
};
/* The id of a text; 0 when there is no room. */
uint32_t texts__keep(struct texts *texts, const char *text, size_t len);
const char *texts__get(const struct texts *texts, uint32_t id);

/* What was read of one frame. */
struct value {
	uint64_t read;         /* time of the record that it was read for */
	uint32_t name, signature, file, line; /* texts */
	uint32_t object;       /* what it is named by; 0: not known */
	bool named;            /* else it is tried again with later samples */
	uint8_t asked;         /* a bit for each word that was looked at for this, or would have been if it were set */
	uint16_t rest;         /* samples until it is tried again */
	uint16_t pause;        /* the last rest, from its first sample on */
};

/* A frame of a record that a rule names. */
struct seen_frame {
	uint64_t address, words; /* words: hashed. 0, 0: they could not be read */
	uint64_t key;            /* of its code */
	uint32_t outside;        /* Python frames outside of it */
	bool unset;              /* a word of it is: a variable that this call has not come to yet */
	bool deleted;            /* a word of an argument is: this call deleted it */
	uint32_t rule;
	struct value value;
};

#define HAD_MAX 8u
#define ONCE_MAX 64u

/* A code object that rules ask values of. */
struct rule_code {
	uint64_t key;
	uint32_t rule;
	uint8_t slots[FRAME_VALUES_WORDS]; /* as struct locals_capture has them */
	uint8_t words[RULES_CHOICES_MAX * 3]; /* of each source of name, signature, defined: its word; 255: none */
	uint8_t object;    /* the word, from 1, that is a text whose object the record has; 0: none */
	uint8_t arguments; /* a bit for each word: it is an argument's, which was set when the call began */
	uint32_t own[RULES_CHOICES_MAX * 2]; /* of each source of name, signature: what the frame's own name gives (texts) */
};

/* Which rule a function is of, told by its variables: rows of functions come without them. */
struct function_rule {
	uint64_t hash;           /* of its name, file and first line */
	uint32_t rule;
	bool valued;             /* it has one of the variables that its rule is named by */
};

/* Frames of a record, outermost first, until its event comes. */
struct waiting {
	uint64_t time;
	uint32_t tid, n;
	bool away;               /* of a thread that left its CPU: its event has another time, or never comes */
	uint32_t python;         /* Python frames of its stack */
	struct seen_frame *frames; /* shared by records in a row that have the same: frames__share() */
};

/* A thread of records: what its last sample had, so that it is not read again. */
struct reading {
	uint32_t tid, n;
	uint64_t process_start, time;
	struct seen_frame frames[VALUES_FRAMES_MAX];
	uint64_t words[VALUES_FRAMES_MAX][FRAME_VALUES_WORDS]; /* of these frames */
	struct seen_frame *shared; /* these, with a hold on them; NULL: none */
	struct waiting away;     /* the newest that was told of no event; frames NULL: none */
	uint64_t had[HAD_MAX], now[HAD_MAX]; /* code of phases that there are once: since one began again, and in the last record */
	uint32_t n_had, n_now;
};

/* --- tables of the epoch --- */
struct function_info {
	uint32_t rule;
	uint32_t text;           /* its name by a source that needs no value; 0: none */
	uint32_t signature;      /* ... its signature, if that needs none at all */
	uint64_t own;            /* a bit for each compiler: this is its own */
	uint64_t calls;          /* a bit for each rule of units.from: it wants to be called by this one */
	uint8_t from;            /* its rule is the n-th of these, from 1; 0: it is of any caller */
	bool valued;             /* python frame of a rule that needs values */
	bool python;
	bool cut;                /* a note that says that frames are missing here */
};
struct stack_info {
	uint32_t parent, frame;
	bool cut;                /* something is missing in it */
	uint32_t python;         /* Python frames, itself among them */
	uint32_t place;          /* its Python frames, hashed; 0: none */
	uint32_t innermost;      /* function of its innermost Python frame; none if `python` is 0 */
	uint32_t rule_code;         /* itself or the next one outwards whose function a rule names; 0: none */
};

/* A unit that goes on. */
struct open_unit {
	struct unit_row row;     /* as it was told; late: with what became known since */
	uint32_t id, function, rule;
	uint32_t place;          /* of a Python frame: where it was called from (stack_info.place) */
	uint64_t address, words; /* 0: not known */
	bool unset;
	struct value value;
	bool late;               /* its name became known after its row */
	uint64_t last;           /* time of its last sample */
	uint32_t had[HAD_MAX], n_had; /* functions of its phases that there are once */
	uint64_t since;          /* what was read before is of another call; 0: all of it is this one's */
	bool doubted;            /* its value was read before that: until the next one */
};
struct thread_units {
	uint32_t tid, n;
	uint64_t last;           /* time of its last tick */
	bool asleep;             /* its last sample was one of waiting */
	struct open_unit *open;  /* outermost first; UNITS_DEPTH_MAX */
	/* It works for another thread: what is open here is inside of a unit there. 0: it is not. */
	uint32_t outer;
	uint32_t outer_rule;     /* of the compile that is in; RULE_NONE: of none */
};

struct units {
	struct event_sink sink;
	struct event_sink *next;
	const struct rules *rules;
	uint64_t tick;           /* ns from tick to tick */
	uint64_t period;         /* the same, if time on no CPU before a tick is no part of it; else 0 */
	struct texts texts;

	struct rule_code *rule_code;
	uint32_t n_rule_codes, rule_codes_capacity;
	struct slots by_key;
	struct hash_seed seed;

	struct function_rule *told;
	uint32_t n_function_rules, function_rules_capacity;
	struct slots by_function;

	uint64_t once[ONCE_MAX]; /* code objects of phases that a unit has once */
	uint32_t n_once;
	struct reading *readings;
	uint32_t n_readings, readings_capacity;
	struct waiting *waiting; /* a ring */
	uint32_t waiting_first, n_waiting, waiting_capacity;
	struct buf scratch[2];
	struct class_memo classes;
	uint64_t process; /* whose values are read */

	struct function_info *functions;
	uint32_t n_functions, functions_capacity;
	uint32_t *frames;        /* function of each */
	uint32_t n_frames, frames_capacity;
	struct stack_info *stacks; /* [i] is stack i + 1 */
	uint32_t n_stacks, stacks_capacity;
	struct thread_units *threads;
	uint32_t n_threads, threads_capacity;

	uint32_t emitted_rows;      /* of this epoch; what is over is not kept */
	struct unit_row *rows;   /* ... and not told yet: ids emitted_rows + 1...; strings are texts */
	uint32_t n_rows, rows_capacity;
	struct event_unit_end *names; /* not told yet */
	uint32_t n_names, names_capacity;
	struct event_unit_end *ends;
	uint32_t n_ends, ends_capacity;
	struct sample_row samples[1024];
	uint32_t from[64], n_from; /* rules that say by whom they are called */
};

/* captures.c */
/* The rule of a Python function whose code object was seen, or by its names alone. Does it have variables that the rule
 * is named by? */
uint32_t captures__rule(const struct units *units, const char *name, const char *file, uint32_t line, bool *ret_valued);
const struct rule_code *captures__find(const struct units *units, uint64_t key);
/* read.c: the frames of the record of this sample, or NULL. Valid until the next call. */
const struct waiting *read__take(struct units *units, uint32_t tid, uint64_t time);
/* ... for time that ended at `time`, in which it was on no CPU: it left not before `since`. */
const struct waiting *read__away(struct units *units, uint32_t tid, uint64_t since, uint64_t time);
/* The thread's frame at this address is another call than it seemed: what it holds is read again with its next record. */
void read__again(struct units *units, uint32_t tid, uint64_t address);
void read__free(struct units *units);
/* tree.c */
int tree__sample(struct units *units, struct sample_row *row);
void tree__end_thread(struct units *units, struct thread_units *thread);

#endif
