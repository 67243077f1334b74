/* SPDX-License-Identifier: MIT */
/* Emits one thread as JSON: merges its native and Python frames (weave) and symbolizes them.
 *
 * A frame whose name is not known shows its address, a walk that ended early a frame {"kind": "cut", "loss": ...,
 * "why": ...}. Pure but for names, which codemap finds. */
#include <string.h>

#include "base/cleanup.h"
#include "base/json_text.h"
#include "base/safe_text.h"
#include "dump/dump.h"

/* A line of the protocol has at most 4 MiB: above this size the outer frames are left out, with a note. */
#define BYTES_MAX (3u << 20)
#define NAME_MAX_BYTES 1024u

/* Work space for one stack; too large for the C stack. */
struct weaving {
	uint8_t roles[DUMP_NATIVE_MAX];
	struct weave_item items[DUMP_NATIVE_MAX + RECORD_PY_FRAMES_MAX + WEAVE_ITEMS_MORE];
};

static const char *const sentences[] = {
#define SENTENCE(id, kind, name, sentence) [LOSS_##id] = sentence,
	CPROFD_LOSSES(SENTENCE)
#undef SENTENCE
};
static const char *const names[] = {
#define NAME(id, kind, name, sentence) [LOSS_##id] = name,
	CPROFD_LOSSES(NAME)
#undef NAME
};

/* Long names are truncated. */
static json_t *text(const char *name)
{
	char start[NAME_MAX_BYTES + 1];

	text__copy(start, sizeof(start), name);
	return json__text(start);
}

/* On error the location is empty: "" and LOCATION_UNKNOWN. */
static void find_location(struct codemap *codemap, const struct dump_result *result, uint64_t pc, uint64_t now,
		       struct code_location *ret)
{
	const struct record_task task = dump_task(result);

	*ret = (struct code_location){.module_name = "", .name = ""};
	if (codemap__find(codemap, &task, native_address(pc), now, ret))
		*ret = (struct code_location){.module_name = "", .name = ""};
}

static const char *const kinds[] = {
	[LOCATION_UNKNOWN] = "native",	[LOCATION_LIBRARY] = "native", [LOCATION_INTERPRETER] = "interpreter",
	[LOCATION_JIT] = "jit",		[LOCATION_VDSO] = "native",    [LOCATION_KERNEL] = "kernel",
};

static json_t *native_frame(struct codemap *codemap, const struct dump_result *result, uint64_t pc, uint64_t now)
{
	struct code_location location;
	char address[24];

	find_location(codemap, result, pc, now, &location);
	snprintf(address, sizeof(address), "0x%llx", (unsigned long long)(pc & ~NATIVE_EXACT));
	return json_pack("{s:s, s:o, s:o, s:s, s:b}", "kind", kinds[location.kind], "function",
			 *location.name ? text(location.name) : json_string(address), "module", text(location.module_name), "pc",
			 address, "exact", (pc & NATIVE_EXACT) != 0);
}

/* A frame in the place of what is missing, with the name of the loss and its sentence (cprofd/loss.h). */
static json_t *note(uint16_t loss)
{
	return json_pack("{s:s, s:s, s:s}", "kind", "cut", "loss", names[loss], "why", sentences[loss]);
}

/* _Py_InitCleanup of CPython 3.12+: a frame that tracebacks do not show. */
static bool is_shim(const json_t *frame)
{
	const char *function = json_string_value(json_object_get(frame, "function"));
	const char *file = json_string_value(json_object_get(frame, "file"));

	return function && file && !strcmp(function, "__init__") && !strcmp(file, "__init__");
}

/* The JSON array under construction. `bytes` is an upper estimate of its text: each byte of a name may become
 * \\uXXXX. */
struct emitting {
	json_t *frames;
	size_t bytes;
	bool full;
};

/* Appends `frame` and takes its reference. NULL: out of memory, and so the array will be. */
static void put(struct emitting *emitting, json_t *frame)
{
	const char *function = json_string_value(json_object_get(frame, "function"));
	const char *file = json_string_value(json_object_get(frame, "file"));

	emitting->bytes += 160 + 6 * ((function ? strlen(function) : 0) + (file ? strlen(file) : 0));
	if (emitting->full) {
		json_decref(frame);
		return;
	}
	if (emitting->bytes > BYTES_MAX) {
		emitting->full = true;
		json_decref(frame);
		frame = note(LOSS_NATIVE_DEPTH);
	}
	json__append(&emitting->frames, frame);
}

