/* SPDX-License-Identifier: MIT */
/* The sink of events that notices conditions. Compiles that go on from one epoch to the next are those of unit_tree.
 *
 * A compile is timed by its samples alone, from its begin to the latest one: when a thread waits outside of it, nothing
 * says that it is over before the thread's next sample. */
#include "trigger/trigger.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/filter.h"

#define QUEUE_MAX 32u
#define CONDITION_BITS ((1u << CONDITIONS_MAX) - 1)
#define FOLLOWED (1u << CONDITIONS_MAX) /* of unit_call.number */
#define SECOND 1000000000u
/* A row may be of up to so many seconds ago: of a thread that was not sampled for a while. */
#define SPREAD 64u
/* Names and threads of a session without end: at the next epoch they begin anew, if no compile goes on; soon, if one does. */
#define KNOWN_MANY 20000u
#define KNOWN_MAX 100000u
/* A thread that was in a compile when an epoch ended, and has no sample for so long, was in it no more. */
#define GAP_NS SECOND

/* A thread of the session. */
struct watched {
	int32_t tid;
	uint64_t last; /* of its samples in compiles */
};

/* A thread of the epoch. */
struct local {
	uint32_t id;
	uint64_t begin;
};

/* CPU time by seconds, for one condition. A ring: [second % n]. */
struct load {
	uint64_t *sums;
	uint32_t n;
	uint64_t newest; /* second */
	bool held;       /* it has fired, and no second below the limit has come */
};

struct watch {
	struct event_sink sink;
	const struct condition *conditions;
	uint32_t n;
	bool of_units, of_cpu;
	uint64_t least;     /* of the limits of compiles */
	struct load loads[CONDITIONS_MAX];
	struct unit_tree tree;
	struct intern keys; /* of threads: tid, start, exec */
	struct buf threads; /* struct watched */
	struct buf locals;  /* struct local */
	struct buf execs;   /* uint32_t by process of the epoch */
	uint64_t now;
	uint32_t followed;  /* a call, or CALL_NONE */
	bool follows;       /* until watch__release() */
	struct fired queue[QUEUE_MAX];
	uint32_t first, queued;
};

static struct fired *enqueue(struct watch *watch)
{
	/* Hundreds of threads that compile: who asks only later sees the first of them. */
	if (watch->queued == QUEUE_MAX)
		return NULL;
	return &watch->queue[(watch->first + watch->queued++) % QUEUE_MAX];
}

/* --- compiles --- */

static void put_name(const struct watch *watch, const struct unit_call *call, char *ret, size_t size)
{
	struct unit_node node = unit_tree__node(&watch->tree, call->node);
	const struct unit_call *outer = call;
	size_t at;

	at = (size_t)snprintf(ret, size, "%.120s", *node.name ? node.name : UNIT_NO_NAME);
	if (node.kind != UNIT_COMPILE) {
		while (outer->parent != CALL_NONE && unit_tree__node(&watch->tree, outer->node).kind != UNIT_COMPILE)
			outer = unit_tree__call(&watch->tree, outer->parent);
		node = unit_tree__node(&watch->tree, outer->node);
		if (outer != call)
			at += (size_t)snprintf(ret + at, size - at, " of %.120s", *node.name ? node.name : UNIT_NO_NAME);
	}
	if (*node.signature && node.kind == UNIT_COMPILE)
		snprintf(ret + at, size - at, "(%.200s)", node.signature);
}

/* The conditions that this call meets now, and has not met before. */
static void judge(struct watch *watch, uint32_t id, uint64_t time)
{
	struct unit_call *call = unit_tree__call(&watch->tree, id);
	const uint64_t lasts = time - call->begin;
	const struct unit_node node = unit_tree__node(&watch->tree, call->node);

	for (uint32_t i = 0; i < watch->n; i++) {
		const struct condition *condition = &watch->conditions[i];
		struct fired *fired;

		if (condition->kind != node.kind || lasts <= condition->limit || call->number & 1u << i)
			continue;
		/* Its name may still come. */
		if (*condition->name && !*node.name)
			continue;
		call->number |= 1u << i;
		if (*condition->name && !pattern__function(condition->name, node.name))
			continue;
		fired = enqueue(watch);
		if (!fired)
			continue;
		*fired = (struct fired){.condition = i, .time = time, .value = lasts, .tid = ITEM(watch->threads, struct watched, call->thread).tid};
		put_name(watch, call, fired->name, sizeof(fired->name));
		if (watch->follows)
			continue;
		watch->follows = true;
		watch->followed = id;
		call->number |= FOLLOWED;
	}
}

