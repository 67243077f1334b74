/* SPDX-License-Identifier: MIT */
/* Samples are kept by what distinguishes them (thread, stack, class, unit), with the time of each. A request has a
 * resource for each process, and in it a profile for each kind of time:
 *
 *     resource        service.name, process.pid ...
 *       profile       cpu; or wall, cpu
 *         sample      a stack and its attributes: a list of values, and of the times at which they were measured
 *     dictionary      what the samples refer to
 *
 * Messages are nested, and each begins with its length: so the inner ones are encoded first, each in a buffer. */
#include "export/otlp.h"

#include <errno.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/order.h"
#include "export/formats.h"
#include "export/gzip.h"
#include "export/protobuf.h"
#include "export/quiet.h"
#include "export/stack_sums.h"

enum { REQUEST_RESOURCE = 1, REQUEST_DICTIONARY };
enum { RESOURCE_PROFILES_RESOURCE = 1, RESOURCE_PROFILES_SCOPE };
enum { RESOURCE_ATTRIBUTE = 1 };
enum { KEY_VALUE_KEY = 1, KEY_VALUE_VALUE };
enum { SCOPE_PROFILES_SCOPE = 1, SCOPE_PROFILES_PROFILE };
enum { SCOPE_NAME = 1, SCOPE_VERSION };
enum { PROFILE_TYPE = 1, PROFILE_SAMPLE, PROFILE_TIME, PROFILE_DURATION, PROFILE_PERIOD_TYPE, PROFILE_PERIOD, PROFILE_ID };
enum { VALUE_TYPE_TYPE = 1, VALUE_TYPE_UNIT };
enum { SAMPLE_STACK = 1, SAMPLE_ATTRIBUTES, SAMPLE_VALUES = 4, SAMPLE_TIMES };

struct series {
	uint32_t process, key;	/* the order in the request */
	uint32_t first, last;	/* observations + 1 */
};

/* The kinds of time. Readers show the first profile first. */
enum kind { KIND_WALL, KIND_CPU, KINDS };
static const char *const kind_names[KINDS] = {"wall", "cpu"};

/* The span of a request, ns since the session's start: times of its samples are in [from, to). */
struct span {
	uint64_t from, to;
};

static bool shows_waits(const struct model *model)
{
	return model->wall_mode || model->options->idle;
}

/* --- samples --- */

static int add_slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu, uint64_t wall)
{
	struct otlp *otlp = model->ctx;
	uint64_t to = model->options->to;
	struct observation fresh = {.time = to && model->time_now > to ? to : model->time_now, .cpu = cpu, .wall = wall};
	struct stack_key key = {.thread = thread->id, .stack = stack, .class_id = model->class_now, .unit = stack_sums__unit(model)};
	uint32_t id, number = otlp__samples(otlp) + 1;
	struct series *series;
	int err;

	/* Idle time is no stack's, and so in no sample. */
	if (stack_sums__apart(model, stack) || !model__passes(model, thread) || (otlp->quiet && quiet__is(otlp->quiet, thread->id)))
		return 0;
	err = intern__id(&otlp->keys, &key, sizeof(key), &id) ?: buf__append(&otlp->observations, &fresh, sizeof(fresh));
	series = err ? NULL : buf__at(&otlp->series, sizeof(*series), id);
	if (!series)
		return err ?: -ENOMEM;
	if (series->last)
		ITEM(otlp->observations, struct observation, series->last - 1).next = number;
	else
		*series = (struct series){.process = thread->process, .key = id, .first = number};
	series->last = number;
	return 0;
}

/* --- the request --- */

static void put_number(struct otlp *otlp, struct buf *out, uint32_t field, uint64_t value)
{
	otlp->err = otlp->err ?: protobuf__number(out, field, value);
}

static void put_message(struct otlp *otlp, struct buf *out, uint32_t field, const struct buf *message)
{
	otlp->err = otlp->err ?: protobuf__bytes(out, field, message->data, message->len);
}

