/* SPDX-License-Identifier: MIT */
/* pprof's profile.proto (github.com/google/pprof), gzip'ed: for `go tool pprof` and profile stores. Each
 * sample has two values, CPU and wall time in ns. Locations are always lines, because readers can sum them up
 * by function. Labels: thread, tid, process, pid, class; for compiles unit, phase, pass. A recording has no
 * addresses, so locations have none; mappings are the modules of native code, by name.
 *
 * The order in the file is free, so everything is written as soon as it is met, compressed on the way, and
 * only numbers of strings and "already written" are kept:
 *
 *     sample_type "cpu", "wall"; period; time
 *     function 1, mapping 1, location 1, ... sample      functions and locations before the first sample that has them
 *     ...
 *     string table                                       last, as it grows until then; string 0 is "" */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "export/formats.h"
#include "export/gzip.h"
#include "export/pprof.h"
#include "export/protobuf.h"
#include "export/stack_sums.h"
#include "export/unit_frames.h"

/* Field numbers of profile.proto. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE,
	PROFILE_MAPPING,
	PROFILE_LOCATION,
	PROFILE_FUNCTION,
	PROFILE_STRING,
	PROFILE_TIME = 9,
	PROFILE_DURATION,
	PROFILE_PERIOD_TYPE,
	PROFILE_PERIOD,
	PROFILE_COMMENT,
	PROFILE_DEFAULT_SAMPLE_TYPE
};
/* Of its messages ValueType, Sample, Label, Mapping, Location, Line, Function. */
enum { VALUE_TYPE_TYPE = 1, VALUE_TYPE_UNIT };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_STRING, LABEL_NUMBER };
enum {
	MAPPING_ID = 1,
	MAPPING_FILE = 5,
	MAPPING_BUILD_ID,
	MAPPING_HAS_FUNCTIONS = 7,
	MAPPING_HAS_FILES,
	MAPPING_HAS_LINES
};
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILE, FUNCTION_LINE };

struct pprof {
	struct model *model;
	const struct sums *sums;
	const struct pprof_about *about;
	struct intern strings, mappings;   /* mappings: names of modules; id + 1 is the mapping's id */
	struct buf functions_seen;	   /* bool by function id: already written */
	struct buf locations_seen;	   /* bool by frame id: already written; id + 1 is the location's id */
	struct buf message, inner, packed; /* scratch */
	struct gzip file;
};

/* Writes `message` as a field of the profile. A nested message: its tag, its length, its bytes. proto3
 * concatenates fields, so the profile itself needs no frame. */
static int put_field(struct pprof *pprof, uint32_t field, const struct buf *message)
{
	struct buf *head = &pprof->packed;
	int err;

	buf__clear(head);
	err = protobuf__varint(head, field << 3 | PROTOBUF_LENGTH)
		      ?: protobuf__varint(head, message->len);
	err = err ?: gzip__write(&pprof->file, head->data, head->len);
	return err	      ? err
	       : message->len ? gzip__write(&pprof->file, message->data, message->len)
			      : 0;
}

/* A value of 0 writes nothing, as proto3 does. */
static int put_number(struct pprof *pprof, uint32_t field, uint64_t value)
{
	struct buf *head = &pprof->packed;

	buf__clear(head);
	if (protobuf__number(head, field, value))
		return -ENOMEM;
	return head->len ? gzip__write(&pprof->file, head->data, head->len) : 0;
}

/* --- strings and tables --- */

/* Adds the number of a string in the string table, which is its id here. */
static int add_string(struct pprof *pprof, struct buf *message, uint32_t field, const char *string)
{
	uint32_t id;

	return intern__id(&pprof->strings, string, strlen(string), &id)
		       ?: protobuf__number(message, field, id);
}

