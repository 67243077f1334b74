/* SPDX-License-Identifier: MIT */
/* Complete compiles: those that a recording (or the window) contains from begin to end. Each thread has at
 * most one outermost compile open; the sums of its samples are staged until it has ended, and then count in
 * one cell. A compile that the recording's begin or end cuts is left out, as its time is not that of a whole
 * compile. The time between two compiles counts with the later one; the time before the first and after the
 * last one, which the program has once, is left out.
 *
 *     recording:   ...AAAA|  between  BBBBBBB  between  CCCC...
 *                   cut    left out   |  cell 1  |  with C, which is cut: left out
 *
 * For --per=share nothing is staged: samples go to their cells at once, and only the number of compiles is
 * kept here. */
#include <errno.h>
#include <stdlib.h>

#include "diff/internal.h"

struct staged_key {
	uint32_t kind, what;
};
struct staged {
	uint64_t ns, samples;
};

/* Sums that wait for the end of a compile. */
struct staging {
	struct intern keys; /* struct staged_key */
	struct buf items;   /* struct staged */
	/* as struct measure has them */
	double time, collector;
};

/* Of one thread. `before` waits with it, as it counts in the same cell. */
struct open_compile {
	struct staging staging, before; /* before: of the time since the previous compile */
	bool seen;	 /* its thread had a sample before */
	bool open;
	bool cut, left, counted; /* cut: not complete; left: the thread had a later sample outside of it */
	uint32_t number; /* the number of its call, which is the same in all epochs; from 1 */
	uint32_t node;
};

static struct diff_recording *current(struct diff *diff)
{
	return &diff->recordings[diff->read];
}

/* --- staged time --- */

int whole__stage(struct staging *staging, enum series_kind kind, uint32_t what, uint64_t ns)
{
	const struct staged_key key = {kind, what};
	struct staged *item = intern__item(&staging->keys, &key, sizeof(key), &staging->items, sizeof(*item));

	if (!item)
		return -ENOMEM;
	item->ns += ns;
	item->samples++;
	return 0;
}

void whole__time(struct diff *diff, uint64_t ns, bool collector)
{
	*(collector ? &diff->staging->collector : &diff->staging->time) += (double)ns;
}

static void clear_staging(struct staging *staging)
{
	intern__free(&staging->keys);
	buf__clear(&staging->items);
	staging->time = staging->collector = 0;
}

static void free_staging(struct staging *staging)
{
	clear_staging(staging);
	buf__free(&staging->items);
}

/* Moves staged time to the newest cell. */
static int give(struct diff *diff, struct staging *staging)
{
	struct measure *measure = &current(diff)->measures[DIFF_COMPILE];
	uint32_t i, cell = measure__cell(measure);
	int err = 0;

	for (i = 0; i < staging->keys.n && !err; i++) {
		const struct staged_key *key = (const struct staged_key *)staging->keys.keys.data + i;
		const struct staged *item = &ITEM(staging->items, struct staged, i);
		struct series *series = series__at(&measure->series[key->kind], key->what);

		err = series ? series__add_samples(series, cell, item->ns, item->samples) : -ENOMEM;
	}
	measure->time[cell] += staging->time;
	measure->collector[cell] += staging->collector;
	clear_staging(staging);
	return err;
}

/* --- which compile is running --- */

static uint32_t outermost(const struct unit_tree *tree, uint32_t call)
{
	while (call != CALL_NONE && unit_tree__call(tree, call)->parent != CALL_NONE)
		call = unit_tree__call(tree, call)->parent;
	return call;
}

/* A compile that counts is a step of the axis: the newest cell gets its time, and the time before it. */
static int close_compile(struct diff *diff, struct open_compile *compile, bool whole)
{
	struct measure *measure = &current(diff)->measures[DIFF_COMPILE];
	uint32_t *begun;
	int err = 0;

	compile->open = false;
	current(diff)->compiles_cut += !whole && compile->counted;
	if (!diff__by_compile(diff))
		return 0;
	if (!whole || !compile->counted) {
		clear_staging(&compile->staging);
		clear_staging(&compile->before);
		return 0;
	}
	begun = diff__cached(&diff->begun, compile->node);
	if (!begun)
		return -ENOMEM;
	(*begun)++;
	measure__advance(measure, 1);
	err = give(diff, &compile->staging);
	return err ?: give(diff, &compile->before);
}

