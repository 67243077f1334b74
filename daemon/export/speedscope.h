/* SPDX-License-Identifier: MIT */
/* The parts of the speedscope exporter: choosing what fits into the file (fit), what comes before the profiles
 * (head), the profiles, the compiles (units). Private to this directory. */
#pragma once

#include "export/model.h"
#include "export/unit_frames.h"
#include "export/unit_spans.h"

#define MS 1000000ull
#define S 1000000000ull

struct speedscope {
	struct model *model;
	const struct export_options *options;
	FILE *out;
	/* the listed threads in the order of display; owned */
	struct model_thread **threads;
	uint32_t n;
	/* by node: time of the stack and of all that begin with it */
	uint64_t *subtree_ns;
	uint32_t *fold;	  /* node -> node */
	uint32_t *number; /* frame -> its index in the file; UINT32_MAX: not used */
	uint32_t *frames; /* the reverse */
	uint32_t frames_n;
	uint64_t *cost;	  /* bytes of the stack's array in the file */
	struct merge *merge;
	/* bin: length within which equal stacks are joined; 0: neighbours only. below: lighter stacks are
	 * folded; 0: none. to: where each thread's profile ends, ns since the begin of the window */
	uint64_t bin, below, to;
	struct buf head;  /* the text before the profiles */
	struct unit_spans spans;
	struct unit_frames unit_frames;
};

/* Numbers the frames, chooses `bin` and `fold` so that the file stays below its limit, and fills in `head`. */
int speedscope__fit(struct speedscope *file);
/* Fills in `head`; called for each bin that is tried, as the head says which. */
int speedscope__head(struct speedscope *file);
/* First of all: makes the spans of compiles, once `threads` and `to` are known. */
int speedscope__units(struct speedscope *file);
uint32_t speedscope__span_frame(const struct speedscope *file, const struct unit_span *span);
/* The text goes into the file when it has grown to `least` bytes, so that memory does not depend on the file's length. */
#define SPEEDSCOPE_TEXT (1u << 16)
int speedscope__flush(const struct speedscope *file, struct buf *text, size_t least);
/* Does a thread have compiles that are shown? And their events: text, which goes into the file meanwhile. */
bool speedscope__has_spans(const struct speedscope *file, uint32_t index);
int speedscope__put_spans(const struct speedscope *file, uint32_t index, struct buf *out);

/* "all threads" needs a bin: without one, its stack would change with each slice of any thread. */
static inline uint64_t speedscope_bin_all(uint64_t bin)
{
	return bin > 10 * MS ? bin : 10 * MS;
}

/* --- merge.c --- */
/* Merges the slices of one or several threads in the order of time. Neighbours with equal stacks are always joined.
 * With a bin length, equal stacks within each bin of time are joined, too: that keeps every sum, and loses only the
 * order inside a bin. Private to this directory. Errors: -errno. */
struct merge_visitor {
	void (*slice)(struct merge_visitor *self, uint32_t stack, uint64_t ns);
};

struct merge;
/* The model and `fold` are borrowed. fold[node]: the node that is shown instead of it. */
int merge__new(const struct model *model, const uint32_t *fold, struct merge **ret);
struct merge *merge__free(struct merge *merge);
/* bin 0 (neighbours only) is for a single thread. Calls the visitor for each merged slice, in the order of
 * time. The sum of its ns is that of the slices. May be run again with another bin. */
int merge__run(struct merge *merge, struct model_thread *const *threads, uint32_t n, uint64_t bin,
	       struct merge_visitor *visitor);

/* ns of each node including its descendants, over the given threads. The caller frees it. */
int merge__subtree_ns(const struct model *model, struct model_thread *const *threads, uint32_t n,
		      uint64_t **ret);
/* Adds the time of each node to that of its callers. */
void merge__add_up(const struct model *model, uint64_t *ns);
/* Folds each node lighter than `below` into its nearest caller that is not, or into (folded) if there is none. */
void merge__fold(const struct model *model, const uint64_t *subtree_ns, uint64_t below,
		 uint32_t *ret_fold);
