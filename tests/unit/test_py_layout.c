/* SPDX-License-Identifier: MIT */
/* Layouts of CPython: which versions are supported, and debug offsets that are false. tools/offsets/verify.py checks
 * the numbers against real interpreters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cprofd/pywalk.h"
#include "target/py_layout.h"
#include "target/py_tables.h"

#define FINAL(minor, micro) (0x03000000u | (minor) << 16 | (micro) << 8 | 0xf0)

static const struct py_table *table_of(uint32_t hex, bool free_threaded)
{
	size_t i;

	for (i = 0; i < py_tables_n; i++)
		if (py_tables[i].first <= hex && hex <= py_tables[i].last &&
		    !!(py_tables[i].flags & PY_FREE_THREADED) == free_threaded)
			return &py_tables[i];
	return NULL;
}

static size_t position_of(const struct py_table *t, size_t i)
{
	return (size_t)py_debug_offsets[i].numbers[t - py_tables];
}

/* What a healthy target of that version has at _PyRuntime; the bytes past it are its own. */
static void make_debug_offsets(uint8_t *bytes, size_t len, uint32_t hex, bool free_threaded)
{
	const struct py_table *t = table_of(hex, free_threaded);
	struct py_layout layout;
	uint64_t word = hex;
	size_t i;

	memset(bytes, 0xa5, len);
	memcpy(bytes, "xdebugpy", 8);
	memcpy(bytes + 8, &word, 8);
	word = free_threaded;
	memcpy(bytes + 16, &word, 8);
	py_table__layout(t, &layout);
	for (i = 0; i < py_debug_offsets_n; i++) {
		if (!position_of(t, i))
			continue;
		word = 0;
		memcpy(&word, (const uint8_t *)&layout + py_debug_offsets[i].at, py_debug_offsets[i].width);
		memcpy(bytes + position_of(t, i), &word, 8);
	}
}

/* The newest minor version that is served. */
static uint32_t newest(void)
{
	return py_tables[py_tables_n - 1].first >> 16 & 0xff;
}

static void tell(uint8_t *bytes, const struct py_table *t, size_t member, uint64_t value)
{
	size_t i;

	for (i = 0; i < py_debug_offsets_n; i++) {
		if (py_debug_offsets[i].at == member && position_of(t, i)) {
			memcpy(bytes + position_of(t, i), &value, 8);
			return;
		}
	}
	fail_msg("debug offsets do not tell the member at %zu", member);
}

#define TELL(bytes, table, member, value) \
	tell(bytes, table, offsetof(struct py_layout, member), value)

static void served_versions(void **state)
{
	struct py_layout l;
	uint32_t minor;

	assert_true(newest() >= 15);
	for (minor = 8; minor <= newest(); minor++) {
		assert_int_equal(py_layout__from_table(FINAL(minor, 0), false, &l), 0);
		assert_int_equal(l.version, FINAL(minor, 0) >> 8);
		assert_int_equal(py_layout__from_table(FINAL(minor, 40), false, &l), 0);
		assert_int_equal(l.version, FINAL(minor, 40) >> 8);
		assert_int_equal(l.flags & PY_FREE_THREADED, 0);
		assert_int_equal(py_layout__from_table(FINAL(minor, 1), true, &l),
				 minor >= 13 ? 0 : -ENOENT);
		if (minor >= 13)
			assert_int_equal(l.flags & PY_FREE_THREADED, PY_FREE_THREADED);
	}
}

static void refused_versions(void **state)
{
	static const uint32_t unknown[] = {
		0,	    0x02071200, 0x020712f0, FINAL(6, 15), FINAL(7, 16), FINAL(16, 0),
		0x04000000, 0x040000f0, UINT32_MAX, 0x030f00a1, /* 3.15.0a1 */
		0x030f00b4, 0x030f00c2, 0x030d00c3, /* 3.13.0rc3 */
		0x030c01a0, 0x03100000,
	};
	struct py_layout l, before;
	size_t i;

	memset(&l, 0x5a, sizeof(l));
	before = l;
	for (i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		assert_int_equal(py_layout__from_table(unknown[i], false, &l), -ENOENT);
		assert_int_equal(py_layout__from_table(unknown[i], true, &l), -ENOENT);
	}
	assert_memory_equal(&l, &before, sizeof(l));
}

