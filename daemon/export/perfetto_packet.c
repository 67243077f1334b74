/* SPDX-License-Identifier: MIT */
/* Packets of a trace. All are of one sequence, which is what interned ids belong to:
 *
 *     timestamp 81000001001000, sequence 1, interned {function_names {7 "svd"} frames {...} callstacks {...}}, stack_sample {...} */
#include <errno.h>

#include "export/perfetto.h"

enum { PACKET_TIME = 8, PACKET_SEQUENCE = 10, PACKET_INTERNED = 12, PACKET_FLAGS = 13 };
enum { FLAG_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
#define TRACE_PACKET 1u

void perfetto__number(struct perfetto *perfetto, struct buf *out, uint32_t field, uint64_t value)
{
	perfetto->err = perfetto->err ?: protobuf__number(out, field, value);
}

void perfetto__bytes(struct perfetto *perfetto, struct buf *out, uint32_t field, const void *data, size_t len)
{
	perfetto->err = perfetto->err ?: protobuf__bytes(out, field, data, len);
}

void perfetto__text(struct perfetto *perfetto, struct buf *out, uint32_t field, const char *string)
{
	perfetto__bytes(perfetto, out, field, string, strlen(string));
}

void perfetto__message(struct perfetto *perfetto, struct buf *out, uint32_t field, const struct buf *message)
{
	perfetto__bytes(perfetto, out, field, message->data, message->len);
}

void perfetto__packet(struct perfetto *perfetto, uint64_t time, uint32_t field, const struct buf *message)
{
	struct buf *packet = &perfetto->packet;
	char head[16];
	struct buf tag = {.data = head, .capacity = sizeof(head)};

	buf__clear(packet);
	if (time != NO_TIME)
		perfetto__number(perfetto, packet, PACKET_TIME, perfetto->model.origin + time);
	perfetto__number(perfetto, packet, PACKET_SEQUENCE, 1);
	perfetto__number(perfetto, packet, PACKET_FLAGS, perfetto->begun ? FLAG_NEEDS_STATE : FLAG_CLEARED);
	perfetto->begun = true;
	if (perfetto->interned.len)
		perfetto__message(perfetto, packet, PACKET_INTERNED, &perfetto->interned);
	buf__clear(&perfetto->interned);
	perfetto__message(perfetto, packet, field, message);
	perfetto->err = perfetto->err ?: protobuf__varint(&tag, TRACE_PACKET << 3 | PROTOBUF_LENGTH) ?: protobuf__varint(&tag, packet->len);
	perfetto->err = perfetto->err ?: gzip__write(&perfetto->file, head, tag.len);
	perfetto->err = perfetto->err ?: gzip__write(&perfetto->file, packet->data, packet->len);
}

bool perfetto__first(struct perfetto *perfetto, struct buf *known, uint32_t id)
{
	bool first;
	int err = buf__mark(known, id, &first);

	perfetto->err = perfetto->err ?: err;
	return first;
}

uint64_t perfetto__known(struct perfetto *perfetto, uint32_t field, uint32_t string)
{
	enum { STRING_ID = 1, STRING_TEXT };
	struct buf *message = &perfetto->path;
	uint64_t *known = buf__at(&perfetto->strings_known, sizeof(*known), string);
	size_t len;

	if (!known)
		perfetto->err = perfetto->err ?: -ENOMEM;
	if (perfetto->err || *known & 1ull << field)
		return string + 1;
	*known |= 1ull << field;
	buf__clear(message);
	perfetto__number(perfetto, message, STRING_ID, string + 1);
	perfetto__text(perfetto, message, STRING_TEXT, intern__key(&perfetto->strings, string, &len));
	perfetto__message(perfetto, &perfetto->interned, field, message);
	return string + 1;
}

uint64_t perfetto__string(struct perfetto *perfetto, uint32_t field, const char *string)
{
	uint32_t id = 0;

	perfetto->err = perfetto->err ?: intern__id(&perfetto->strings, string, strlen(string) + 1, &id);
	return perfetto->err ? 1 : perfetto__known(perfetto, field, id);
}

uint32_t perfetto__process(struct perfetto *perfetto, uint32_t process)
{
	int32_t pid = model__process(&perfetto->model, process)->pid;
	uint32_t id = 0;

	perfetto->err = perfetto->err ?: intern__id(&perfetto->pids, &pid, sizeof(pid), &id);
	return id;
}

uint32_t perfetto__thread(struct perfetto *perfetto, const struct model_thread *thread)
{
	const int32_t key[] = {model__process(&perfetto->model, thread->process)->pid, thread->tid};
	uint32_t id = 0;

	perfetto->err = perfetto->err ?: intern__id(&perfetto->tids, key, sizeof(key), &id);
	return id;
}
