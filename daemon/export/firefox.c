/* SPDX-License-Identifier: MIT */
/* The processed profile format of Firefox Profiler (https://profiler.firefox.com), which Perfetto opens, too: threads
 * with samples, and markers for compiles and waits.
 *
 *     {"meta":{"categories":[...],"markerSchema":[...],...},"libs":[],"threads":[
 *      {"name":"python3","tid":4242,"samples":{"stack":[7,7,null,...],"time":[0,1.001,2.002,...],"weight":[...],
 *       "threadCPUDelta":[...]},"markers":{...},"stackTable":{"frame":[...],"prefix":[...]},"frameTable":{...},
 *       "funcTable":{...},"resourceTable":{...},"stringArray":[...]}]}
 *
 * A sample is a slice of the thread's time: it begins at `time`, lasts until the next one, and its weight is how long it
 * counts in the call tree: its CPU time, or in recordings of waits all of it. Idle time has no stack. Categories are
 * the classes of time. */
#include "export/firefox.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>

#include "events/json.h"
#include "export/formats.h"
#include "export/stack_sums.h"

#define TEXT_MAX (1u << 16)
/* Of an hour, default compression would be most of the time that the file takes. */
#define GZIP_LEVEL Z_BEST_SPEED

/* --- writing --- */

void firefox__put(struct firefox *firefox, const char *format, ...)
{
	char text[256];
	va_list list;
	int len;

	va_start(list, format);
	len = vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	if ((size_t)len >= sizeof(text)) /* it is for short constants and numbers */
		firefox->err = firefox->err ?: -EOVERFLOW;
	else
		firefox->err = firefox->err ?: buf__append(&firefox->text, text, (size_t)len);
	firefox__flush(firefox, TEXT_MAX);
}

void firefox__string(struct firefox *firefox, const char *string)
{
	firefox->err = firefox->err ?: json__string(&firefox->text, string);
}

static void put_comma(struct firefox *firefox, uint32_t i)
{
	if (i)
		firefox->err = firefox->err ?: buf__append(&firefox->text, ",", 1);
}

void firefox__item(struct firefox *firefox, uint32_t i, uint64_t number)
{
	put_comma(firefox, i);
	firefox->err = firefox->err ?: json__u64(&firefox->text, number);
	firefox__flush(firefox, TEXT_MAX);
}

static void firefox__null(struct firefox *firefox, uint32_t i)
{
	put_comma(firefox, i);
	firefox->err = firefox->err ?: buf__append(&firefox->text, "null", 4);
	firefox__flush(firefox, TEXT_MAX);
}

/* Six digits after the point, without zeros at their end. */
void firefox__item_ms(struct firefox *firefox, uint32_t i, uint64_t ns)
{
	uint32_t rest = (uint32_t)(ns % 1000000), digit = 100000;
	char text[8] = ".";
	size_t len = 1;

	firefox__item(firefox, i, ns / 1000000);
	if (!rest)
		return;
	for (; rest; rest %= digit, digit /= 10)
		text[len++] = (char)('0' + rest / digit);
	firefox->err = firefox->err ?: buf__append(&firefox->text, text, len);
}

void firefox__flush(struct firefox *firefox, size_t least)
{
	if (firefox->err || firefox->text.len < least)
		return;
	firefox->err = gzip__write(&firefox->file, firefox->text.data, firefox->text.len);
	buf__clear(&firefox->text);
}

/* --- reading --- */

static struct slices *rows_of(struct firefox *firefox, uint32_t thread)
{
	return buf__at(&firefox->rows, sizeof(struct slices), thread);
}

/* Time in which nothing ran is one row, however often it was looked at; a tick is always a row of its own. */
static bool joins(const struct slices *rows, uint32_t place, uint64_t cpu, uint64_t ns)
{
	const struct slice *last = &rows->last;

	return rows->n && last->stack == place && !last->cpu && !cpu && ns + last->ns <= UINT32_MAX;
}

/* The model's slices, in the order of time. */
static int add_slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu, uint64_t ns)
{
	struct firefox *firefox = model->ctx;
	struct firefox_place key = {.stack = stack == model->idle ? MODEL_ROOT : stack};
	struct slices *rows = rows_of(firefox, thread->id);
	uint32_t place;
	int err = rows ? 0 : -ENOMEM;

	/* Idle time would otherwise have the class of the sample after it. */
	if (!stack_sums__apart(model, stack))
		key.category = model->class_now + 1;
	err = err ?: intern__id(&firefox->places, &key, sizeof(key), &place);
	if (!err && joins(rows, place, cpu, ns)) {
		rows->last.ns += ns;
		return 0;
	}
	while (ns && !err) {
		struct slice row = {.stack = place, .ns = ns > UINT32_MAX ? UINT32_MAX : ns};

		row.cpu = cpu > row.ns ? row.ns : cpu;
		err = slices__add(rows, &row);
		ns -= row.ns;
		cpu -= row.cpu;
	}
	return err;
}

/* --- samples --- */

/* A thread that has none was never there. */
const struct slices *firefox__rows(const struct firefox *firefox, const struct model_thread *thread)
{
	static const struct slices none = {};

	return thread->id < LENGTH(firefox->rows, struct slices) ? &ITEM(firefox->rows, const struct slices, thread->id) : &none;
}

static bool has_stack(const struct firefox *firefox, const struct slice *row)
{
	return firefox__place(firefox, row->stack).stack != MODEL_ROOT;
}