/* From the struct definitions themselves, counted by hand. */
static void known_layouts(void **state)
{
	struct py_layout l;

	/* 3.8, Include/frameobject.h: PyObject_VAR_HEAD is 24, f_back, f_code */
	assert_int_equal(py_layout__from_table(FINAL(8, 18), false, &l), 0);
	assert_int_equal(l.frames, PY_FRAMES_OBJECTS);
	assert_int_equal(l.lasti, PY_LASTI_BYTES);
	assert_int_equal(l.frame_back, 24);
	assert_int_equal(l.frame_code, 32);
	assert_int_equal(l.tstate_native_thread_id, PY_ABSENT);
	/* 3.10: lasti counts code units */
	assert_int_equal(py_layout__from_table(FINAL(10, 0), false, &l), 0);
	assert_int_equal(l.lasti, PY_LASTI_UNITS);
	assert_int_equal(l.lines, PY_LINES_LINETABLE);
	/* 3.11, pycore_frame.h: f_code is the fifth word, previous the seventh, is_entry before owner */
	assert_int_equal(py_layout__from_table(FINAL(11, 7), false, &l), 0);
	assert_int_equal(l.frames, PY_FRAMES_CFRAME);
	assert_int_equal(l.frame_code, 32);
	assert_int_equal(l.frame_back, 48);
	assert_int_equal(l.frame_lasti, 56);
	assert_int_equal(l.frame_owner, l.frame_is_entry + 1);
	assert_int_equal(l.owner_native_first, 0);
	/* 3.12: f_code first, shims on the C stack; no stack references yet */
	assert_int_equal(py_layout__from_table(FINAL(12, 1), false, &l), 0);
	assert_int_equal(l.frames, PY_FRAMES_CFRAME);
	assert_int_equal(l.frame_code, 0);
	assert_int_equal(l.frame_is_entry, PY_ABSENT);
	assert_int_equal(l.owner_native_first, 3);
	assert_int_equal(l.flags & PY_TAGGED_REFS, 0);
	/* 3.13 differs from 3.12 in the way to the frame */
	assert_int_equal(py_layout__from_table(FINAL(13, 0), false, &l), 0);
	assert_int_equal(l.frames, PY_FRAMES_CURRENT);
	assert_int_equal(l.cframe_current_frame, PY_ABSENT);
	assert_int_equal(l.flags & PY_TAGGED_REFS, 0);
	/* 3.14: stack references are tagged, with the GIL too; its copies of bytecode only without */
	assert_int_equal(py_layout__from_table(FINAL(14, 8), false, &l), 0);
	assert_int_equal(l.flags & (PY_TAGGED_REFS | PY_TLBC), PY_TAGGED_REFS);
	assert_int_equal(l.frame_tlbc_index, PY_ABSENT);
	assert_int_equal(py_layout__from_table(FINAL(14, 8), true, &l), 0);
	assert_int_equal(l.flags & (PY_TAGGED_REFS | PY_TLBC), PY_TAGGED_REFS | PY_TLBC);
	assert_int_equal(l.frame_tlbc_index, 72);
	/* A free-threaded PyObject is 16 bytes longer */
	assert_int_equal(l.object_type, 24);
}

