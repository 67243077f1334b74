/* SPDX-License-Identifier: MIT */
/* Samples are kept by what distinguishes them (thread, stack, class, unit), with the time of each. */
#include <stdlib.h>

#include "base/hash.h"
#include "base/order.h"
#include "export/batch.h"
#include "export/quiet.h"
#include "export/stack_sums.h"

bool batch__shows_waits(const struct batch *batch)
{
	return batch->model.wall_mode || batch->model.options->idle;
}

static int add_slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu, uint64_t wall)
{
	struct batch *batch = model->ctx;
	uint64_t to = model->options->to;
	struct observation fresh = {.time = to && model->time_now > to ? to : model->time_now, .cpu = cpu, .wall = wall};
	struct stack_key key = {.thread = thread->id, .stack = stack, .class_id = model->class_now, .unit = stack_sums__unit(model)};
	uint32_t id, number = batch__samples(batch) + 1;
	struct series *series;
	int err;

	/* Idle time is no stack's, and so in no sample. */
	if (stack_sums__apart(model, stack) || !model__passes(model, thread) || (batch->quiet && quiet__is(batch->quiet, thread->id)))
		return 0;
	err = intern__id(&batch->keys, &key, sizeof(key), &id) ?: buf__append(&batch->observations, &fresh, sizeof(fresh));
	series = err ? NULL : buf__at(&batch->series, sizeof(*series), id);
	if (!series)
		return err ?: -ENOMEM;
	if (series->last)
		ITEM(batch->observations, struct observation, series->last - 1).next = number;
	else
		*series = (struct series){.process = thread->process, .key = id, .first = number};
	series->last = number;
	return 0;
}

int batch__begin(struct batch *batch, const struct export_options *options)
{
	int err;

	*batch = (struct batch){};
	err = model__init_detailed(&batch->model, options);
	batch->model.slice = add_slice;
	batch->model.with_units = true;
	batch->model.ctx = batch;
	return err;
}

static int by_process(const void *left, const void *right)
{
	const struct series *a = left, *b = right;

	return ORDER(a->process, b->process) ?: ORDER(a->key, b->key);
}

void batch__order(struct batch *batch)
{
	batch->number++;
	qsort(batch->series.data, LENGTH(batch->series, struct series), sizeof(struct series), by_process);
}

bool batch__next(const struct batch *batch, struct batch_process *ret)
{
	const struct series *first = (const struct series *)batch->series.data, *end = first + LENGTH(batch->series, struct series);
	const struct series *from = ret->series ? ret->series + ret->n : first, *to;

	if (from == end)
		return false;
	for (to = from; to < end && to->process == from->process; to++)
		;
	*ret = (struct batch_process){.id = from->process, .n = (uint32_t)(to - from), .series = from};
	return true;
}

const struct stack_key *batch__key(const struct batch *batch, const struct series *series)
{
	size_t len;
	const struct stack_key *key = intern__key(&batch->keys, series->key, &len);

	return model__thread(&batch->model, key->thread)->quiet ? NULL : key;
}

void batch__id(const struct batch *batch, uint32_t process, uint32_t kind, uint64_t ret[2])
{
	const struct model *model = &batch->model;
	const uint64_t what[] = {model->realtime, model->origin, batch->number, (uint64_t)model->pid << 32 | process, kind};
	static const struct hash_seed seeds[] = {{0xa0761d6478bd642f, 0xe7037ed1a0b428db}, {0x8ebc6af09c88c6e3, 0x589965cc75374cc3}};

	for (int i = 0; i < 2; i++)
		ret[i] = hash__bytes(&seeds[i], what, sizeof(what)) | 1;
}

struct batch_span batch__span(const struct batch *batch)
{
	struct batch_span span = {UINT64_MAX, 0};

	for (uint32_t i = 0; i < batch__samples(batch); i++) {
		const struct observation *at = &ITEM(batch->observations, struct observation, i);
		uint64_t from = at->time > at->wall ? at->time - at->wall : 0;

		span.from = from < span.from ? from : span.from;
		span.to = at->time >= span.to ? at->time + 1 : span.to;
	}
	return span;
}

void batch__clear(struct batch *batch)
{
	buf__clear(&batch->observations);
	buf__free(&batch->series);
	intern__free(&batch->keys);
}

void batch__free(struct batch *batch)
{
	model__free(&batch->model);
	intern__free(&batch->keys);
	buf__free(&batch->series);
	buf__free(&batch->observations);
}

/* --- names --- */

/* The last part of a path, which ends at a blank: of "/usr/bin/python3 -m x" "python3". */
static void file_name(const char *path, char *ret, size_t size)
{
	int len = (int)strcspn(path, " "), from = len;

	while (from && path[from - 1] != '/')
		from--;
	snprintf(ret, size, "%.*s", len - from, path + from);
}

/* "python3 -O compile.py x" is the service "compile.py", "python3 -m pytest" is "pytest"; all others are their
 * executables. */
static void service_of(const struct model_process *process, char *ret, size_t size)
{
	const char *at = process->name;

	file_name(at, ret, size);
	if (!*process->python)
		return;
	while ((at = strchr(at, ' '))) {
		at++;
		if (!strncmp(at, "-m ", 3))
			at += 3;
		else if (!strncmp(at, "-c ", 3))
			return;
		else if (*at == '-')
			continue;
		if (*at && *at != ' ')
			file_name(at, ret, size);
		return;
	}
}

void batch__executable(const struct model_process *process, char *ret, size_t size)
{
	file_name(process->name, ret, size);
}

void batch__service(const struct batch *batch, const struct model_process *process, char *ret, size_t size)
{
	service_of(process, ret, size);
	if (batch->resource.service || !*ret)
		snprintf(ret, size, "%s", batch->resource.service ?: "unknown_service");
}
