/* SPDX-License-Identifier: MIT */
/* Tracks and their slices. Each thread has one of its compiles, with phases and passes inside; below it what the thread
 * did (classes of time, waits), and for whose compile it worked. An arrow leads from a compile to each worker. */
#include "export/perfetto.h"

#include <errno.h>
#include <stdio.h>

#include "attribution/attribution.h"

/* Of TrackDescriptor, ProcessDescriptor, ThreadDescriptor, TrackEvent, DebugAnnotation. */
enum { TRACK_ID = 1, TRACK_NAME, TRACK_OF_PROCESS, TRACK_OF_THREAD, TRACK_PARENT };
enum { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum { THREAD_PID = 1, THREAD_TID, THREAD_NAME = 5 };
enum { EVENT_CATEGORY = 3, EVENT_ANNOTATION, EVENT_TYPE = 9, EVENT_NAME, EVENT_TRACK, EVENT_FLOW = 47, EVENT_FLOW_END };
enum { ANNOTATION_NAME = 1, ANNOTATION_NUMBER = 3, ANNOTATION_TEXT = 17 };
enum { SLICE_BEGIN = 1, SLICE_END };

uint64_t perfetto__track(const struct perfetto *perfetto, enum perfetto_track kind, uint32_t id)
{
	return perfetto->base + ((uint64_t)id << 3 | kind);
}

/* --- one slice --- */

static void put_annotation(struct perfetto *perfetto, const char *key, uint64_t text)
{
	struct buf *inner = &perfetto->inner;
	uint64_t name = perfetto__string(perfetto, STRING_KEY, key);

	buf__clear(inner);
	perfetto__number(perfetto, inner, ANNOTATION_NAME, name);
	perfetto__number(perfetto, inner, ANNOTATION_TEXT, text);
	perfetto__message(perfetto, &perfetto->message, EVENT_ANNOTATION, inner);
}

static void annotate(struct perfetto *perfetto, const char *key, const char *value)
{
	if (*value)
		put_annotation(perfetto, key, perfetto__string(perfetto, STRING_VALUE, value));
}

/* Begins the message of a slice, to which annotations and flows may be added. `name`: an interned STRING_EVENT. */
static void begin_slice(struct perfetto *perfetto, uint64_t track, const char *category, uint64_t name)
{
	uint64_t category_id = perfetto__string(perfetto, STRING_CATEGORY, category);
	struct buf *message = &perfetto->message;

	buf__clear(message);
	perfetto__number(perfetto, message, EVENT_TYPE, SLICE_BEGIN);
	perfetto__number(perfetto, message, EVENT_TRACK, track);
	perfetto__number(perfetto, message, EVENT_CATEGORY, category_id);
	perfetto__number(perfetto, message, EVENT_NAME, name);
}

static void put_begin(struct perfetto *perfetto, uint64_t time)
{
	perfetto__packet(perfetto, time, PACKET_EVENT, &perfetto->message);
}

static void put_end(struct perfetto *perfetto, uint64_t track, uint64_t time)
{
	struct buf *message = &perfetto->message;

	buf__clear(message);
	perfetto__number(perfetto, message, EVENT_TYPE, SLICE_END);
	perfetto__number(perfetto, message, EVENT_TRACK, track);
	perfetto__packet(perfetto, time, PACKET_EVENT, message);
}

/* --- what a thread does --- */

static struct perfetto_state *state_of(struct perfetto *perfetto, uint32_t thread)
{
	struct perfetto_state *state = buf__at(&perfetto->states, sizeof(*state), thread);