/* Allocated one by one: diff->staging points into one of them while others are added. */
static struct open_compile *of_thread(struct diff *diff, uint32_t thread)
{
	struct open_compile **at = buf__at(&diff->open, sizeof(*at), thread);

	return at ? *at ?: (*at = calloc(1, sizeof(**at))) : NULL;
}

static void open_it(struct diff *diff, struct open_compile *compile, const struct model_thread *thread, uint32_t call)
{
	struct unit_call *outer = unit_tree__call(&diff->model->units, call);

	if (!diff->numbered) /* time before the first compile is not between two */
		clear_staging(diff->between);
	/* A call keeps its number over epochs, while its index in the tree changes. */
	outer->number = ++diff->numbered;
	/* Usually empty: close_compile() has given it away. */
	free_staging(&compile->before);
	/* All time between compiles, of whichever thread, goes to the next one that begins. */
	compile->before = *diff->between;
	*diff->between = (struct staging){};
	compile->open = true;
	compile->left = compile->counted = false;
	/* The thread existed before the recording, and its first sample is inside the compile; or the window begins
	 * inside. */
	compile->cut = (!compile->seen && !thread->begin) || outer->begin < diff->model->options->from;
	compile->number = outer->number;
}

/* The staging of time outside of compiles, the default for each sample. */
static int between(struct diff *diff)
{
	if (!diff->between)
		diff->between = calloc(1, sizeof(*diff->between));
	diff->staging = diff->between;
	return diff->between ? 0 : -ENOMEM;
}

int whole__follow(struct diff *diff, const struct model_thread *thread, bool sampled, bool shown)
{
	const struct model *model = diff->model;
	uint32_t call = outermost(&model->units, model->call_now);
	struct open_compile *compile = of_thread(diff, thread->id);
	struct unit_call *outer = call == CALL_NONE ? NULL : unit_tree__call(&model->units, call);
	int err;

	if (!compile)
		return -ENOMEM;
	err = between(diff);
	/* A sample without a unit may have an unreadable stack: the compile may go on after it. So it is closed only
	 * by the next one. */
	if (!err && compile->open && outer && outer->number != compile->number)
		err = close_compile(diff, compile, !compile->cut);
	if (!err && outer && !compile->open)
		open_it(diff, compile, thread, call);
	compile->seen = true;
	if (sampled)
		compile->left = !outer;
	if (err || !outer)
		return err;
	compile->node = outer->node;
	/* The window ended inside of it. */
	compile->cut |= model->options->to && model->time_now > model->options->to;
	diff->staging = &compile->staging;
	if (!shown || compile->counted)
		return 0;
	compile->counted = true;
	current(diff)->compiles++;
	if (!diff__by_compile(diff))
		measure__advance(&current(diff)->measures[DIFF_COMPILE], 1);
	return 0;
}

int whole__finish(struct diff *diff)
{
	const struct model *model = diff->model;
	int err = 0;

	for (uint32_t i = 0; i < LENGTH(diff->open, struct open_compile *) && !err; i++) {
		struct open_compile *compile = ITEM(diff->open, struct open_compile *, i);
		const struct model_thread *thread = model__thread(model, i);

		/* At the end of a recording, all units get an end. The compile is complete only if the thread left
		 * it before. */
		if (compile && compile->open)
			err = close_compile(diff, compile, !compile->cut && (compile->left || thread->finish + model->period < model->finish));
	}
	return err;
}

void whole__free(struct diff *diff)
{
	for (uint32_t i = 0; i < LENGTH(diff->open, struct open_compile *); i++) {
		struct open_compile *compile = ITEM(diff->open, struct open_compile *, i);

		if (compile) {
			free_staging(&compile->staging);
			free_staging(&compile->before);
		}
		free(compile);
	}
	buf__free(&diff->open);
	if (diff->between)
		free_staging(diff->between);
	free(diff->between);
	diff->between = diff->staging = NULL;
	diff->numbered = 0;
}