static void put_text(struct otlp *otlp, struct buf *out, uint32_t field, const char *text)
{
	otlp->err = otlp->err ?: protobuf__bytes(out, field, text, strlen(text));
}

static void put_attribute(struct otlp *otlp, const char *key, const char *text, uint64_t number)
{
	uint32_t id = text && !*text ? 0 : dictionary__attribute(&otlp->dictionary, key, text, number);

	if (id)
		otlp->err = otlp->err ?: protobuf__varint(&otlp->part, id);
}

/* Of one sample, into `part`. What is not known has none. */
static void put_attributes(struct otlp *otlp, const struct stack_key *key)
{
	const struct model *model = &otlp->model;
	const struct model_thread *thread = model__thread(model, key->thread);
	uint32_t nodes[UNIT_KINDS];
	struct unit_node unit, phase, pass;

	unit_tree__innermost(&model->units, unit_tree__final(&model->units, key->unit), nodes);
	unit = unit_tree__node(&model->units, nodes[UNIT_COMPILE]);
	phase = unit_tree__node(&model->units, nodes[UNIT_PHASE]);
	pass = unit_tree__node(&model->units, nodes[UNIT_PASS]);
	buf__clear(&otlp->part);
	put_attribute(otlp, "thread.id", NULL, (uint64_t)thread->tid);
	put_attribute(otlp, "thread.name", thread->name, 0);
	put_attribute(otlp, "cprofd.class", class_names__name(&model->classes, key->class_id), 0);
	put_attribute(otlp, "compiler.name", *unit.compiler ? unit.compiler : *phase.compiler ? phase.compiler : pass.compiler, 0);
	put_attribute(otlp, "compiler.unit.name", nodes[UNIT_COMPILE] && !*unit.name ? UNIT_NO_NAME : unit.name, 0);
	put_attribute(otlp, "compiler.unit.signature", unit.signature, 0);
	put_attribute(otlp, "compiler.phase.name", phase.name, 0);
	put_attribute(otlp, "compiler.pass.name", pass.name, 0);
}

static void put_type(struct otlp *otlp, uint32_t field, enum kind kind)
{
	uint32_t type = dictionary__string(&otlp->dictionary, kind_names[kind]);
	uint32_t unit = dictionary__string(&otlp->dictionary, "nanoseconds");

	buf__clear(&otlp->part);
	put_number(otlp, &otlp->part, VALUE_TYPE_TYPE, type);
	put_number(otlp, &otlp->part, VALUE_TYPE_UNIT, unit);
	put_message(otlp, &otlp->profile, field, &otlp->part);
}

static void put_lists(struct otlp *otlp, const struct series *series, enum kind kind)
{
	struct buf *values = &otlp->packed, *times = &otlp->part;
	const struct observation *observation;

	buf__clear(values);
	buf__clear(times);
	for (uint32_t at = series->first; at && !otlp->err; at = observation->next) {
		uint64_t value;

		observation = &ITEM(otlp->observations, struct observation, at - 1);
		value = kind == KIND_CPU ? observation->cpu : observation->wall;
		if (value)
			otlp->err = protobuf__varint(values, value) ?: protobuf__eight(times, otlp->model.realtime + observation->time);
	}
	put_message(otlp, &otlp->sample, SAMPLE_VALUES, values);
	/* A recording of an unknown date has values alone. */
	if (otlp->model.realtime)
		put_message(otlp, &otlp->sample, SAMPLE_TIMES, times);
}

static void put_sample(struct otlp *otlp, const struct series *series, enum kind kind)
{
	size_t len;
	struct stack_key key = *(const struct stack_key *)intern__key(&otlp->keys, series->key, &len);

	/* What a thread that hardly ran waited is no part of a share (quiet.h). */
	if (model__thread(&otlp->model, key.thread)->quiet)
		return;
	buf__clear(&otlp->sample);
	put_number(otlp, &otlp->sample, SAMPLE_STACK, dictionary__stack(&otlp->dictionary, &otlp->model, key.stack));
	put_attributes(otlp, &key);
	put_message(otlp, &otlp->sample, SAMPLE_ATTRIBUTES, &otlp->part);
	put_lists(otlp, series, kind);
	if (otlp->packed.len)
		put_message(otlp, &otlp->profile, PROFILE_SAMPLE, &otlp->sample);
}