static void put_stacks(struct firefox *firefox, const struct slices *rows, struct firefox_tables *tables)
{
	struct slices_cursor cursor = SLICES(rows);
	struct slice row;
	uint32_t i, node = 0;

	firefox__put(firefox, "\"stack\":[");
	for (i = 0; slices__next(&cursor, &row) && !firefox->err; i++)
		if (has_stack(firefox, &row)) {
			firefox->err = firefox_tables__stack(tables, firefox, row.stack, &node);
			firefox__item(firefox, i, node);
		} else {
			firefox__null(firefox, i);
		}
	/* The end of the last sample. */
	firefox__null(firefox, i);
	firefox__put(firefox, "],\n");
}

static void put_samples(struct firefox *firefox, const struct model_thread *thread, struct firefox_tables *tables)
{
	const struct model *model = &firefox->model;
	bool waits = model->wall_mode || model->options->idle;
	uint64_t time = model__begin(&firefox->model, thread);
	const struct slices *rows = firefox__rows(firefox, thread);
	struct slices_cursor cursor;
	struct slice row;
	uint32_t i;

	firefox__put(firefox, "\"samples\":{\"weightType\":\"tracing-ms\",\"length\":%u,\n", rows->n + 1);
	put_stacks(firefox, rows, tables);
	firefox__put(firefox, "\"time\":[");
	for (i = 0, cursor = SLICES(rows); slices__next(&cursor, &row); time += row.ns)
		firefox__item_ms(firefox, i++, time);
	firefox__item_ms(firefox, i, time);
	firefox__put(firefox, "],\n\"weight\":[");
	for (i = 0, cursor = SLICES(rows); slices__next(&cursor, &row);)
		firefox__item_ms(firefox, i++, has_stack(firefox, &row) ? waits ? row.ns : row.cpu : 0);
	firefox__item(firefox, i, 0);
	/* CPU time since the sample before. */
	firefox__put(firefox, "],\n\"threadCPUDelta\":[0");
	for (cursor = SLICES(rows); slices__next(&cursor, &row);)
		firefox__item(firefox, 1, row.cpu);
	firefox__put(firefox, "]},\n");
}

/* --- threads --- */

/* Two programs that had the same pid, one after the other, are two processes. */
static void put_pid(struct firefox *firefox, const struct model_thread *thread)
{
	const struct model_process *process = model__process(&firefox->model, thread->process);

	firefox__put(firefox, process->followed ? "\"%d.%u\"" : "\"%d\"", process->pid, thread->process);
}

static void put_thread(struct firefox *firefox, uint32_t index)
{
	const struct model_thread *thread = firefox->threads[index];
	const struct model_process *process = model__process(&firefox->model, thread->process);
	uint64_t from = model__from(&firefox->model);
	struct firefox_tables tables = {};

	firefox__put(firefox, "%s{\"processType\":\"default\",\"processName\":", index ? ",\n" : "");
	firefox__string(firefox, process->name);
	firefox__put(firefox, ",\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":");
	firefox__ms(firefox, model__begin(&firefox->model, thread));
	firefox__put(firefox, ",\"unregisterTime\":");
	if (thread->ended && thread->finish >= from)
		firefox__ms(firefox, thread->finish - from);
	else
		firefox__put(firefox, "null");
	firefox__put(firefox, ",\"pausedRanges\":[],\"name\":");
	firefox__string(firefox, thread->name);
	firefox__put(firefox, ",\"isMainThread\":%s,\"pid\":", thread->tid == process->pid ? "true" : "false");
	put_pid(firefox, thread);
	firefox__put(firefox, ",\"tid\":%d,\n", thread->tid);
	put_samples(firefox, thread, &tables);
	firefox__markers(firefox, index, &tables);
	firefox_tables__put(&tables, firefox);
	firefox__put(firefox, "}");
	firefox_tables__free(&tables);
}

static int write_file(struct firefox *firefox)
{
	firefox__put(firefox, "{\"meta\":");
	firefox__meta(firefox);
	firefox__put(firefox, ",\n\"libs\":[],\"pages\":[],\"counters\":[],\"profilerOverhead\":[],\n\"threads\":[\n");
	for (uint32_t i = 0; i < firefox->n && !firefox->err; i++)
		put_thread(firefox, i);
	firefox__put(firefox, "\n]}\n");
	firefox__flush(firefox, 0);
	return firefox->err ?: gzip__end(&firefox->file);
}

static void free_rows(struct firefox *firefox)
{
	for (uint32_t i = 0; i < LENGTH(firefox->rows, struct slices); i++)
		buf__free(&ITEM(firefox->rows, struct slices, i).packed);
	buf__free(&firefox->rows);
}

int export__firefox(int recording_fd, const struct export_options *options, FILE *out, struct export_report *ret)
{
	struct firefox *firefox = calloc(1, sizeof(*firefox));
	struct export_options lines = *options;
	struct model *model = firefox ? &firefox->model : NULL;
	int err;

	if (!firefox)
		return -ENOMEM;
	lines.lines = true;
	firefox->file.out = out;
	err = model__init_detailed(model, &lines);
	model->slice = add_slice;
	model->ctx = firefox;
	/* Spans need every call, with its begin and end. */
	model->with_units = model->units.keep = true;
	err = err ?: model__read(model, recording_fd, &ret->missing) ?: model__order(model, &firefox->threads, &firefox->n);
	err = err ?: unit_spans__make(model, firefox->threads, firefox->n, model__to(model) - model__from(model), UINT32_MAX, &firefox->spans);
	err = err ?: firefox__categories(firefox);
	if (!err && options->compress)
		err = gzip__begin(&firefox->file, GZIP_LEVEL);
	err = err ?: write_file(firefox);
	model__report(model, ret);
	gzip__free(&firefox->file);
	free_rows(firefox);
	free(firefox->threads);
	unit_spans__free(&firefox->spans);
	intern__free(&firefox->places);
	buf__free(&firefox->categories);
	buf__free(&firefox->text);
	model__free(model);
	free(firefox);
	return err;
}
