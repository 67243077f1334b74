/* SPDX-License-Identifier: MIT */
/* Parser of jit-PID.dump while it grows (Linux, tools/perf/Documentation/jitdump-specification.txt). It is fed with
 * bytes split anywhere, so it collects the head of a record until step() can take it; machine code is skipped.
 *
 *    file     magic "JiTD", version 1, size 40, machine, pid, timestamp, flags
 *    record   id(4) size(4) timestamp(8)  body
 *    LOAD     pid tid vma code_addr code_size index, "py::fib:/home/me/fib.py" NUL, machine code
 *    UNWINDING_INFO  sizes, .eh_frame, .eh_frame_hdr     before the LOAD that it is for
 *
 * `size` of each record leads to the next one, so that unknown and damaged ones are skipped. A hostile size makes
 * the reader skip up to 4 GB, which it does not read. At most JIT_NAME_MAX or UNWIND_MAX bytes of a record are held. */
#include <errno.h>

#include "base/cleanup.h"
#include "jit/internal.h"

#define MAGIC 0x4a695444u
#define MAGIC_SWAPPED 0x4454694au
#define FLAG_ARCH_TIMESTAMP 1u
#define UNWIND_MAX (1u << 20) /* bytes of one function's unwind information */

enum { LOAD, MOVE, DEBUG_INFO, CLOSE, UNWINDING_INFO };

struct file_head {
	uint32_t magic, version, total_size, elf_mach, pad, pid;
	uint64_t timestamp, flags;
};

struct prefix {
	uint32_t id, total_size;
	uint64_t timestamp;
};

struct load {
	struct prefix prefix;
	uint32_t pid, tid;
	uint64_t vma, code_addr, code_size, code_index;
	/* name, NUL, code */
};

struct move {
	struct prefix prefix;
	uint32_t pid, tid;
	uint64_t vma, old_code_addr, new_code_addr, code_size, code_index;
};

struct debug_info {
	struct prefix prefix;
	uint64_t code_addr, n_entry;
};

struct unwinding {
	struct prefix prefix;
	uint64_t size, hdr_size, mapped_size;
	/* .eh_frame, .eh_frame_hdr */
};
_Static_assert(sizeof(struct file_head) == 40 && sizeof(struct prefix) == 16 &&
		       sizeof(struct load) == 56 && sizeof(struct move) == 64 &&
		       sizeof(struct debug_info) == 32 && sizeof(struct unwinding) == 40,
	       "the format has no padding");

static uint64_t align8(uint64_t value)
{
	return (value + 7) & ~7ull;
}

/* How many bytes of a record are parsed; the rest (code, line entries) is skipped. */
static uint32_t needed(const struct prefix *prefix)
{
	uint32_t want = prefix->id == LOAD	     ? sizeof(struct load) + JIT_NAME_MAX + 1
			: prefix->id == MOVE	     ? sizeof(struct move)
			: prefix->id == DEBUG_INFO   ? sizeof(struct debug_info)
			: prefix->id == UNWINDING_INFO ? sizeof(struct unwinding) + UNWIND_MAX
						       : sizeof(struct prefix);

	return want < prefix->total_size ? want : prefix->total_size;
}

/* A record that does not fit is counted and skipped: its size says where the next one begins. */
static int bad(struct jit *jit)
{
	free(jit->dump.unwind.eh_frame); /* it would belong to this load */
	jit->dump.unwind = (struct jit_unwind){};
	jit->counts.bad_records++;
	return 0;
}

/* The record's time, but not later than now: a timestamp in the future would hide the function. */
static uint64_t time_of(const struct jit *jit, const struct prefix *prefix)
{
	uint64_t now = jit->clock();

	return jit->dump.own_clock || prefix->timestamp > now ? now : prefix->timestamp;
}