/* The same for the same samples: who gets a request twice can tell. */
static void put_id(struct otlp *otlp, uint32_t process, enum kind kind)
{
	const struct model *model = &otlp->model;
	const uint64_t what[] = {model->realtime, model->origin, otlp->number, (uint64_t)model->pid << 32 | process, kind};
	static const struct hash_seed seeds[] = {{0xa0761d6478bd642f, 0xe7037ed1a0b428db}, {0x8ebc6af09c88c6e3, 0x589965cc75374cc3}};

	buf__clear(&otlp->part);
	for (int i = 0; i < 2; i++)
		otlp->err = otlp->err ?: protobuf__eight(&otlp->part, hash__bytes(&seeds[i], what, sizeof(what)) | 1);
	put_message(otlp, &otlp->profile, PROFILE_ID, &otlp->part);
}

static void put_profile(struct otlp *otlp, const struct series *series, uint32_t n, enum kind kind, const struct span *span)
{
	size_t empty;

	buf__clear(&otlp->profile);
	put_type(otlp, PROFILE_TYPE, kind);
	put_type(otlp, PROFILE_PERIOD_TYPE, KIND_CPU);
	put_number(otlp, &otlp->profile, PROFILE_PERIOD, otlp->model.period);
	if (otlp->model.realtime)
		otlp->err = otlp->err ?: protobuf__fixed64(&otlp->profile, PROFILE_TIME, otlp->model.realtime + span->from);
	put_number(otlp, &otlp->profile, PROFILE_DURATION, span->to - span->from);
	put_id(otlp, series->process, kind);
	empty = otlp->profile.len;
	for (uint32_t i = 0; i < n && !otlp->err; i++)
		put_sample(otlp, &series[i], kind);
	if (otlp->profile.len > empty)
		put_message(otlp, &otlp->scope, SCOPE_PROFILES_PROFILE, &otlp->profile);
}

/* --- resources --- */

static void put_resource_attribute(struct otlp *otlp, const char *key, const char *text, uint64_t number)
{
	if (text && !*text)
		return;
	buf__clear(&otlp->part);
	put_text(otlp, &otlp->part, KEY_VALUE_KEY, key);
	otlp->err = otlp->err ?: dictionary__value(&otlp->part, KEY_VALUE_VALUE, &otlp->packed, text, number);
	put_message(otlp, &otlp->sample, RESOURCE_ATTRIBUTE, &otlp->part);
}

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
static void service_name(const struct model_process *process, char *ret, size_t size)
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

/* Into `sample`. */
static void put_resource(struct otlp *otlp, const struct model_process *process)
{
	char service[256], executable[256];

	service_name(process, service, sizeof(service));
	file_name(process->name, executable, sizeof(executable));
	buf__clear(&otlp->sample);
	put_resource_attribute(otlp, "service.name", otlp->resource.service ?: *service ? service : "unknown_service", 0);
	put_resource_attribute(otlp, "host.name", otlp->resource.host ?: "", 0);
	put_resource_attribute(otlp, "process.pid", NULL, (uint64_t)process->pid);
	put_resource_attribute(otlp, "process.executable.name", executable, 0);
	put_resource_attribute(otlp, "process.command_line", process->name, 0);
	put_resource_attribute(otlp, "process.runtime.name", *process->python ? "cpython" : "", 0);
	put_resource_attribute(otlp, "process.runtime.version", process->python, 0);
}