static json_t *buf_text(const struct buf *buf)
{
	return json__textn(buf->data ? buf->data : "", buf->len);
}

static json_t *python_frame(const struct python_walker *python, const struct py_frame *frame)
{
	_cleanup_(buf__free) struct buf function = {}, file = {};
	uint32_t line;

	if (python_walker__locate(python, frame, &function, &file, &line))
		return NULL;
	return json_pack("{s:s, s:o, s:o, s:i}", "kind", "python", "function", buf_text(&function), "file", buf_text(&file), "line",
			 (int)line);
}

static void put_python(struct emitting *emitting, const struct python_walker *python, const struct py_frame *frame)
{
	json_t *json = python_frame(python, frame);

	if (is_shim(json))
		json_decref(json);
	else
		put(emitting, json);
}

/* With --native=leaf only the innermost native frame is woven, and the native stack counts as incomplete.
 * weave__greenlet() cuts off what belongs to other greenlets. The order of weave's items is the order of the output. */
static void put_woven(struct emitting *emitting, struct python_walker *python, struct codemap *codemap,
		      const struct dump_result *result, uint64_t now)
{
	_cleanup_free_ struct weaving *weaving = malloc(sizeof(*weaving));
	const struct dump_native *natives = result->natives;
	const struct record_task task = dump_task(result);
	bool whole = !natives->loss && result->native > 1;
	uint32_t n = result->native > 1 || !natives->n ? natives->n : 1, i;
	enum weave_greenlet greenlet;
	struct weave_result woven;
	struct weave_input in;
	struct code_location location;

	if (!weaving) {
		put(emitting, NULL);
		return;
	}
	for (i = 0; i < n; i++) {
		find_location(codemap, result, natives->pc[i], now, &location);
		weaving->roles[i] = location.role;
	}
	in = (struct weave_input){.python = result->python.frames,
				  .n_python = result->python.n,
				  .native = weaving->roles,
				  .n_native = n,
				  .python_whole = !result->python.loss,
				  .native_whole = whole,
				  .eval_known = codemap__eval_known(codemap, &task, now) > 0};
	greenlet = weave__greenlet(&in);
	in.python_whole |= greenlet == WEAVE_SWITCHES && result->python.loss == LOSS_FRAME_HALF;
	weave(&in, weaving->items, &woven);
	for (i = 0; i < woven.n; i++) {
		const struct weave_item *item = &weaving->items[i];

		if (item->kind == WEAVE_PYTHON)
			put_python(emitting, python, &result->python.frames[item->index]);
		else if (item->kind == WEAVE_NATIVE)
			put(emitting, native_frame(codemap, result, natives->pc[item->index], now));
		else if (item->kind == WEAVE_CUT_PYTHON)
			put(emitting, note(result->python.loss));
		else if (item->kind == WEAVE_LEFT_OUT)
			put(emitting, note(woven.loss));
		else if (result->native > 1 && natives->loss && greenlet != WEAVE_SWITCHES)
			put(emitting, note(natives->loss));
	}
}

/* The thread's state in words. `state` has the kernel's TASK_ bits (include/linux/sched.h). */
static const char *state_of(const struct dump_thread *thread)
{
	if (thread->on_cpu)
		return "running";
	if (!thread->state)
		return "runnable";
	if (thread->state & 0xc) /* TASK_STOPPED, TASK_TRACED */
		return "stopped";
	return thread->state & 1 ? "sleeping" : "waiting";
}

json_t *dump__emit(struct python_walker *python, struct codemap *codemap, const struct dump_result *result, uint64_t now)
{
	static const char *const hows[] = {"moving", "still", "tick"};
	struct emitting emitting = {.frames = json_array()};
	char comm[17] = "";

	memcpy(comm, result->thread.comm, 16);
	if (result->how && result->natives && codemap) {
		put_woven(&emitting, python, codemap, result, now);
	} else if (result->how) {
		for (uint32_t i = 0; i < result->python.n; i++)
			put_python(&emitting, python, &result->python.frames[i]);
		if (result->python.loss)
			put(&emitting, note(result->python.loss));
	}
	return json_pack("{s:I, s:o, s:s, s:s, s:b, s:o}", "tid", (json_int_t)result->thread.tid, "name", text(comm),
			 "state", state_of(&result->thread), "seen",
			 hows[result->how <= DUMP_TICK ? result->how : 0], "python",
			 result->how && !result->python.no_python, "frames", emitting.frames);
}
