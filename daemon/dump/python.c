/* SPDX-License-Identifier: MIT */
/* Python frames: the walker in user space, and the names of code objects, from the target's memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/types.h>

#include "dump/codes.h"

/* Which code objects the walker may take as known: those of the walk that goes on, in the loop. Before pywalk.h. */
static const struct dump_codes *known;

static inline int py_seen(__u64 key)
{
	return dump_codes__find(known, key) != 0;
}
#define PY_SEEN
#include "cprofd/pywalk.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "dump/dump.h"
#include "name/lines.h"
#include "name/text.h"

#define ROUNDS 256u            /* 64 new code objects each */
#define CODES_KEPT 8192u
#define STRING_MAX 4096u       /* bytes of a name */
#define LINES_MAX (1u << 20)

struct dump_python {
	struct host_reader *memory;
	struct image image;
	struct dump_codes codes;
	struct py_walk walk;
	struct py_out out;
};

int dump_python__new(struct host_reader *memory, const struct image *image, struct dump_python **ret)
{
	struct dump_python *self = calloc(1, sizeof(*self));

	if (!self)
		return -ENOMEM;
	self->memory = memory;
	self->image = *image;
	*ret = self;
	return 0;
}

struct dump_python *dump_python__free(struct dump_python *self)
{
	if (self)
		dump_codes__free(&self->codes);
	free(self);
	return NULL;
}

void dump_python__turn_to(struct dump_python *self, const struct image *image)
{
	self->image = *image;
	if (self->codes.n > CODES_KEPT)
		dump_codes__free(&self->codes);
}

/* --- frames --- */

static int copy(const struct py_frame *frames, uint32_t n, struct dump_frames *ret)
{
	ret->n = n < RECORD_PY_FRAMES_MAX ? n : RECORD_PY_FRAMES_MAX;
	ret->frames = calloc(ret->n + 1, sizeof(*ret->frames));
	if (!ret->frames)
		return -ENOMEM;
	if (ret->n)
		memcpy(ret->frames, frames, ret->n * sizeof(*frames));
	return 0;
}

int dump_python__list(const struct dump_python *self, struct dump_tstates *ret)
{
	return dump_tstates__read(self->memory, &self->image, ret);
}

/* As py_walk(), of a thread whose thread states are known. */
static void walk_known(struct dump_python *self, const struct dump_tstates *tstates)
{
	struct py_walk *walk = &self->walk;
	const struct py_layout *l = &self->image.layout;
	__u64 current = 0;
	uint32_t n, i;
	const struct dump_tstate *of = dump_tstates__find(tstates, walk->fsbase, &n);

	py_walk_begin(walk);
	for (i = 0; i < n; i++)
		if (py_tstate_check(walk, &self->image, of[i].address))
			py_tstate_add(walk, &self->image, NULL, of[i].address);
	if (!n)
		walk->loss = tstates->loss;
	if (walk->n_tstates > 1 && l->tstate_current != ~0u)
		py_read64(walk, self->image.runtime + l->tstate_current, &current);
	for (i = 0; i < walk->n_tstates; i++)
		if (walk->tstates[i].address == current)
			walk->first = i;
	if (walk->n_tstates && !walk->loss)
		py_walk_chain(walk, &self->image, &self->out, walk->first, NULL);
	for (i = 0; i < walk->n_tstates && !walk->loss; i++)
		if (i != walk->first)
			py_walk_chain(walk, &self->image, &self->out, i, NULL);
}

int dump_python__walk(struct dump_python *self, const struct dump_thread *thread, const struct dump_tstates *tstates, struct dump_frames *ret)
{
	struct host_reader *before = host_reader_current;
	struct py_walk *walk = &self->walk;
	unsigned round;
	uint32_t i;

	*ret = (struct dump_frames){.no_python = true};
	if (!self->image.runtime)
		return copy(NULL, 0, ret);
	host_reader_current = self->memory;
	known = &self->codes;
	walk->fsbase = thread->fsbase;
	/* As the kernel side does: equal keys for equal code objects. */
	walk->salt = py_mix(thread->process_start, thread->tgid | (uint64_t)thread->exec << 32);
	for (round = 0; round < ROUNDS; round++) {
		walk->now = clock__now();
		walk->hint = walk->hint_until = 0;
		if (tstates)
			walk_known(self, tstates);
		else
			py_walk(walk, &self->image, &self->out, NULL);
		if (!walk->n_todo)
			break;
		for (i = 0; i < walk->n_todo; i++)
			dump_codes__add(&self->codes, walk->todo[i].key, walk->todo[i].code);
	}
	host_reader_current = before;
	ret->loss = walk->loss;
	ret->no_python = !walk->n_tstates;
	return copy(self->out.frames, walk->n, ret);
}