static int put_mapping(struct pprof *pprof, const char *module, uint32_t *ret_id)
{
	const char *build_id = model__build_id(pprof->model, module);
	uint32_t known = pprof->mappings.n, id;
	int err = intern__id(&pprof->mappings, module, strlen(module), &id);

	*ret_id = id + 1;
	if (err || id < known)
		return err;
	buf__clear(&pprof->message);
	/* Ids must not be 0. */
	err = protobuf__number(&pprof->message, MAPPING_ID, id + 1);
	err = err ?: add_string(pprof, &pprof->message, MAPPING_FILE, module);
	if (*build_id)
		err = err ?: add_string(pprof, &pprof->message, MAPPING_BUILD_ID, build_id);
	/* Names are complete: tells pprof not to look for symbols itself. */
	err = err ?: protobuf__number(&pprof->message, MAPPING_HAS_FUNCTIONS, 1);
	err = err ?: protobuf__number(&pprof->message, MAPPING_HAS_FILES, 1);
	err = err ?: protobuf__number(&pprof->message, MAPPING_HAS_LINES, 1);
	return err ?: put_field(pprof, PROFILE_MAPPING, &pprof->message);
}

static int put_function(struct pprof *pprof, const struct model_frame *frame)
{
	struct buf *message = &pprof->message;
	bool first;
	int err = buf__mark(&pprof->functions_seen, frame->function, &first);

	if (err || !first)
		return err;
	buf__clear(message);
	err = protobuf__number(message, FUNCTION_ID, frame->function + 1);
	err = err ?: add_string(pprof, message, FUNCTION_NAME, frame->name);
	err = err ?: add_string(pprof, message, FUNCTION_SYSTEM_NAME, frame->name);
	err = err ?: add_string(pprof, message, FUNCTION_FILE, frame->source);
	err = err ?: protobuf__number(message, FUNCTION_LINE, frame->first_line);
	return err ?: put_field(pprof, PROFILE_FUNCTION, message);
}

/* `message` and `inner` are shared scratch: the function and the mapping, which use them, too, are written
 * before they are filled here. */
static int put_location(struct pprof *pprof, uint32_t id)
{
	struct model_frame frame = model__frame(pprof->model, id);
	uint32_t mapping = 0;
	bool first;
	int err = buf__mark(&pprof->locations_seen, id, &first);

	if (err || !first)
		return err;
	err = put_function(pprof, &frame);
	if (!err && *frame.module)
		err = put_mapping(pprof, frame.module, &mapping);
	buf__clear(&pprof->inner);
	err = err ?: protobuf__number(&pprof->inner, LINE_FUNCTION, frame.function + 1);
	err = err ?: protobuf__number(&pprof->inner, LINE_LINE, frame.line);
	buf__clear(&pprof->message);
	err = err ?: protobuf__number(&pprof->message, LOCATION_ID, id + 1);
	err = err ?: protobuf__number(&pprof->message, LOCATION_MAPPING, mapping);
	err = err
		      ?: protobuf__bytes(&pprof->message, LOCATION_LINE, pprof->inner.data,
					 pprof->inner.len);
	return err ?: put_field(pprof, PROFILE_LOCATION, &pprof->message);
}

/* --- samples --- */

static int add_label(struct pprof *pprof, const char *key, const char *string, uint64_t number)
{
	struct buf *inner = &pprof->inner;
	int err;

	buf__clear(inner);
	err = add_string(pprof, inner, LABEL_KEY, key);
	if (string)
		err = err ?: add_string(pprof, inner, LABEL_STRING, string);
	else
		err = err ?: protobuf__number(inner, LABEL_NUMBER, number);
	return err ?: protobuf__bytes(&pprof->message, SAMPLE_LABEL, inner->data, inner->len);
}

/* Labels for the innermost compile, its phase and its pass. */
static int add_unit_labels(struct pprof *pprof, uint32_t id)
{
	static const char *const keys[UNIT_KINDS] = {"unit", "phase", "pass"};
	uint32_t nodes[UNIT_KINDS];
	_cleanup_(buf__free) struct buf name = {};
	int err = 0;

	unit_tree__innermost(&pprof->model->units, unit_tree__final(&pprof->model->units, id), nodes);
	for (int kind = 0; kind < UNIT_KINDS && !err; kind++) {
		struct unit_node node = unit_tree__node(&pprof->model->units, nodes[kind]);

		if (!nodes[kind])
			continue;
		buf__clear(&name);
		err = unit_frames__words(&node, &name) ?: add_label(pprof, keys[kind], name.data, 0);
	}
	return err;
}

