/* SPDX-License-Identifier: MIT */
/* Samples of stacks, as they are read: StackSample, which is measured in ns of CPU time, or in recordings of waits of
 * wall time with CPU time beside it. Stacks, frames and threads are interned.
 *
 * A frame has no address: a recording has none. Perfetto takes frames of a mapping with the same address and name for
 * one, so a frame has either its module or its source line. */
#include <errno.h>

#include "base/limits.h"
#include "export/perfetto.h"
#include "export/stack_sums.h"
#include "export/waiting.h"

/* Of InternedData. */
enum { INTERNED_FRAME = 6, INTERNED_STACK = 7, INTERNED_MODULE = 19, INTERNED_TASK = 48 };
/* Of Frame, Callstack, Mapping, TaskContext, StackSample, StackSampleDefaults, CounterDescriptor. */
enum { FRAME_ID = 1, FRAME_FUNCTION, FRAME_MODULE, FRAME_SOURCE = 5, FRAME_LINE, FRAME_KIND };
enum { STACK_ID = 1, STACK_FRAMES };
enum { MODULE_ID = 1, MODULE_PATH = 7 };
enum { TASK_ID = 1, TASK_PROCESS, TASK_THREAD };
enum { SAMPLE_TASK = 2, SAMPLE_STACK = 6, SAMPLE_WEIGHT = 11, SAMPLE_FOLLOWERS = 14 };
enum { DEFAULTS_SOURCE = 1, DEFAULTS_PRIMARY, DEFAULTS_FOLLOWER };
enum { COUNTER_NAME = 2, COUNTER_UNIT };
#define UNIT_NANOSECONDS 1u

static void put_measure(struct perfetto *perfetto, struct buf *out, uint32_t field, const char *name)
{
	_cleanup_(buf__free) struct buf counter = {};

	perfetto__text(perfetto, &counter, COUNTER_NAME, name);
	perfetto__number(perfetto, &counter, COUNTER_UNIT, UNIT_NANOSECONDS);
	perfetto__message(perfetto, out, field, &counter);
}

static bool shows_waits(const struct model *model)
{
	return model->wall_mode || model->options->idle;
}

void perfetto__measure(struct perfetto *perfetto, struct buf *out)
{
	perfetto__text(perfetto, out, DEFAULTS_SOURCE, "cprofd");
	put_measure(perfetto, out, DEFAULTS_PRIMARY, shows_waits(&perfetto->model) ? "wall time" : "CPU time");
	if (shows_waits(&perfetto->model))
		put_measure(perfetto, out, DEFAULTS_FOLLOWER, "CPU time");
}

/* Of enum Frame.Kind. Notes, such as "(GC)" and waits, have none. */
static uint64_t kind_of(const struct model_frame *frame)
{
	enum { UNKNOWN, NATIVE, KERNEL, INTERPRETED, JIT, GC, RUNTIME };
	static const uint8_t kinds[] = {
		[FUNCTION_PYTHON] = INTERPRETED, [FUNCTION_NATIVE] = NATIVE, [FUNCTION_KERNEL] = KERNEL,	 [FUNCTION_NOTE] = UNKNOWN,
		[FUNCTION_JIT] = JIT,		 [FUNCTION_CALL] = NATIVE,   [FUNCTION_INTERPRETER] = RUNTIME,
	};

	return frame->kind < sizeof(kinds) ? kinds[frame->kind] : UNKNOWN;
}

static uint64_t put_module(struct perfetto *perfetto, const char *name)
{
	struct buf *message = &perfetto->inner;
	uint64_t id = perfetto__string(perfetto, STRING_MODULE, name);

	if (!perfetto__first(perfetto, &perfetto->modules_known, (uint32_t)id))
		return id;
	buf__clear(message);
	perfetto__number(perfetto, message, MODULE_ID, id);
	perfetto__number(perfetto, message, MODULE_PATH, id);
	perfetto__message(perfetto, &perfetto->interned, INTERNED_MODULE, message);
	return id;
}

static void put_frame(struct perfetto *perfetto, uint32_t id)
{
	struct model_frame frame = model__frame(&perfetto->model, id);
	uint64_t function, source = 0, module = 0;
	struct buf *message = &perfetto->inner;

	if (!perfetto__first(perfetto, &perfetto->frames_known, id))
		return;
	function = perfetto__string(perfetto, STRING_FUNCTION, frame.name);
	if (*frame.source)
		source = perfetto__string(perfetto, STRING_SOURCE, frame.source);
	else if (*frame.module)
		module = put_module(perfetto, frame.module);
	buf__clear(message);
	perfetto__number(perfetto, message, FRAME_ID, id + 1);
	perfetto__number(perfetto, message, FRAME_FUNCTION, function);
	perfetto__number(perfetto, message, FRAME_MODULE, module);
	perfetto__number(perfetto, message, FRAME_SOURCE, source);
	perfetto__number(perfetto, message, FRAME_LINE, frame.line);
	perfetto__number(perfetto, message, FRAME_KIND, kind_of(&frame));
	perfetto__message(perfetto, &perfetto->interned, INTERNED_FRAME, message);
}