static void on_unit_sample(struct watch *watch, const struct sample_row *row, uint32_t thread)
{
	uint32_t id = unit_tree__sample(&watch->tree, row->unit, thread, row->time);

	if (row->unit)
		ITEM(watch->threads, struct watched, thread).last = row->time;
	for (; id != CALL_NONE; id = unit_tree__call(&watch->tree, id)->parent) {
		const struct unit_call *call = unit_tree__call(&watch->tree, id);

		if (row->time > call->begin && row->time - call->begin > watch->least)
			judge(watch, id, row->time);
	}
}

static int on_units(struct watch *watch, const struct event_rows *rows)
{
	int err = 0;

	for (uint32_t i = 0; i < rows->n && !err; i++) {
		const struct unit_row *row = (const struct unit_row *)rows->rows + i;
		const struct local *local = &ITEM(watch->locals, const struct local, row->thread);
		const uint64_t last = ITEM(watch->threads, const struct watched, local->id).last;

		/* The same compile a minute later looks alike. One that goes on has a row, or a sleep from the begin of the epoch. */
		if (unit_tree__is_expected(&watch->tree, local->id) && row->time != local->begin && row->time > last + GAP_NS)
			unit_tree__forget(&watch->tree, local->id);
		err = unit_tree__row(&watch->tree, row, local->id, 0, row->time);
	}
	return err;
}

static void end_units(struct watch *watch, const struct event_unit_ends *ends)
{
	for (uint32_t i = 0; i < ends->n; i++) {
		const struct event_unit_end end = {.id = ends->rows[i].id, .time = ends->rows[i].time, .name = "", .signature = "", .file = ""};

		unit_tree__end(&watch->tree, &end, end.time);
	}
}

/* --- CPU time --- */

/* Seconds up to this one are complete, but for what comes late. */
static void advance(struct load *load, uint64_t limit, uint64_t second)
{
	if (second > load->newest && second - load->newest >= load->n) {
		memset(load->sums, 0, load->n * sizeof(*load->sums));
		load->held = false;
		load->newest = second;
	}
	while (load->newest < second) {
		load->held &= load->sums[load->newest % load->n] > limit;
		load->sums[++load->newest % load->n] = 0;
	}
}

static void add_second(struct watch *watch, uint32_t i, uint64_t second, uint64_t ns)
{
	const struct condition *condition = &watch->conditions[i];
	struct load *load = &watch->loads[i];
	uint64_t sum = 0;
	struct fired *fired;

	advance(load, condition->limit, second);
	if (second + SPREAD <= load->newest)
		return;
	load->sums[second % load->n] += ns;
	if (load->held)
		return;
	/* Only those that are over: of the one that goes on, a part above the limit says nothing of the rest. */
	for (uint32_t run = 1; run <= condition->seconds; run++) {
		const uint64_t one = load->newest >= run ? load->sums[(load->newest - run) % load->n] : 0;

		if (one <= condition->limit)
			return;
		sum += one;
	}
	load->held = true;
	fired = enqueue(watch);
	if (fired)
		*fired = (struct fired){.condition = i, .time = watch->now, .value = sum};
}

/* CPU time of the `wall` ns before `time`, spread over its seconds. */
static void add_cpu(struct watch *watch, uint64_t time, uint64_t wall, uint64_t cpu)
{
	uint64_t longest = SPREAD / 2 * (uint64_t)SECOND, from, at, to, given = 0, share;

	wall = wall > longest ? longest : wall;
	from = time > wall ? time - wall : 0;
	for (at = from; cpu && watch->of_cpu; at = to) {
		to = (at / SECOND + 1) * SECOND;
		if (to >= time || !wall)
			share = cpu - given;
		else
			share = (uint64_t)((double)cpu * (double)(to - at) / (double)wall);
		for (uint32_t i = 0; i < watch->n; i++)
			if (watch->conditions[i].kind == CONDITION_CPU)
				add_second(watch, i, at / SECOND, share);
		given += share;
		if (to >= time || !wall)
			return;
	}
}

/* --- events --- */

static int on_samples(struct watch *watch, const struct event_samples *samples)
{
	for (uint32_t i = 0; i < samples->n; i++) {
		const struct sample_row *row = &samples->rows[i];

		watch->now = row->time > watch->now ? row->time : watch->now;
		if (watch->of_units)
			on_unit_sample(watch, row, ITEM(watch->locals, const struct local, row->thread).id);
		add_cpu(watch, row->time, row->wall, row->cpu);
	}
	return 0;
}

static int on_thread(struct watch *watch, const struct event_thread *event)
{
	const uint64_t key[] = {(uint32_t)event->tid, event->start, ITEM(watch->execs, const uint32_t, event->process)};
	struct local *local;
	uint32_t id;
	struct watched *watched;
	int err = intern__id(&watch->keys, key, sizeof(key), &id);

	if (err)
		return err;
	watched = buf__at(&watch->threads, sizeof(*watched), id);
	local = buf__at(&watch->locals, sizeof(*local), event->id);
	if (!watched || !local)
		return -ENOMEM;
	watched->tid = event->tid;
	*local = (struct local){id, event->time};
	return 0;
}