/* Labels that make a series of a store: few values each. */
static int add_series_labels(struct pprof *pprof, const struct stack_key *key)
{
	const struct model *model = pprof->model;
	uint32_t nodes[UNIT_KINDS];
	struct unit_node unit, phase;
	const char *compiler;
	int err = add_label(pprof, "class", class_names__name(&model->classes, key->class_id), 0);

	unit_tree__innermost(&model->units, unit_tree__final(&model->units, key->unit), nodes);
	unit = unit_tree__node(&model->units, nodes[UNIT_COMPILE]);
	phase = unit_tree__node(&model->units, nodes[UNIT_PHASE]);
	compiler = *unit.compiler ? unit.compiler : phase.compiler;
	if (*compiler)
		err = err ?: add_label(pprof, "compiler", compiler, 0);
	if (*phase.name)
		err = err ?: add_label(pprof, "phase", phase.name, 0);
	return err;
}

static int add_labels(struct pprof *pprof, const struct stack_key *key)
{
	const struct model *model = pprof->model;
	const struct model_thread *thread = model__thread(model, key->thread);
	const struct model_process *process = model__process(model, thread->process);
	int err = add_label(pprof, "thread", thread->name, 0);

	err = err ?: add_label(pprof, "tid", NULL, (uint64_t)thread->tid);
	err = err ?: add_label(pprof, "process", process->name, 0);
	err = err ?: add_label(pprof, "pid", NULL, (uint64_t)process->pid);
	if (stack_sums__apart(model, key->stack))
		return err;
	err = err ?: add_label(pprof, "class", class_names__name(&model->classes, key->class_id), 0);
	return err ?: add_unit_labels(pprof, key->unit);
}

/* Locations that a sample refers to are written before it; the reader accepts any order. */
static int put_sample(struct pprof *pprof, const struct stack_key *key, const struct times *sum)
{
	struct model_node node;
	int err = 0;

	for (uint32_t stack = key->stack; stack != MODEL_ROOT && !err; stack = node.parent) {
		node = model__node(pprof->model, stack);
		err = put_location(pprof, node.frame);
	}
	buf__clear(&pprof->message);
	buf__clear(&pprof->packed);
	for (uint32_t stack = key->stack; stack != MODEL_ROOT && !err;
	     stack = node.parent) { /* leaf first */
		node = model__node(pprof->model, stack);
		err = protobuf__varint(&pprof->packed, node.frame + 1);
	}
	/* In bytes, of which a location has one to five. */
	err = err ?: limits__walk(pprof->packed.len);
	err = err
		      ?: protobuf__bytes(&pprof->message, SAMPLE_LOCATION, pprof->packed.data,
					 pprof->packed.len);
	buf__clear(&pprof->packed);
	err = err ?: protobuf__varint(&pprof->packed, sum->cpu);
	err = err ?: protobuf__varint(&pprof->packed, sum->wall);
	err = err
		      ?: protobuf__bytes(&pprof->message, SAMPLE_VALUE, pprof->packed.data,
					 pprof->packed.len);
	err = err ?: pprof->about->series ? add_series_labels(pprof, key) : add_labels(pprof, key);
	return err ?: put_field(pprof, PROFILE_SAMPLE, &pprof->message);
}

static int put_samples(struct pprof *pprof)
{
	_cleanup_(unit_frames__free) struct unit_frames frames = {};
	int err = 0;

	for (uint32_t i = 0; i < sums__n(pprof->sums) && !err; i++) {
		struct stack_key key = stack_sums__key(pprof->sums, i);

		/* Of a batch, only what is shown became sums. */
		if (!pprof->about->series && (!model__thread(pprof->model, key.thread)->shown || model__thread(pprof->model, key.thread)->quiet))
			continue;
		/* --units: the compiles become frames. Without it they are labels only. */
		if (pprof->model->options->units && key.unit)
			err = unit_frames__stack(&frames, pprof->model, key.unit, key.stack, &key.stack);
		err = err ?: put_sample(pprof, &key, sums__times(pprof->sums, i));
	}
	return err;
}

/* --- the profile --- */