/* Outermost frame first. */
static void put_stack(struct perfetto *perfetto, uint32_t stack)
{
	struct buf *path = &perfetto->path, *message = &perfetto->inner;
	struct model_node node;

	if (!perfetto__first(perfetto, &perfetto->stacks_known, stack))
		return;
	for (uint32_t at = stack; at != MODEL_ROOT && !perfetto->err; at = node.parent) {
		node = model__node(&perfetto->model, at);
		put_frame(perfetto, node.frame);
	}
	/* Not before: strings of frames are made in the same buffer. */
	perfetto->err = perfetto->err ?: model__path(&perfetto->model, stack, path) ?: limits__walk(LENGTH(*path, uint32_t));
	buf__clear(message);
	perfetto__number(perfetto, message, STACK_ID, stack);
	for (uint32_t i = LENGTH(*path, uint32_t); i-- && !perfetto->err;)
		perfetto__number(perfetto, message, STACK_FRAMES, ITEM(*path, uint32_t, i) + 1);
	perfetto__message(perfetto, &perfetto->interned, INTERNED_STACK, message);
}

static void put_task(struct perfetto *perfetto, const struct model_thread *thread, uint32_t id)
{
	struct buf *message = &perfetto->inner;

	if (!perfetto__first(perfetto, &perfetto->tasks_known, id))
		return;
	buf__clear(message);
	perfetto__number(perfetto, message, TASK_ID, id + 1);
	perfetto__number(perfetto, message, TASK_PROCESS, (uint32_t)model__process(&perfetto->model, thread->process)->pid);
	perfetto__number(perfetto, message, TASK_THREAD, (uint32_t)thread->tid);
	perfetto__message(perfetto, &perfetto->interned, INTERNED_TASK, message);
}

static void put_sample(struct perfetto *perfetto, const struct model_thread *thread, uint32_t task, uint32_t stack, uint64_t time, uint64_t cpu,
		       uint64_t wall)
{
	struct buf *message = &perfetto->message;

	put_task(perfetto, thread, task);
	put_stack(perfetto, stack);
	buf__clear(message);
	perfetto__number(perfetto, message, SAMPLE_TASK, task + 1);
	perfetto__number(perfetto, message, SAMPLE_STACK, stack);
	perfetto__number(perfetto, message, SAMPLE_WEIGHT, shows_waits(&perfetto->model) ? wall : cpu);
	/* An item of a list, which is there also if it is 0. */
	if (shows_waits(&perfetto->model))
		perfetto->err = perfetto->err ?: protobuf__varint(message, SAMPLE_FOLLOWERS << 3 | PROTOBUF_VARINT) ?: protobuf__varint(message, cpu);
	perfetto__packet(perfetto, time, PACKET_SAMPLE, message);
}

int perfetto__sampled(struct model *model, struct model_thread *thread, uint32_t stack, uint64_t ran, uint64_t shown)
{
	struct perfetto *perfetto = model->ctx;
	uint64_t to = model->options->to, end = to && model->time_now > to ? to : model->time_now;
	uint64_t span = model->cause_now ? shown : ran, begin = end > span ? end - span : 0;
	uint32_t track, process;
	const char *holder;

	/* With a filter of samples, what has none is left out, too. */
	if (!model__passes(model, thread) || !span || stack == model->left_out || stack_sums__apart(model, stack) ||
	    (model->filter && stack == model->not_sampled))
		return perfetto->err;
	track = perfetto__thread(perfetto, thread);
	process = perfetto__process(perfetto, thread->process);
	if (model->cause_now) {
		waiting__cause(model, stack, &holder);
		if (shows_waits(model))
			put_sample(perfetto, thread, track, stack, end, 0, shown);
		perfetto__does(perfetto, track, begin, end, wait__frame((enum wait_cause)model->cause_now), holder);
		if (model->cause_now == WAIT_GIL)
			perfetto__count(perfetto, process, begin, end, true);
		return perfetto->err;
	}
	put_sample(perfetto, thread, track, stack, end, ran, ran);
	perfetto__does(perfetto, track, begin, end, class_names__name(&model->classes, model->class_now), "");
	perfetto__works(perfetto, track, begin, end);
	perfetto__count(perfetto, process, begin, end, false);
	return perfetto->err;
}