/* The walker reads fixed amounts of a thread state, a code object and a frame. */
static void tables_fit_the_walker(void **state)
{
	size_t i;

	for (i = 0; i < py_tables_n; i++) {
		struct py_layout layout, *l = &layout;

		py_table__layout(&py_tables[i], l);
		assert_true(py_tables[i].first <= py_tables[i].last);
		assert_int_equal(py_tables[i].first >> 16, py_tables[i].last >> 16);
		assert_true(py_tables[i].debug_size <= PY_DEBUG_OFFSETS_MAX);
		assert_true(l->frame_size <= PY_RAW_FRAME);
		assert_true(l->tstate_next <= PY_RAW_TSTATE - 8);
		assert_true(l->tstate_frame <= PY_RAW_TSTATE - 8);
		assert_true(l->tstate_thread_id <= PY_RAW_TSTATE - 8);
		assert_true(l->code_name <= PY_RAW_CODE - 8);
		assert_true(l->code_filename <= PY_RAW_CODE - 8);
		assert_true(l->code_linetable <= PY_RAW_CODE - 8);
		assert_true(l->code_varnames <= PY_RAW_CODE - 8);
		assert_true(l->code_firstlineno <= PY_RAW_CODE - 4);
		assert_true(l->code_flags <= PY_RAW_CODE - 4);
		assert_true(l->code_argcount <= PY_RAW_CODE - 4);
		if (l->tstate_datastack_chunk != PY_ABSENT)
			assert_true(l->tstate_datastack_chunk <= PY_RAW_TSTATE - 8);
		if (l->code_version != PY_ABSENT)
			assert_true(l->code_version <= PY_RAW_CODE - 4);
		if (l->code_qualname != PY_ABSENT)
			assert_true(l->code_qualname <= PY_RAW_CODE - 8);
		if (l->frames != PY_FRAMES_OBJECTS)
			assert_true(l->frame_locals >= l->frame_size - 7);
	}
}

static void truth_is_taken(void **state)
{
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];
	struct py_layout from_table, told;
	uint32_t minor, free_threaded;

	for (minor = 13; minor <= newest(); minor++) {
		for (free_threaded = 0; free_threaded < 2; free_threaded++) {
			make_debug_offsets(bytes, sizeof(bytes), FINAL(minor, 3), free_threaded);
			assert_int_equal(py_layout__from_debug_offsets(bytes, sizeof(bytes), &told), 0);
			assert_int_equal(py_layout__from_table(FINAL(minor, 3), free_threaded, &from_table),
					 0);
			assert_memory_equal(&told, &from_table, sizeof(told));
		}
	}
}

/* A target that was built otherwise is believed. */
static void target_overrides_table(void **state)
{
	const struct py_table *t = table_of(FINAL(13, 1), false);
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];
	struct py_layout l, from_table;

	py_table__layout(t, &from_table);
	make_debug_offsets(bytes, sizeof(bytes), FINAL(13, 1), false);
	TELL(bytes, t, tstate_thread_id, 168);
	TELL(bytes, t, threads_head, 70000);
	TELL(bytes, t, frame_owner, 78);
	assert_int_equal(py_layout__from_debug_offsets(bytes, sizeof(bytes), &l), 0);
	assert_int_equal(l.tstate_thread_id, 168);
	assert_int_equal(l.threads_head, 70000);
	assert_int_equal(l.frame_owner, 78);
	assert_int_equal(l.frame_size, 80);
	assert_int_equal(l.code_version, from_table.code_version);
}

static void not_debug_offsets(void **state)
{
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];
	struct py_layout l;
	uint64_t word;

	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(py_layout__from_debug_offsets(bytes, sizeof(bytes), &l), -ENOEXEC);
	assert_int_equal(py_layout__from_debug_offsets(bytes, 0, &l), -ENOEXEC);
	make_debug_offsets(bytes, sizeof(bytes), FINAL(14, 0), false);
	bytes[7] = 'x';
	assert_int_equal(py_layout__from_debug_offsets(bytes, sizeof(bytes), &l), -ENOEXEC);
	make_debug_offsets(bytes, sizeof(bytes), FINAL(14, 0), false);
	word = 2;
	memcpy(bytes + 16, &word, 8);
	assert_int_equal(py_layout__from_debug_offsets(bytes, sizeof(bytes), &l), -ENOEXEC);
	make_debug_offsets(bytes, sizeof(bytes), FINAL(14, 0), false);
	bytes[12] = 1; /* a version above 32 bits */
	assert_int_equal(py_layout__from_debug_offsets(bytes, sizeof(bytes), &l), -ENOEXEC);
}