/* Adds one function as an object of its own, because it can move and end alone. */
static int add(struct jit *jit, const char *name, size_t name_len, uint64_t start, uint64_t size,
	       uint64_t time, uint64_t code_index)
{
	struct jitdump *dump = &jit->dump;
	struct jit_image image = {.n_ranges = 1, .n_symbols = 1, .names_len = name_len + 1};
	struct making making = {
		.source = JIT_SOURCE_JITDUMP,
		.life = {.born_after = dump->own_clock ? dump->ended : time, .born_by = time},
		.image = &image,
		.code_index = code_index,
	};
	uint32_t id;
	int err;

	image.ranges = malloc(sizeof(*image.ranges));
	image.symbols = malloc(sizeof(*image.symbols));
	image.names = malloc(image.names_len);
	if (!image.ranges || !image.symbols || !image.names) {
		jit_image__free(&image);
		return -ENOMEM;
	}
	*image.ranges = (struct range){start, start + size};
	*image.symbols = (struct jit_image_symbol){.start = start, .size = (uint32_t)size};
	memcpy(image.names, name, name_len);
	image.names[name_len] = 0;
	image.has_lines = dump->lines_of && dump->lines_of == start;
	image.unwind = dump->unwind;
	/* .eh_frame is relative to its own address. perf, for which it was written, puts it behind the code. */
	image.unwind.address = start + align8(size);
	dump->unwind = (struct jit_unwind){};
	dump->lines_of = 0;
	err = registry__add(jit, &making, &id);
	jit_image__free(&image);
	return err == -ENOSPC ? 0 : err;
}

static bool is_range(uint64_t start, uint64_t size)
{
	return size && size <= UINT32_MAX && start + size > start;
}

static int take_load(struct jit *jit, const char *bytes, size_t len)
{
	struct load load;
	size_t name_len;

	if (len < sizeof(load) + 1)
		return bad(jit);
	memcpy(&load, bytes, sizeof(load));
	bytes += sizeof(load);
	len -= sizeof(load);
	if (!is_range(load.code_addr, load.code_size) ||
	    load.code_size > load.prefix.total_size - sizeof(load))
		return bad(jit);
	/* `bytes` may contain code after the name. */
	name_len = strnlen(bytes, len < JIT_NAME_MAX ? len : JIT_NAME_MAX);
	return add(jit, bytes, name_len, load.code_addr, load.code_size,
		   time_of(jit, &load.prefix), load.code_index);
}

/* Search for the object that a MOVE record is about: alive, at the old address, with the same index. */
struct moving {
	struct jit *jit;
	const struct move *move;
	const struct object *object;
};

static bool is_moving(void *ctx, const struct span *span)
{
	struct moving *moving = ctx;
	const struct object *object = registry__get(moving->jit, span->object);

	if (object && span->start == moving->move->old_code_addr && span->name != SPAN_NO_NAME &&
	    object->code_index == moving->move->code_index && !object->seen.life.died_by)
		moving->object = object;
	return !moving->object;
}

/* Code moved: the object ends, and a new one with its name begins at the new address. The old range counts as
 * replaced. */
static int take_move(struct jit *jit, const char *bytes, size_t len)
{
	_cleanup_free_ char *name = NULL;
	struct moving moving = {.jit = jit};
	struct move move;
	uint64_t time;

	if (len < sizeof(move))
		return bad(jit);
	memcpy(&move, bytes, sizeof(move));
	if (!is_range(move.new_code_addr, move.code_size) || move.old_code_addr == UINT64_MAX)
		return bad(jit);
	moving.move = &move;
	spans__each(&jit->spans[JIT_SOURCE_JITDUMP], move.old_code_addr, move.old_code_addr + 1,
		    is_moving, &moving);
	if (!moving.object)
		return bad(jit);
	name = strdup(moving.object->names);
	if (!name)
		return -ENOMEM;
	time = time_of(jit, &move.prefix);
	registry__replaced(jit, moving.object->ranges[0].start, moving.object->ranges[0].end);
	registry__end(jit, moving.object->seen.id, jit->dump.own_clock ? jit->dump.ended : time, time);
	return add(jit, name, strlen(name), move.new_code_addr, move.code_size, time,
		   move.code_index);
}

/* .eh_frame_hdr is cut off the end: tables are made from .eh_frame alone. */
static int take_unwinding(struct jit *jit, const char *bytes, size_t len)
{
	struct jit_unwind *unwind = &jit->dump.unwind;
	struct unwinding info;

	if (len < sizeof(info))
		return bad(jit);
	memcpy(&info, bytes, sizeof(info));
	free(unwind->eh_frame);
	*unwind = (struct jit_unwind){};
	if (info.hdr_size > info.size || info.size > info.prefix.total_size - sizeof(info))
		return bad(jit);
	unwind->len = info.size - info.hdr_size;
	if (!unwind->len || unwind->len > len - sizeof(info))
		return 0; /* empty, or larger than UNWIND_MAX */
	unwind->eh_frame = malloc(unwind->len);
	if (!unwind->eh_frame)
		return -ENOMEM;
	memcpy(unwind->eh_frame, bytes + sizeof(info), unwind->len);
	unwind->whole = true;
	return 0;
}