static int on_process(struct watch *watch, const struct event_process *event)
{
	uint32_t *exec = buf__at(&watch->execs, sizeof(*exec), event->id);

	if (!exec)
		return -ENOMEM;
	*exec = event->exec;
	return 0;
}

static void forget_all(struct watch *watch)
{
	unit_tree__free(&watch->tree);
	intern__free(&watch->keys);
	buf__free(&watch->threads);
	watch->tree = (struct unit_tree){.renames = true};
	watch->keys = (struct intern){};
	watch->followed = CALL_NONE;
}

static int on_epoch(struct watch *watch)
{
	uint32_t known = watch->tree.nodes.n > watch->keys.n ? watch->tree.nodes.n : watch->keys.n, i;
	int err = unit_tree__epoch(&watch->tree);

	buf__clear(&watch->locals);
	buf__clear(&watch->execs);
	/* Calls that went on are numbered anew. */
	watch->followed = CALL_NONE;
	for (i = 0; i < unit_tree__calls(&watch->tree); i++)
		if (unit_tree__call(&watch->tree, i)->number & FOLLOWED)
			watch->followed = i;
	if (known > KNOWN_MAX || (known > KNOWN_MANY && !unit_tree__calls(&watch->tree)))
		forget_all(watch);
	return err;
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct watch *watch = (struct watch *)self;

	switch (event->kind) {
	case EVENT_SESSION:
	case EVENT_EPOCH:
		return on_epoch(watch);
	case EVENT_PROCESS:
		return on_process(watch, &event->process);
	case EVENT_THREAD:
		return on_thread(watch, &event->thread);
	case EVENT_UNITS:
		return watch->of_units ? on_units(watch, &event->rows) : 0;
	case EVENT_UNIT_NAME:
		return watch->of_units ? unit_tree__name(&watch->tree, &event->unit_end) : 0;
	case EVENT_UNIT_END:
		return watch->of_units ? unit_tree__end(&watch->tree, &event->unit_end, event->unit_end.time) : 0;
	case EVENT_UNIT_ENDS:
		if (watch->of_units)
			end_units(watch, &event->unit_ends);
		return 0;
	case EVENT_SAMPLES:
		return on_samples(watch, &event->samples);
	case EVENT_THREAD_END:
		add_cpu(watch, event->ending.time, event->ending.wall, event->ending.cpu);
		return 0;
	case EVENT_LEDGER:
		watch->now = event->ledger.time > watch->now ? event->ledger.time : watch->now;
		return 0;
	default:
		return 0;
	}
}

bool watch__next(struct watch *watch, struct fired *ret)
{
	if (!watch->queued)
		return false;
	*ret = watch->queue[watch->first];
	watch->first = (watch->first + 1) % QUEUE_MAX;
	watch->queued--;
	return true;
}

bool watch__goes_on(const struct watch *watch)
{
	const struct unit_call *call;

	if (watch->followed == CALL_NONE)
		return false;
	call = unit_tree__call(&watch->tree, watch->followed);
	return !call->ended && watch->now < ITEM(watch->threads, const struct watched, call->thread).last + WATCH_IDLE_NS;
}

void watch__release(struct watch *watch)
{
	if (watch->followed != CALL_NONE)
		unit_tree__call(&watch->tree, watch->followed)->number &= CONDITION_BITS;
	watch->followed = CALL_NONE;
	watch->follows = false;
}

uint64_t watch__now(const struct watch *watch)
{
	return watch->now;
}

struct event_sink *watch__sink(struct watch *watch)
{
	return &watch->sink;
}

int watch__new(const struct condition *conditions, uint32_t n, struct watch **ret)
{
	struct watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return -ENOMEM;
	watch->sink.event = on_event;
	watch->conditions = conditions;
	watch->n = n;
	watch->least = UINT64_MAX;
	watch->followed = CALL_NONE;
	watch->tree.renames = true;
	for (uint32_t i = 0; i < n; i++) {
		struct load *load = &watch->loads[i];

		if (conditions[i].kind != CONDITION_CPU) {
			watch->of_units = true;
			watch->least = conditions[i].limit < watch->least ? conditions[i].limit : watch->least;
			continue;
		}
		watch->of_cpu = true;
		load->n = conditions[i].seconds + SPREAD;
		load->sums = calloc(load->n, sizeof(*load->sums));
		if (!load->sums) {
			watch__free(watch);
			return -ENOMEM;
		}
	}
	*ret = watch;
	return 0;
}

struct watch *watch__free(struct watch *watch)
{
	if (!watch)
		return NULL;
	for (uint32_t i = 0; i < watch->n; i++)
		free(watch->loads[i].sums);
	forget_all(watch);
	buf__free(&watch->locals);
	buf__free(&watch->execs);
	free(watch);
	return NULL;
}
