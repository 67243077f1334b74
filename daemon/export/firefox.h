/* SPDX-License-Identifier: MIT */
/* The parts of the Firefox Profiler exporter: the file and its threads' samples (firefox.c), the tables of a thread
 * (tables), what is said of time spans (markers), and what comes before the threads (meta). Private to this directory.
 * Errors: -errno. */
#pragma once

#include "export/gzip.h"
#include "export/model.h"
#include "export/unit_spans.h"

/* The version of the format: the last one in which each thread has tables of its own, which Perfetto reads, too.
 * Firefox Profiler converts it to its own version as it loads the file (docs-developer/CHANGELOG-formats.md there). */
#define FIREFOX_VERSION 55

/* Categories are the classes of time, by their id + 1; the first is for what has no class. */
#define FIREFOX_OTHER 0u

/* Where time was spent, of all threads: a stack of the model, and the category of the time. No padding: its bytes are a
 * key. stack MODEL_ROOT: idle, or left out by a filter. */
struct firefox_place {
	uint32_t stack, category;
};


struct firefox {
	struct model model;
	struct gzip file;
	struct buf text;      /* not yet written */
	int err;	      /* the first error */
	struct intern places; /* struct firefox_place */
	/* by thread id: its samples, whose `stack` is a place; spans of more than 4 s are several */
	struct buf rows; /* struct slices */
	struct buf categories; /* uint8_t by frame: the category that it has as a caller */
	struct model_thread **threads;
	uint32_t n;
	struct unit_spans spans;
};

/* --- writing: a failure is kept in `err`, and ends the output --- */
void firefox__put(struct firefox *firefox, const char *format, ...) __attribute__((format(printf, 2, 3)));
void firefox__string(struct firefox *firefox, const char *string);
/* An item of an array, which is its first one if `i` is 0: a number; ns as ms, which is the format's unit, exactly. */
void firefox__item(struct firefox *firefox, uint32_t i, uint64_t number);
void firefox__item_ms(struct firefox *firefox, uint32_t i, uint64_t ns);
static inline void firefox__ms(struct firefox *firefox, uint64_t ns)
{
	firefox__item_ms(firefox, 0, ns);
}
/* Writes the text out, once there is much of it. */
void firefox__flush(struct firefox *firefox, size_t least);

static inline struct firefox_place firefox__place(const struct firefox *firefox, uint32_t place)
{
	size_t len;

	return *(const struct firefox_place *)intern__key(&firefox->places, place, &len);
}

/* The thread's samples; they begin at model__begin(). */
const struct slices *firefox__rows(const struct firefox *firefox, const struct model_thread *thread);

/* --- tables of one thread: ids are rows of the thread's tables, in the order of first use --- */
struct firefox_table {
	struct intern keys;
	struct buf rows; /* a struct of uint32_t for each key; UINT32_MAX: it has no such value */
};

struct firefox_tables {
	struct intern strings; /* NUL-terminated */
	struct firefox_table nodes, frames, functions, resources;
	struct buf stacks;     /* uint32_t by place: its node + 1; 0: not made */
	struct buf path;
};

int firefox_tables__string(struct firefox_tables *tables, const char *string, uint32_t *ret);
/* The row of stackTable for a place, whose stack must not be MODEL_ROOT. */
int firefox_tables__stack(struct firefox_tables *tables, struct firefox *firefox, uint32_t place, uint32_t *ret);
/* Writes stackTable and what it needs, and the strings. */
void firefox_tables__put(const struct firefox_tables *tables, struct firefox *firefox);
void firefox_tables__free(struct firefox_tables *tables);

/* --- markers --- */
/* The key "markers" of a thread. */
void firefox__markers(struct firefox *firefox, uint32_t index, struct firefox_tables *tables);
/* The array "markerSchema". */
void firefox__schema(struct firefox *firefox);

/* --- meta --- */
void firefox__meta(struct firefox *firefox);
/* Fills in firefox->categories. */
int firefox__categories(struct firefox *firefox);