	if (!state)
		perfetto->err = perfetto->err ?: -ENOMEM;
	return state;
}

/* Of a string: pointers into the table are void once one is added. */
static char first_letter(const struct perfetto *perfetto, uint32_t string)
{
	size_t len;

	return *(const char *)intern__key(&perfetto->strings, string, &len);
}

static void put_state(struct perfetto *perfetto, uint32_t thread, struct perfetto_state *state)
{
	uint64_t track = perfetto__track(perfetto, TRACK_STATE, thread);

	if (state->end <= state->begin)
		return;
	begin_slice(perfetto, track, first_letter(perfetto, state->what) == '(' ? "wait" : "class", perfetto__known(perfetto, STRING_EVENT, state->what));
	if (first_letter(perfetto, state->holder))
		put_annotation(perfetto, "GIL", perfetto__known(perfetto, STRING_VALUE, state->holder));
	put_begin(perfetto, state->begin);
	put_end(perfetto, track, state->end);
	state->end = 0;
}

void perfetto__does(struct perfetto *perfetto, uint32_t thread, uint64_t begin, uint64_t end, const char *what, const char *holder)
{
	struct perfetto_state *state = state_of(perfetto, thread);
	uint32_t what_id, holder_id;

	if (!state)
		return;
	perfetto->err = perfetto->err ?: intern__id(&perfetto->strings, what, strlen(what) + 1, &what_id);
	perfetto->err = perfetto->err ?: intern__id(&perfetto->strings, holder, strlen(holder) + 1, &holder_id);
	if (perfetto->err)
		return;
	/* What an image left at its end may come after the first of the next one. */
	if (end <= state->clock)
		return;
	begin = begin < state->clock ? state->clock : begin;
	/* A running thread is off-CPU for microseconds in each period. */
	if (state->end && state->what == what_id && state->holder == holder_id && begin - state->end < perfetto->model.period) {
		state->end = end;
	} else {
		put_state(perfetto, thread, state);
		*state = (struct perfetto_state){begin, end, end, what_id, holder_id, state->work};
	}
	state->clock = end;
}

/* --- work for others --- */

void perfetto__works(struct perfetto *perfetto, uint32_t thread, uint64_t begin, uint64_t end)
{
	const struct model *model = &perfetto->model;
	struct perfetto_state *state = state_of(perfetto, thread);
	struct perfetto_work *last, work = {begin, end, thread, model->call_now, model->caller_now, model->how_now, 0, 0};
	const uint32_t pair[] = {model->call_now, thread};
	uint32_t known = perfetto->flows.n, flow = 0;

	if (!state || !attribution__is_given(model->how_now) || model->call_now == CALL_NONE)
		return;
	last = state->work ? &ITEM(perfetto->works, struct perfetto_work, state->work - 1) : NULL;
	if (last && last->call == work.call && last->how == work.how && begin < last->end + 2 * model->period) {
		last->end = end > last->end ? end : last->end;
		return;
	}
	if (last && work.begin < last->end)
		work.begin = last->end;
	if (work.begin >= work.end) /* a damaged recording's times go back */
		return;
	perfetto->err = perfetto->err ?: intern__id(&perfetto->flows, pair, sizeof(pair), &flow);
	/* The first that this worker does for that call. */
	work.flow = flow < known ? 0 : flow + 1;
	perfetto->err = perfetto->err ?: buf__append(&perfetto->works, &work, sizeof(work));
	state->work = LENGTH(perfetto->works, struct perfetto_work);
}

/* --- after reading --- */

/* Links the flows that begin at each call: `heads` has the first one's work + 1, by call. */
static void link_flows(struct perfetto *perfetto, struct buf *heads)
{
	if (buf__lengthen(heads, unit_tree__calls(&perfetto->model.units) * sizeof(uint32_t)))
		perfetto->err = perfetto->err ?: -ENOMEM;
	for (uint32_t i = LENGTH(perfetto->works, struct perfetto_work); i-- && !perfetto->err;) {
		struct perfetto_work *work = &ITEM(perfetto->works, struct perfetto_work, i);

		if (!work->flow)
			continue;
		work->next = ITEM(*heads, uint32_t, work->call);
		ITEM(*heads, uint32_t, work->call) = i + 1;
	}
}

static void put_flow(struct perfetto *perfetto, uint32_t field, uint32_t flow)
{
	perfetto->err = perfetto->err ?: protobuf__fixed64(&perfetto->message, field, perfetto->base + flow);
}

static const char *name_of(const struct unit_node *node)
{
	return *node->name ? node->name : UNIT_NO_NAME;
}

static void begin_span(struct perfetto *perfetto, uint64_t track, const struct unit_span *span, const struct buf *heads)
{
	static const char *const kinds[UNIT_KINDS] = {[UNIT_COMPILE] = "compile", [UNIT_PHASE] = "phase", [UNIT_PASS] = "pass"};
	struct unit_node node = unit_tree__node(&perfetto->model.units, span->node);
	uint32_t flow = ITEM(*heads, const uint32_t, span->call);
	char line[16];

	begin_slice(perfetto, track, kinds[node.kind < UNIT_KINDS ? node.kind : UNIT_PASS], perfetto__string(perfetto, STRING_EVENT, name_of(&node)));
	annotate(perfetto, "compiler", node.compiler);
	annotate(perfetto, "signature", node.signature);
	if (*node.file) {
		snprintf(line, sizeof(line), "%u", node.line);
		annotate(perfetto, "file", node.file);
		annotate(perfetto, "line", line);
	}
	for (; flow; flow = ITEM(perfetto->works, const struct perfetto_work, flow - 1).next)
		put_flow(perfetto, EVENT_FLOW, ITEM(perfetto->works, const struct perfetto_work, flow - 1).flow);
	put_begin(perfetto, model__from(&perfetto->model) + span->begin);
}

/* Ends the spans from `open` on that are not around a span of this parent, the innermost first. */
static void end_spans(struct perfetto *perfetto, uint64_t track, uint32_t open, uint32_t parent)
{
	while (open != CALL_NONE && open != parent) {
		struct unit_span span = unit_spans__item(&perfetto->spans, open);

		put_end(perfetto, track, model__from(&perfetto->model) + span.end);
		open = span.parent;
	}
}

static void put_spans(struct perfetto *perfetto, uint32_t index, const struct buf *heads, struct buf *begun)
{
	uint64_t track = perfetto__track(perfetto, TRACK_THREAD, perfetto__thread(perfetto, perfetto->threads[index]));
	struct unit_span span;
	uint32_t open = CALL_NONE;

	for (bool more = unit_spans__first(&perfetto->spans, index, &span); more && !perfetto->err; more = unit_spans__next(&perfetto->spans, &span)) {
		end_spans(perfetto, track, open, span.parent);
		begin_span(perfetto, track, &span, heads);
		perfetto__first(perfetto, begun, span.call);
		open = span.call;
	}
	end_spans(perfetto, track, open, CALL_NONE);
}

/* A caller's compile may be left out, as its thread is: then no flow ends here. */
static void put_work(struct perfetto *perfetto, const struct perfetto_work *work, const struct buf *begun)
{
	const struct model *model = &perfetto->model;
	uint64_t track = perfetto__track(perfetto, TRACK_WORK, work->thread);
	struct unit_node node = unit_tree__node(&model->units, unit_tree__final(&model->units, unit_tree__call(&model->units, work->call)->node));

	begin_slice(perfetto, track, "work", perfetto__string(perfetto, STRING_EVENT, name_of(&node)));
	annotate(perfetto, "for", model__thread(model, work->caller)->name);
	annotate(perfetto, "known by", attribution__name((enum attribution_how)work->how));
	if (work->flow && work->call < LENGTH(*begun, bool) && ITEM(*begun, const bool, work->call))
		put_flow(perfetto, EVENT_FLOW_END, work->flow);
	put_begin(perfetto, work->begin);
	put_end(perfetto, track, work->end);
}

/* --- descriptions --- */

void perfetto__describe(struct perfetto *perfetto, struct buf *out, uint64_t id, uint64_t parent, const char *name)
{
	buf__clear(out);
	perfetto__number(perfetto, out, TRACK_ID, id);
	perfetto__number(perfetto, out, TRACK_PARENT, parent);
	if (*name)
		perfetto__text(perfetto, out, TRACK_NAME, name);
}

static void describe_process(struct perfetto *perfetto, uint32_t id)
{
	const struct model_process *process = model__process(&perfetto->model, id);
	struct buf *message = &perfetto->message, *inner = &perfetto->inner;

	perfetto__describe(perfetto, message, perfetto__track(perfetto, TRACK_PROCESS, perfetto__process(perfetto, id)), 0, "");
	buf__clear(inner);
	perfetto__number(perfetto, inner, PROCESS_PID, (uint32_t)process->pid);
	perfetto__text(perfetto, inner, PROCESS_NAME, process->name);
	perfetto__message(perfetto, message, TRACK_OF_PROCESS, inner);
	perfetto__packet(perfetto, NO_TIME, PACKET_TRACK, message);
}

static void describe_below(struct perfetto *perfetto, enum perfetto_track kind, uint32_t thread, const char *name)
{
	perfetto__describe(perfetto, &perfetto->message, perfetto__track(perfetto, kind, thread), perfetto__track(perfetto, TRACK_THREAD, thread), name);
	perfetto__packet(perfetto, NO_TIME, PACKET_TRACK, &perfetto->message);
}

static void describe_thread(struct perfetto *perfetto, const struct model_thread *thread, uint32_t id)
{
	struct perfetto_state *state = state_of(perfetto, id);
	struct buf *message = &perfetto->message, *inner = &perfetto->inner;

	perfetto__describe(perfetto, message, perfetto__track(perfetto, TRACK_THREAD, id),
			   perfetto__track(perfetto, TRACK_PROCESS, perfetto__process(perfetto, thread->process)), "");
	buf__clear(inner);
	perfetto__number(perfetto, inner, THREAD_PID, (uint32_t)model__process(&perfetto->model, thread->process)->pid);
	perfetto__number(perfetto, inner, THREAD_TID, (uint32_t)thread->tid);
	perfetto__text(perfetto, inner, THREAD_NAME, thread->name);
	perfetto__message(perfetto, message, TRACK_OF_THREAD, inner);
	perfetto__packet(perfetto, NO_TIME, PACKET_TRACK, message);
	describe_below(perfetto, TRACK_STATE, id, "class of time");
	if (state && state->work)
		describe_below(perfetto, TRACK_WORK, id, "works for");
	if (state)
		put_state(perfetto, id, state);
}

/* Each track once, under the name of the last image that had it. */
static void describe_all(struct perfetto *perfetto)
{
	struct buf processes = {}, threads = {}; /* bool by track */
	uint32_t i, id;

	for (i = model__threads(&perfetto->model); i-- && !perfetto->err;) {
		const struct model_thread *thread = model__thread(&perfetto->model, i);

		if (!thread->listed)
			continue;
		if (perfetto__first(perfetto, &processes, perfetto__process(perfetto, thread->process)))
			describe_process(perfetto, thread->process);
		id = perfetto__thread(perfetto, thread);
		if (perfetto__first(perfetto, &threads, id))
			describe_thread(perfetto, thread, id);
	}
	buf__free(&processes);
	buf__free(&threads);
}

void perfetto__tracks(struct perfetto *perfetto)
{
	_cleanup_(buf__free) struct buf heads = {}, begun = {};

	link_flows(perfetto, &heads);
	describe_all(perfetto);
	for (uint32_t i = 0; i < perfetto->n && !perfetto->err; i++)
		put_spans(perfetto, i, &heads, &begun);
	for (uint32_t i = 0; i < LENGTH(perfetto->works, struct perfetto_work) && !perfetto->err; i++)
		put_work(perfetto, &ITEM(perfetto->works, const struct perfetto_work, i), &begun);
}