void dump_python__learn(struct dump_python *self, const struct dump_slot *slot)
{
	uint32_t n = slot->n_codes, i;

	for (i = 0; i < n && i < DUMP_CODES; i++)
		dump_codes__add(&self->codes, slot->codes[i].key, slot->codes[i].code);
}

int dump_python__take(struct dump_python *self, const struct dump_slot *slot, struct dump_frames *ret)
{
	dump_python__learn(self, slot);
	*ret = (struct dump_frames){.loss = slot->loss < LOSS_COUNT ? slot->loss : LOSS_FRAME_READ,
				    .no_python = slot->no_python};
	return copy(slot->python.frames, slot->n_frames, ret);
}

uint64_t dump_python__code(const struct dump_python *self, uint64_t key)
{
	return dump_codes__find(&self->codes, key);
}

uint64_t dump_python__place(const struct dump_python *self, uint32_t i)
{
	return i < self->walk.n && i < RECORD_PY_FRAMES_MAX ? self->walk.places[i] : 0;
}

/* --- names --- */

static int get(const struct dump_python *self, void *dst, size_t size, uint64_t address)
{
	return self->memory->read(self->memory, dst, size, address);
}

static uint64_t word(const struct dump_python *self, uint64_t address)
{
	uint64_t value = 0;

	return get(self, &value, sizeof(value), address) ? 0 : value;
}

static uint32_t half(const struct dump_python *self, uint64_t address)
{
	uint32_t value = 0;

	return get(self, &value, sizeof(value), address) ? 0 : value;
}

/* A str of the target's; NULL: it is none, or no memory. */
static json_t *string_at(const struct dump_python *self, uint64_t string)
{
	const struct py_layout *l = &self->image.layout;
	uint64_t length = word(self, string + l->unicode_length);
	uint32_t state = half(self, string + l->unicode_state);
	unsigned kind = state >> l->state_kind_shift & 7;
	bool ascii = state >> l->state_ascii_shift & 1;
	_cleanup_(buf__free) struct buf text = {};
	char data[STRING_MAX];

	if (!string || !kind)
		return NULL;
	if (length > STRING_MAX / kind)
		length = STRING_MAX / kind;
	if (get(self, data, length * kind, string + (ascii ? l->unicode_ascii_data : l->unicode_compact_data)) ||
	    text__from_unicode(data, length * kind, kind, ascii, &text))
		return NULL;
	return json_stringn(text.data ? text.data : "", text.len);
}

static uint32_t line_at(const struct dump_python *self, uint64_t code, int32_t offset)
{
	const struct py_layout *l = &self->image.layout;
	uint64_t table = word(self, code + l->code_linetable), len = word(self, table + l->var_size);
	_cleanup_free_ char *bytes = table && len <= LINES_MAX ? malloc(len + 1) : NULL;
	struct position position;

	if (!bytes || get(self, bytes, len, table + l->bytes_data) ||
	    lines__position(l->lines, bytes, len, half(self, code + l->code_firstlineno), offset, &position))
		return 0;
	return position.line;
}

json_t *dump_python__frame(const struct dump_python *self, const struct py_frame *frame)
{
	const struct py_layout *l = &self->image.layout;
	uint64_t code = dump_codes__find(&self->codes, frame->code);
	json_t *function = NULL, *file = NULL;

	if (code) {
		function = l->code_qualname != PY_ABSENT ? string_at(self, word(self, code + l->code_qualname)) : NULL;
		if (!function)
			function = string_at(self, word(self, code + l->code_name));
		file = string_at(self, word(self, code + l->code_filename));
	}
	return json_pack("{s:s, s:o, s:o, s:i}", "kind", "python", "function", function ? function : json_string("?"),
			 "file", file ? file : json_string("?"), "line",
			 code ? (int)line_at(self, code, frame->offset) : 0);
}
