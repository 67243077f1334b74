/* SPDX-License-Identifier: MIT */
/* Bytes of a ring -> collector -> codes -> weave -> profile -> encoder. The first byte of
 * each chunk says what to do; records get a plausible header so that the fuzzer
 * reaches the parts behind it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/fake_codemap.h"
#include "base/buf.h"
#include "collect/collect.h"
#include "profile/profile.h"

struct way {
	struct collect_sink collect;
	struct event_sink events;
	struct profile *profile;
	struct buf line;
};

static struct way *way_of(struct collect_sink *self)
{
	return (struct way *)self;
}

#define HAND_ON(name, type)                                                                        \
	static int take_##name(struct collect_sink *self, const struct type *record)               \
	{                                                                                          \
		return profile__##name(way_of(self)->profile, record);                             \
	}
HAND_ON(code, record_code)
HAND_ON(sample, sample)

static int take_other(struct collect_sink *self, const struct record_header *record)
{
	return profile__record(way_of(self)->profile, record);
}

/* What lies at an address follows from its bits, so that the fuzzer meets every kind. */
static int find_location(struct codemap *self, const struct record_task *task, uint64_t address,
		      uint64_t time, struct code_location *ret)
{
	if (!(address & 7))
		return -ENOENT;
	*ret = (struct code_location){.module = address >> 8 & 3,
			      .function = address >> 4 & 15,
			      .module_name = address & 1 ? "m" : "",
			      .name = "f",
			      .vaddr = address,
			      .start = address & ~15ull,
			      .kind = address >> 10 & 7,
			      .role = address % FRAME_ROLES};
	/* Addresses whose name is known later, or never. */
	ret->pending = (address & 0x300) == 0x300 && (address & 0x40 || time & 1 << 16);
	if (ret->pending)
		ret->function = address;
	return address >> 63 && address & 8 ? -EACCES : 0;
}

static int place_name(struct codemap *self, uint64_t module, uint64_t vaddr, struct code_location *ret)
{
	const struct record_task anybody = {};

	if (find_location(self, &anybody, vaddr, 0, ret))
		*ret = (struct code_location){.module = module, .function = vaddr, .module_name = "", .name = ""};
	return ret->pending ? -EAGAIN : 0;
}

static uint64_t place_changes(struct codemap *self, const struct record_task *task, uint64_t time)
{
	return time >> 20;
}

static int place_eval(struct codemap *self, const struct record_task *task, uint64_t time)
{
	return task->tgid == 2 ? 0 : task->tgid == 3 ? -EAGAIN : 1;
}

static int place_line(struct codemap *self, uint64_t module, uint64_t vaddr, const char **ret_file,
		      uint32_t *ret_line, uint32_t *ret_column)
{
	*ret_file = vaddr & 64 ? "f.c" : NULL;
	*ret_line = (uint32_t)vaddr;
	*ret_column = 0;
	return module == 3 ? -EAGAIN : module == 2 ? -ENOENT : 0;
}

/* Reads all that the check has let through. */
static int walk(struct codemap *self, const struct sample *sample, bool last, struct part_native_frames *ret)
{
	const struct part_stack *stack = sample->stack;
	uint64_t sum = stack->sp + stack->regs[16];
	uint32_t i;

	for (i = 0; i < stack->size; i++)
		sum += stack->bytes[i];
	if (sum % 3 == 0)
		return last ? -ENOENT : -EAGAIN;
	ret->n = 1 + sum % 4;
	for (i = 0; i < ret->n; i++)
		ret->pc[i] = sum * (i + 1);
	ret->flags = sum & NATIVE_WHOLE;
	ret->part.loss = ret->flags ? 0 : LOSS_NATIVE_MAPPING;
	return 0;
}

static int on_event(struct event_sink *self, const struct event *event)
{
	struct way *way = (struct way *)((char *)self - offsetof(struct way, events));

	buf__clear(&way->line);
	event__encode(event, &way->line); /* -ERANGE for a time beyond INT64_MAX */
	return 0;
}

/* A record of `len` bytes at 8-byte alignment; small identities, so that they meet. */
static void feed(struct collector *collector, const uint8_t *data, size_t len, uint8_t mode)
{
	size_t size = len < sizeof(struct record_header) ? sizeof(struct record_header) : len;
	struct record_header *header;
	char *copy;

	size = mode & 64 ? len : (size + 7) & ~(size_t)7;
	copy = malloc(size ? size : 1);
	memset(copy, 0, size);
	memcpy(copy, data, len);
	if (!(mode & 64)) {
		header = (void *)copy;
		header->size = (uint32_t)size;
		header->kind = 1 + mode % 7;
		header->time &= 0xffffffff;
		header->task.tgid = 1 + header->task.tgid % 4;
		header->task.tid = 1 + header->task.tid % 8;
		header->task.exec %= 3;
		header->task.process_start &= 1u << 25;
		header->task.thread_start &= 1u << 25;
	}
	if (collector__record(collector, copy, size))
		abort();
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const struct event_session session = {
		.rate = 999, .monotonic = 1000, .boottime = 2000, .mode = "cpu"};
	struct codemap codemap = {.find = find_location, .name = place_name, .changes = place_changes, .eval_known = place_eval, .line = place_line, .walk = walk};
	const struct profile_options options = {.rate = 999,
						.stacks_max = 50,
						.ended_max = 4,
						.pending_max = 16,
						.codemap = &codemap};
	struct profile_process process = {.tgid = 1, .lines = 1, .name = "x", .python = "3.8"};
	struct profile_thread thread = {.tgid = 1, .tid = 1, .cpu_known = true};
	struct way way = {
		.collect = {.code = take_code, .sample = take_sample, .other = take_other}};
	struct collector *collector = NULL;
	uint64_t now = 0;

	way.events.event = on_event;
	if (collector__new(&way.collect, &collector) ||
	    profile__new(&options, &way.events, &way.profile) ||
	    profile__begin(way.profile, &session))
		abort();
	while (len >= 2) {
		uint8_t mode = data[0];
		size_t chunk = (size_t)data[1] * 4;

		data += 2;
		len -= 2;
		if (mode >= 128) {
			now += (uint64_t)chunk << (mode & 31);
			process.lines = 1 + mode % 3;
			process.tgid = thread.tgid = 1 + mode % 4;
			thread.tid = 1 + mode % 8;
			if (mode & 32)
				profile__process(way.profile, &process);
			if (mode & 64)
				profile__thread_listed(way.profile, &thread);
			if (mode == 255)
				profile__process_gone(way.profile, 1, 0, now);
			if (mode == 254)
				profile__replay(way.profile, &way.events);
			if (mode == 253 && profile__rotate(way.profile, now))
				abort();
			if (collector__flush(collector, now) || profile__tick(way.profile, now))
				abort();
			continue;
		}
		if (chunk > len)
			chunk = len;
		feed(collector, data, chunk, mode);
		data += chunk;
		len -= chunk;
	}
	if (collector__flush(collector, UINT64_MAX) || profile__replay(way.profile, &way.events) ||
	    profile__end(way.profile, now, "stopped", NULL))
		abort();
	profile__free(way.profile);
	collector__free(collector);
	buf__free(&way.line);
	return 0;
}