static int take_record(struct jit *jit, const struct prefix *prefix, const char *bytes, size_t len)
{
	struct debug_info info;

	switch (prefix->id) {
	case LOAD:
		return take_load(jit, bytes, len);
	case MOVE:
		return take_move(jit, bytes, len);
	case DEBUG_INFO:
		if (len < sizeof(info))
			return bad(jit);
		memcpy(&info, bytes, sizeof(info));
		jit->dump.lines_of = info.n_entry ? info.code_addr : 0;
		return 0;
	case CLOSE:
		jit->dump.closed = true;
		return 0;
	case UNWINDING_INFO:
		return take_unwinding(jit, bytes, len);
	default:
		return 0; /* of a later version of the format */
	}
}

/* Takes the file head or record at `bytes` if enough of it is there; *ret_total: its size. -EAGAIN: more is needed. */
static int step(struct jit *jit, const char *bytes, size_t len, uint64_t *ret_total)
{
	struct jitdump *dump = &jit->dump;
	struct file_head head;
	struct prefix prefix;
	int err;

	if (!dump->began) {
		if (len < sizeof(head))
			return -EAGAIN;
		memcpy(&head, bytes, sizeof(head));
		if (head.magic == MAGIC_SWAPPED)
			return -ENOTSUP; /* other byte order: not written on this machine */
		if (head.magic != MAGIC || head.total_size < sizeof(head))
			return -EBADMSG;
		if (head.version != 1)
			return -ENOTSUP;
		/* An architecture's own counter; unlike this flag says, the clock can be any. */
		dump->own_clock = head.flags & FLAG_ARCH_TIMESTAMP;
		dump->began = true;
		*ret_total = head.total_size;
		return 0;
	}
	if (len < sizeof(prefix))
		return -EAGAIN;
	memcpy(&prefix, bytes, sizeof(prefix));
	if (prefix.total_size < sizeof(prefix))
		return -EBADMSG;
	if (len < needed(&prefix))
		return -EAGAIN;
	err = take_record(jit, &prefix, bytes, needed(&prefix));
	*ret_total = prefix.total_size;
	return err;
}

/* Number of bytes that step() needs next. */
static size_t wanted(const struct jitdump *dump)
{
	struct prefix prefix;

	if (!dump->began)
		return sizeof(struct file_head);
	if (dump->head.len < sizeof(prefix))
		return sizeof(prefix);
	memcpy(&prefix, dump->head.data, sizeof(prefix));
	return prefix.total_size < sizeof(prefix) ? sizeof(prefix) : needed(&prefix);
}

/* Invariant: dump->head has the first bytes of a record and never more than step() needs; dump->skip bytes of the
 * one before are still to come. jit__jitdump_skip() lets the caller leave those out of its reads. */
static int feed(struct jit *jit, const char *at, size_t len)
{
	struct jitdump *dump = &jit->dump;
	uint64_t total;
	size_t want;
	int err;

	while (len && !dump->closed) {
		if (dump->skip) {
			want = dump->skip < len ? dump->skip : len;
			dump->skip -= want;
			at += want;
			len -= want;
			continue;
		}
		want = wanted(dump) - dump->head.len;
		if (want > len)
			want = len;
		err = buf__append(&dump->head, at, want);
		if (err)
			return err;
		at += want;
		len -= want;
		err = step(jit, dump->head.data, dump->head.len, &total);
		if (err == -EAGAIN)
			continue;
		if (err)
			return err;
		dump->skip = total - dump->head.len;
		buf__clear(&dump->head);
	}
	return 0;
}

int jit__jitdump(struct jit *jit, const void *bytes, size_t len)
{
	int err;

	if (jit->dump.error)
		return jit->dump.error;
	err = feed(jit, bytes, len);
	if (err != -ENOMEM)
		jit->dump.error = err;
	return err;
}

uint64_t jit__jitdump_skip(struct jit *jit, uint64_t most)
{
	uint64_t skip = jit->dump.skip < most ? jit->dump.skip : most;

	jit->dump.skip -= skip;
	return skip;
}

void jit__jitdump_restart(struct jit *jit)
{
	uint64_t ended = jit->dump.ended;

	jitdump__free(&jit->dump);
	jit->dump.ended = ended;
}

void jitdump__free(struct jitdump *dump)
{
	buf__free(&dump->head);
	free(dump->unwind.eh_frame);
	*dump = (struct jitdump){};
}