/* All profiles of one process: `n` of the series. */
static void put_process(struct otlp *otlp, const struct series *series, uint32_t n, const struct span *span, struct buf *out)
{
	struct buf *resource = &otlp->profile;
	size_t empty;

	buf__clear(&otlp->part);
	buf__clear(&otlp->scope);
	put_text(otlp, &otlp->part, SCOPE_NAME, "cprofd");
	put_text(otlp, &otlp->part, SCOPE_VERSION, CPROFD_VERSION);
	put_message(otlp, &otlp->scope, SCOPE_PROFILES_SCOPE, &otlp->part);
	empty = otlp->scope.len;
	for (enum kind kind = shows_waits(&otlp->model) ? KIND_WALL : KIND_CPU; kind < KINDS; kind++)
		put_profile(otlp, series, n, kind, span);
	if (otlp->scope.len == empty)
		return;
	put_resource(otlp, model__process(&otlp->model, series->process));
	buf__clear(resource);
	put_message(otlp, resource, RESOURCE_PROFILES_RESOURCE, &otlp->sample);
	put_message(otlp, resource, RESOURCE_PROFILES_SCOPE, &otlp->scope);
	put_message(otlp, out, REQUEST_RESOURCE, resource);
}

static int by_process(const void *left, const void *right)
{
	const struct series *a = left, *b = right;

	return ORDER(a->process, b->process) ?: ORDER(a->key, b->key);
}

static struct span span_of(const struct otlp *otlp)
{
	struct span span = {UINT64_MAX, 0};

	for (uint32_t i = 0; i < otlp__samples(otlp); i++) {
		const struct observation *at = &ITEM(otlp->observations, struct observation, i);
		uint64_t from = at->time > at->wall ? at->time - at->wall : 0;

		span.from = from < span.from ? from : span.from;
		span.to = at->time >= span.to ? at->time + 1 : span.to;
	}
	return span;
}

int otlp__encode(struct otlp *otlp, struct buf *out)
{
	struct series *series = (struct series *)otlp->series.data;
	uint32_t n = LENGTH(otlp->series, struct series), to;
	struct span span = span_of(otlp);

	if (!n)
		return 0;
	dictionary__begin(&otlp->dictionary);
	otlp->number++;
	qsort(series, n, sizeof(*series), by_process);
	for (uint32_t from = 0; from < n && !otlp->err; from = to) {
		for (to = from; to < n && series[to].process == series[from].process; to++)
			;
		put_process(otlp, &series[from], to - from, &span, out);
	}
	buf__clear(&otlp->profile);
	dictionary__encode(&otlp->dictionary, &otlp->profile);
	put_message(otlp, out, REQUEST_DICTIONARY, &otlp->profile);
	otlp->err = otlp->err ?: otlp->dictionary.err ?: out->len > INT32_MAX ? -EFBIG : 0; /* protocol buffers' limit */
	buf__clear(&otlp->observations);
	buf__free(&otlp->series);
	intern__free(&otlp->keys);
	return otlp->err;
}

int otlp__begin(struct otlp *otlp, const struct export_options *options)
{
	int err;

	*otlp = (struct otlp){};
	err = model__init_detailed(&otlp->model, options);
	otlp->model.slice = add_slice;
	otlp->model.with_units = true;
	otlp->model.ctx = otlp;
	return err;
}

void otlp__free(struct otlp *otlp)
{
	struct buf *bufs[] = {&otlp->series, &otlp->observations, &otlp->sample, &otlp->packed, &otlp->profile, &otlp->scope, &otlp->part};

	model__free(&otlp->model);
	dictionary__free(&otlp->dictionary);
	intern__free(&otlp->keys);
	for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
		buf__free(bufs[i]);
}

int export__otlp(int recording_fd, const struct export_options *options, FILE *out, struct export_report *ret)
{
	struct export_options lines = *options;
	struct otlp *otlp = calloc(1, sizeof(*otlp));
	struct buf message = {};
	int err;

	if (!otlp)
		return -ENOMEM;
	lines.lines = true;
	err = otlp__begin(otlp, &lines) ?: model__read(&otlp->model, recording_fd, &ret->missing) ?: otlp__encode(otlp, &message);
	model__report(&otlp->model, ret);
	err = err ?: gzip__all(out, Z_DEFAULT_COMPRESSION, message.data, message.len);
	buf__free(&message);
	otlp__free(otlp);
	free(otlp);
	return err;
}
