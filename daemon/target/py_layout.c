/* SPDX-License-Identifier: MIT */
/* Chooses the layout of a CPython: at which offset is each member of its structures that cprofd reads (struct
 * py_layout, include/cprofd/pylayout.h)? For example in 3.11:
 *
 *    _PyInterpreterFrame: f_code at 32, previous at 48, prev_instr at 56, owner at 69
 *
 * It is a column of the generated tables (py_tables.c), overridden since 3.13 by the offsets that the target itself
 * publishes in _Py_DebugOffsets. Each of these is checked, as the target may publish anything: an offset that is too
 * large would make the walker read far outside of an object. */
#include "target/py_layout.h"

#include <errno.h>
#include <string.h>

#include "target/py_tables.h"

/* Larger than _PyRuntimeState and PyInterpreterState of any version: 3.15's
 * interpreter, with its static objects, takes some 400 KB. */
#define OFFSET32_MAX (1u << 20)

/* The walker reads a whole frame into a buffer of this size (PY_RAW_FRAME). */
#define FRAME_BYTES_MAX 128u

/* A row serves a range of versions; free-threaded builds have rows of their own. */
static const struct py_table *find(uint32_t version_hex, bool free_threaded)
{
	for (size_t i = 0; i < py_tables_n; i++) {
		const struct py_table *t = &py_tables[i];

		if (version_hex >= t->first && version_hex <= t->last &&
		    free_threaded == !!(t->flags & PY_FREE_THREADED))
			return t;
	}
	return NULL;
}

/* The release level is the low byte's high half: 0xa, 0xb, 0xc, and 0xf for final. */
static bool is_final(uint32_t version_hex)
{
	return (version_hex & 0xf0) == 0xf0;
}

/* Of a narrower member, the low bytes of a number: for -1 that is PY_ABSENT, or ~0. */
static void put(struct py_layout *layout, const struct py_member *member, uint32_t number)
{
	memcpy((uint8_t *)layout + member->at, &number, member->width);
}

void py_table__layout(const struct py_table *table, struct py_layout *ret)
{
	*ret = (struct py_layout){
		.frames = table->frames,
		.lasti = table->lasti,
		.lines = table->lines,
		.flags = table->flags,
	};
	for (size_t i = 0; i < py_offsets_n; i++)
		put(ret, &py_offsets[i], (uint32_t)py_offsets[i].numbers[table - py_tables]);
}

int py_layout__from_table(uint32_t version_hex, bool free_threaded, struct py_layout *ret)
{
	const struct py_table *t = find(version_hex, free_threaded);

	if (!t || !is_final(version_hex))
		return -ENOENT;
	py_table__layout(t, ret);
	ret->version = version_hex >> 8;
	return 0;
}

static uint64_t word_at(const uint8_t *bytes, size_t position)
{
	uint64_t word;

	memcpy(&word, bytes + position, sizeof(word));
	return word;
}

/* Stores the target's offset of one member; false if the value is impossible. */
static bool take(struct py_layout *layout, const struct py_member *member, uint64_t value)
{
	/* All members but a frame's owner are ints or wider, so aligned. */
	if (value % 4 && member->at != offsetof(struct py_layout, frame_owner))
		return false;
	if (value >= (member->width == sizeof(uint32_t) ? OFFSET32_MAX : PY_ABSENT))
		return false;
	put(layout, member, (uint32_t)value);
	return true;
}

static uint32_t max_u32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* Bytes of a frame that the walker reads: up to the end of its last member, rounded up to words. */
static uint32_t frame_size(const struct py_layout *l)
{
	uint32_t end = max_u32(max_u32(l->frame_back, l->frame_globals), max_u32(l->frame_code, l->frame_lasti)) + 8u;

	end = max_u32(end, l->frame_owner + 1u);
	if (l->frame_tlbc_index != PY_ABSENT)
		end = max_u32(end, l->frame_tlbc_index + 4u);
	return (end + 7u) & ~7u;
}

int py_layout__from_debug_offsets(const void *buf, size_t len, struct py_layout *ret)
{
	/* _Py_DebugOffsets begins alike in all versions: cookie, version, free_threaded. */
	enum { COOKIE = 0, VERSION = 8, FREE_THREADED = 16, HEAD_BYTES = 24 };
	const uint8_t *bytes = buf;
	const struct py_table *t;
	uint64_t version, free_threaded;
	struct py_layout layout;
	size_t i, position;

	if (len < HEAD_BYTES || memcmp(bytes + COOKIE, "xdebugpy", 8))
		return -ENOEXEC;
	version = word_at(bytes, VERSION);
	free_threaded = word_at(bytes, FREE_THREADED);
	if (version > UINT32_MAX || free_threaded > 1)
		return -ENOEXEC;
	t = find((uint32_t)version, free_threaded != 0);
	if (!t || !t->debug_size || !is_final((uint32_t)version))
		return -ENOTSUP;
	if (len < t->debug_size)
		return -ENOEXEC;
	py_table__layout(t, &layout);
	for (i = 0; i < py_debug_offsets_n; i++) {
		position = (size_t)py_debug_offsets[i].numbers[t - py_tables];
		if (position && !take(&layout, &py_debug_offsets[i], word_at(bytes, position)))
			return -ERANGE;
	}
	layout.frame_size = frame_size(&layout);
	if (layout.frame_size > FRAME_BYTES_MAX)
		return -ERANGE;
	layout.version = (uint32_t)version >> 8;
	*ret = layout;
	return 0;
}
