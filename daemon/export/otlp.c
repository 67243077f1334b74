/* SPDX-License-Identifier: MIT */
/* A request has a resource for each process, and in it a profile for each kind of time:
 *
 *     resource        service.name, process.pid ...
 *       profile       cpu; or wall, cpu
 *         sample      a stack and its attributes: a list of values, and of the times at which they were measured
 *     dictionary      what the samples refer to
 *
 * Messages are nested, and each begins with its length: so the inner ones are encoded first, each in a buffer. */
#include "export/otlp.h"

#include <errno.h>

#include "export/formats.h"
#include "export/gzip.h"
#include "export/protobuf.h"
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

/* The kinds of time. Readers show the first profile first. */
enum kind { KIND_WALL, KIND_CPU, KINDS };
static const char *const kind_names[KINDS] = {"wall", "cpu"};

struct otlp {
	struct batch *batch;
	struct dictionary dictionary;
	struct buf sample, packed, profile, scope, part; /* scratch */
	int err;
};

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
	const struct model *model = &otlp->batch->model;
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

		observation = &ITEM(otlp->batch->observations, struct observation, at - 1);
		value = kind == KIND_CPU ? observation->cpu : observation->wall;
		if (value)
			otlp->err = protobuf__varint(values, value) ?: protobuf__eight(times, otlp->batch->model.realtime + observation->time);
	}
	put_message(otlp, &otlp->sample, SAMPLE_VALUES, values);
	/* A recording of an unknown date has values alone. */
	if (otlp->batch->model.realtime)
		put_message(otlp, &otlp->sample, SAMPLE_TIMES, times);
}

static void put_sample(struct otlp *otlp, const struct series *series, enum kind kind)
{
	const struct stack_key *key = batch__key(otlp->batch, series);

	if (!key)
		return;
	buf__clear(&otlp->sample);
	put_number(otlp, &otlp->sample, SAMPLE_STACK, dictionary__stack(&otlp->dictionary, &otlp->batch->model, key->stack));
	put_attributes(otlp, key);
	put_message(otlp, &otlp->sample, SAMPLE_ATTRIBUTES, &otlp->part);
	put_lists(otlp, series, kind);
	if (otlp->packed.len)
		put_message(otlp, &otlp->profile, PROFILE_SAMPLE, &otlp->sample);
}

static void put_id(struct otlp *otlp, uint32_t process, enum kind kind)
{
	uint64_t id[2];

	batch__id(otlp->batch, process, kind, id);
	buf__clear(&otlp->part);
	for (int i = 0; i < 2; i++)
		otlp->err = otlp->err ?: protobuf__eight(&otlp->part, id[i]);
	put_message(otlp, &otlp->profile, PROFILE_ID, &otlp->part);
}

static void put_profile(struct otlp *otlp, const struct series *series, uint32_t n, enum kind kind, const struct batch_span *span)
{
	size_t empty;

	buf__clear(&otlp->profile);
	put_type(otlp, PROFILE_TYPE, kind);
	put_type(otlp, PROFILE_PERIOD_TYPE, KIND_CPU);
	put_number(otlp, &otlp->profile, PROFILE_PERIOD, otlp->batch->model.period);
	if (otlp->batch->model.realtime)
		otlp->err = otlp->err ?: protobuf__fixed64(&otlp->profile, PROFILE_TIME, otlp->batch->model.realtime + span->from);
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

/* Into `sample`. */
static void put_resource(struct otlp *otlp, const struct model_process *process)
{
	char service[256], executable[256];

	batch__service(otlp->batch, process, service, sizeof(service));
	batch__executable(process, executable, sizeof(executable));
	buf__clear(&otlp->sample);
	put_resource_attribute(otlp, "service.name", service, 0);
	put_resource_attribute(otlp, "host.name", otlp->batch->resource.host ?: "", 0);
	put_resource_attribute(otlp, "container.id", process->container, 0);
	put_resource_attribute(otlp, "process.pid", NULL, (uint64_t)process->pid);
	put_resource_attribute(otlp, "process.executable.name", executable, 0);
	put_resource_attribute(otlp, "process.command_line", process->name, 0);
	put_resource_attribute(otlp, "process.runtime.name", *process->python ? "cpython" : "", 0);
	put_resource_attribute(otlp, "process.runtime.version", process->python, 0);
}

/* All profiles of one process. */
static void put_process(struct otlp *otlp, const struct batch_process *process, const struct batch_span *span, struct buf *out)
{
	struct buf *resource = &otlp->profile;
	size_t empty;

	buf__clear(&otlp->part);
	buf__clear(&otlp->scope);
	put_text(otlp, &otlp->part, SCOPE_NAME, "cprofd");
	put_text(otlp, &otlp->part, SCOPE_VERSION, CPROFD_VERSION);
	put_message(otlp, &otlp->scope, SCOPE_PROFILES_SCOPE, &otlp->part);
	empty = otlp->scope.len;
	for (enum kind kind = batch__shows_waits(otlp->batch) ? KIND_WALL : KIND_CPU; kind < KINDS; kind++)
		put_profile(otlp, process->series, process->n, kind, span);
	if (otlp->scope.len == empty)
		return;
	put_resource(otlp, model__process(&otlp->batch->model, process->id));
	buf__clear(resource);
	put_message(otlp, resource, RESOURCE_PROFILES_RESOURCE, &otlp->sample);
	put_message(otlp, resource, RESOURCE_PROFILES_SCOPE, &otlp->scope);
	put_message(otlp, out, REQUEST_RESOURCE, resource);
}

static int encode(struct otlp *otlp, struct buf *out)
{
	struct batch_span span = batch__span(otlp->batch);
	struct batch_process process = {};

	dictionary__begin(&otlp->dictionary);
	while (!otlp->err && batch__next(otlp->batch, &process))
		put_process(otlp, &process, &span, out);
	buf__clear(&otlp->profile);
	dictionary__encode(&otlp->dictionary, &otlp->profile);
	put_message(otlp, out, REQUEST_DICTIONARY, &otlp->profile);
	return otlp->err ?: otlp->dictionary.err ?: out->len > INT32_MAX ? -EFBIG : 0; /* protocol buffers' limit */
}

int otlp__encode(struct batch *batch, struct buf *out)
{
	struct otlp otlp = {.batch = batch};
	struct buf *bufs[] = {&otlp.sample, &otlp.packed, &otlp.profile, &otlp.scope, &otlp.part};
	int err;

	if (!batch__samples(batch))
		return 0;
	batch__order(batch);
	err = encode(&otlp, out);
	batch__clear(batch);
	dictionary__free(&otlp.dictionary);
	for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
		buf__free(bufs[i]);
	return err;
}

int export__otlp(int recording_fd, const struct export_options *options, FILE *out, struct export_report *ret)
{
	struct export_options lines = *options;
	struct batch batch;
	struct buf message = {};
	int err;

	lines.lines = true;
	err = batch__begin(&batch, &lines) ?: model__read(&batch.model, recording_fd, &ret->missing) ?: otlp__encode(&batch, &message);
	model__report(&batch.model, ret);
	err = err ?: gzip__all(out, Z_DEFAULT_COMPRESSION, message.data, message.len);
	buf__free(&message);
	batch__free(&batch);
	return err;
}