/* Every length short of the struct; each in a buffer of its own size, for the sanitizer. */
static void truncated(void **state)
{
	uint8_t whole[PY_DEBUG_OFFSETS_MAX];
	struct py_layout l;
	uint32_t minor;
	size_t len;

	for (minor = 13; minor <= newest(); minor++) {
		size_t size = table_of(FINAL(minor, 0), true)->debug_size;

		make_debug_offsets(whole, sizeof(whole), FINAL(minor, 0), true);
		for (len = 0; len <= size; len++) {
			uint8_t *bytes = malloc(len ? len : 1);

			assert_non_null(bytes);
			memcpy(bytes, whole, len);
			assert_int_equal(py_layout__from_debug_offsets(bytes, len, &l),
					 len == size ? 0 : -ENOEXEC);
			free(bytes);
		}
	}
}

static void unknown_debug_offsets(void **state)
{
	const uint32_t unknown[] = {0, FINAL(12, 1), FINAL(newest() + 1, 0), 0x030f00a3, 0x030d00c1};
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];
	struct py_layout l;
	uint64_t word;
	size_t i;

	for (i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		make_debug_offsets(bytes, sizeof(bytes), FINAL(13, 0), false);
		word = unknown[i];
		memcpy(bytes + 8, &word, 8);
		assert_int_equal(py_layout__from_debug_offsets(bytes, sizeof(bytes), &l), -ENOTSUP);
	}
}

/* Each number in turn becomes one that cannot be; *ret must not change. */
static void lies(void **state)
{
	static const uint64_t lies16[] = {0xfffe, 0xffff, 0x10000, 1u << 20, UINT64_MAX, 1ull << 63};
	const struct py_table *t = table_of(FINAL(14, 2), true);
	uint8_t bytes[PY_DEBUG_OFFSETS_MAX];
	struct py_layout l, before;
	size_t i, j;

	memset(&l, 0x5a, sizeof(l));
	before = l;
	for (i = 0; i < py_debug_offsets_n; i++) {
		for (j = 0; j < sizeof(lies16) / sizeof(lies16[0]); j++) {
			if (!position_of(t, i) || (py_debug_offsets[i].width == 4 && lies16[j] < 1u << 20))
				continue;
			make_debug_offsets(bytes, sizeof(bytes), FINAL(14, 2), true);
			memcpy(bytes + position_of(t, i), &lies16[j], 8);
			assert_int_equal(py_layout__from_debug_offsets(bytes, sizeof(bytes), &l), -ERANGE);
		}
	}
	make_debug_offsets(bytes, sizeof(bytes), FINAL(14, 2), true);
	TELL(bytes, t, frame_back, 124); /* a frame longer than the walker reads */
	assert_int_equal(py_layout__from_debug_offsets(bytes, sizeof(bytes), &l), -ERANGE);
	make_debug_offsets(bytes, sizeof(bytes), FINAL(14, 2), true);
	TELL(bytes, t, tstate_next, 9); /* no pointer lies there */
	assert_int_equal(py_layout__from_debug_offsets(bytes, sizeof(bytes), &l), -ERANGE);
	assert_memory_equal(&l, &before, sizeof(l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(served_versions),
		cmocka_unit_test(refused_versions),
		cmocka_unit_test(known_layouts),
		cmocka_unit_test(tables_fit_the_walker),
		cmocka_unit_test(truth_is_taken),
		cmocka_unit_test(target_overrides_table),
		cmocka_unit_test(not_debug_offsets),
		cmocka_unit_test(truncated),
		cmocka_unit_test(unknown_debug_offsets),
		cmocka_unit_test(lies),
	};

	return cmocka_run_group_tests_name("py_layout", tests, NULL, NULL);
}