static int put_value_type(struct pprof *pprof, uint32_t field, const char *type)
{
	int err;

	buf__clear(&pprof->message);
	err = add_string(pprof, &pprof->message, VALUE_TYPE_TYPE, type);
	err = err ?: add_string(pprof, &pprof->message, VALUE_TYPE_UNIT, "nanoseconds");
	return err ?: put_field(pprof, field, &pprof->message);
}

static int put_string_number(struct pprof *pprof, uint32_t field, const char *string)
{
	uint32_t id;

	return intern__id(&pprof->strings, string, strlen(string), &id)
		       ?: put_number(pprof, field, id);
}

static int put_about(struct pprof *pprof)
{
	const struct model *model = pprof->model;
	const struct pprof_about *about = pprof->about;
	int err = put_value_type(pprof, PROFILE_SAMPLE_TYPE, "cpu");

	err = err ?: put_value_type(pprof, PROFILE_SAMPLE_TYPE, "wall");
	err = err ?: put_value_type(pprof, PROFILE_PERIOD_TYPE, "cpu");
	err = err ?: put_number(pprof, PROFILE_PERIOD, model->period);
	err = err ?: put_number(pprof, PROFILE_TIME, model->realtime ? model->realtime + about->from : 0);
	err = err ?: put_number(pprof, PROFILE_DURATION, about->to - about->from);
	err = err
		      ?: put_string_number(pprof, PROFILE_DEFAULT_SAMPLE_TYPE,
					   model->wall_mode ? "wall" : "cpu");
	return err
		       ?: put_string_number(pprof, PROFILE_COMMENT,
					    "cprofd@" CPROFD_VERSION
					    ": times are sampled, calls are not counted");
}

static int put_strings(struct pprof *pprof)
{
	int err = 0;

	for (uint32_t i = 0; i < pprof->strings.n && !err; i++) {
		size_t len;
		const char *string = intern__key(&pprof->strings, i, &len);

		buf__clear(&pprof->message);
		err = len ? buf__append(&pprof->message, string, len) : 0;
		err = err ?: put_field(pprof, PROFILE_STRING, &pprof->message);
	}
	return err;
}

static int add_slice(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t cpu,
		     uint64_t ns)
{
	const struct times times = {cpu, ns};
	struct stack_key key = {.thread = thread->id, .stack = stack};

	/* Idle time would otherwise have the class of the sample after it. */
	if (!stack_sums__apart(model, stack)) {
		key.class_id = model->class_now;
		key.unit = stack_sums__unit(model);
	}
	return stack == MODEL_ROOT ? 0 : sums__add(model->ctx, &key, sizeof(key), &times);
}

static int write_profile(struct pprof *pprof)
{
	uint32_t empty;
	int err = intern__id(&pprof->strings, "", 0, &empty); /* string 0 must be "" */

	err = err ?: gzip__begin(&pprof->file, Z_DEFAULT_COMPRESSION) ?: put_about(pprof) ?: put_samples(pprof);
	return err ?: put_strings(pprof) ?: gzip__end(&pprof->file);
}

int pprof__write(struct model *model, const struct sums *sums, const struct pprof_about *about, FILE *out)
{
	struct pprof pprof = {.model = model, .sums = sums, .about = about, .file.out = out};
	struct buf *bufs[] = {&pprof.functions_seen, &pprof.locations_seen, &pprof.message, &pprof.inner, &pprof.packed};
	int err = write_profile(&pprof);

	gzip__free(&pprof.file);
	intern__free(&pprof.strings);
	intern__free(&pprof.mappings);
	for (size_t i = 0; i < sizeof(bufs) / sizeof(bufs[0]); i++)
		buf__free(bufs[i]);
	return err;
}

int export__pprof(int recording_fd, const struct export_options *options, FILE *out, struct export_report *ret)
{
	struct export_options lines = *options;
	struct pprof_about about = {};
	struct sums sums = {};
	struct model model;
	int err;

	lines.lines = true;
	err = model__init_detailed(&model, &lines);
	model.slice = add_slice;
	model.with_units = true;
	model.ctx = &sums;
	err = err ?: model__read(&model, recording_fd, &ret->missing);
	about.from = model__from(&model);
	about.to = model__to(&model);
	err = err ?: pprof__write(&model, &sums, &about, out);
	model__report(&model, ret);
	model__free(&model);
	sums__free(&sums);
	return err;
}
