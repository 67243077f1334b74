/* SPDX-License-Identifier: MIT */
/* Where things are inside each CPython: made from its headers by
 * tools/offsets/tables.py --write, compared by make tables-check. Not edited.
 *
 * The headers that were read:
 *   3.8.18    upstream release 3.8.18, as pyenv builds it
 *   3.9.18    upstream release 3.9.18, as pyenv builds it
 *   3.10.13   upstream release 3.10.13, as pyenv builds it
 *   3.11.2    Debian libpython3.11-dev 3.11.2-6+deb12u9
 *   3.11.7    upstream release 3.11.7, as pyenv builds it
 *   3.12.1    upstream release 3.12.1, as pyenv builds it
 *   3.13.0    upstream release 3.13.0, as pyenv builds it
 *   3.13.5    Debian libpython3.13-dev 3.13.5-2+deb13u5
 *   3.13.15   Debian libpython3.13-dev 3.13.15-1
 *   3.13.15t  Debian source package python3.13 3.13.15-1, configure --disable-gil
 *   3.13.18   Debian libpython3.13-dev 3.13.18-1
 *   3.14.8    Debian libpython3.14-dev 3.14.8-1
 *   3.14.10   Debian libpython3.14-dev 3.14.10-1
 *   3.15.0    Debian libpython3.15-dev 3.15.0-1
 *   3.15.2    Debian libpython3.15-dev 3.15.2-1
 *
 * A row serves the final releases from `first` to `last`. The rows of one minor
 * version end with its newest final release, whatever that will be: a layout is
 * frozen with the first release candidate. Pre-releases have no row.
 */
#include "target/py_tables.h"

/* clang-format off */

/* Where _Py_DebugOffsets of 3.13 tells them. */
static const struct py_debug_offset debug_offsets_3_13[] = {
	TOLD32(40, interpreters_head), TOLD32(72, threads_head), TOLD16(64, interp_next),
	TOLD16(160, tstate_prev), TOLD16(168, tstate_next), TOLD16(176, tstate_interp),
	TOLD16(184, tstate_frame), TOLD16(192, tstate_thread_id),
	TOLD16(200, tstate_native_thread_id), TOLD16(208, tstate_datastack_chunk),
	TOLD16(216, tstate_status), TOLD16(232, frame_back), TOLD16(240, frame_code),
	TOLD16(248, frame_lasti), TOLD16(256, frame_locals), TOLD16(264, frame_owner),
	TOLD16(288, code_name), TOLD16(296, code_qualname), TOLD16(280, code_filename),
	TOLD16(312, code_firstlineno), TOLD16(320, code_argcount), TOLD16(304, code_linetable),
	TOLD16(328, code_varnames), TOLD16(344, code_instructions), TOLD16(360, object_type),
	TOLD16(416, var_size), TOLD16(408, tuple_items), TOLD16(528, bytes_data),
	TOLD16(552, unicode_length), TOLD16(544, unicode_state), TOLD16(560, unicode_ascii_data),
};

/* Where _Py_DebugOffsets of 3.14 tells them. */
static const struct py_debug_offset debug_offsets_3_14[] = {
	TOLD32(40, interpreters_head), TOLD32(72, threads_head), TOLD16(64, interp_next),
	TOLD16(184, tstate_prev), TOLD16(192, tstate_next), TOLD16(200, tstate_interp),
	TOLD16(208, tstate_frame), TOLD16(216, tstate_thread_id),
	TOLD16(224, tstate_native_thread_id), TOLD16(232, tstate_datastack_chunk),
	TOLD16(240, tstate_status), TOLD16(256, frame_back), TOLD16(264, frame_code),
	TOLD16(272, frame_lasti), TOLD16(280, frame_locals), TOLD16(288, frame_owner),
	TOLD16(328, code_name), TOLD16(336, code_qualname), TOLD16(320, code_filename),
	TOLD16(352, code_firstlineno), TOLD16(360, code_argcount), TOLD16(344, code_linetable),
	TOLD16(368, code_varnames), TOLD16(384, code_instructions), TOLD16(408, object_type),
	TOLD16(464, var_size), TOLD16(456, tuple_items), TOLD16(608, bytes_data),
	TOLD16(632, unicode_length), TOLD16(624, unicode_state), TOLD16(640, unicode_ascii_data),
};

/* Where _Py_DebugOffsets of 3.14t tells them. */
static const struct py_debug_offset debug_offsets_3_14t[] = {
	TOLD32(40, interpreters_head), TOLD32(72, threads_head), TOLD16(64, interp_next),
	TOLD16(184, tstate_prev), TOLD16(192, tstate_next), TOLD16(200, tstate_interp),
	TOLD16(208, tstate_frame), TOLD16(216, tstate_thread_id),
	TOLD16(224, tstate_native_thread_id), TOLD16(232, tstate_datastack_chunk),
	TOLD16(240, tstate_status), TOLD16(256, frame_back), TOLD16(264, frame_code),
	TOLD16(272, frame_lasti), TOLD16(280, frame_locals), TOLD16(288, frame_owner),
	TOLD16(328, code_name), TOLD16(336, code_qualname), TOLD16(320, code_filename),
	TOLD16(352, code_firstlineno), TOLD16(360, code_argcount), TOLD16(344, code_linetable),
	TOLD16(368, code_varnames), TOLD16(384, code_instructions), TOLD16(408, object_type),
	TOLD16(464, var_size), TOLD16(456, tuple_items), TOLD16(608, bytes_data),
	TOLD16(632, unicode_length), TOLD16(624, unicode_state), TOLD16(640, unicode_ascii_data),
	TOLD16(304, frame_tlbc_index), TOLD16(392, code_tlbc),
};

/* Where _Py_DebugOffsets of 3.15 tells them. */
static const struct py_debug_offset debug_offsets_3_15[] = {
	TOLD32(40, interpreters_head), TOLD32(72, threads_head), TOLD16(64, interp_next),
	TOLD16(184, tstate_prev), TOLD16(192, tstate_next), TOLD16(200, tstate_interp),
	TOLD16(208, tstate_frame), TOLD16(240, tstate_thread_id),
	TOLD16(248, tstate_native_thread_id), TOLD16(256, tstate_datastack_chunk),
	TOLD16(264, tstate_status), TOLD16(320, frame_back), TOLD16(328, frame_code),
	TOLD16(336, frame_lasti), TOLD16(344, frame_locals), TOLD16(352, frame_owner),
	TOLD16(392, code_name), TOLD16(400, code_qualname), TOLD16(384, code_filename),
	TOLD16(416, code_firstlineno), TOLD16(424, code_argcount), TOLD16(408, code_linetable),
	TOLD16(432, code_varnames), TOLD16(448, code_instructions), TOLD16(472, object_type),
	TOLD16(560, var_size), TOLD16(552, tuple_items), TOLD16(704, bytes_data),
	TOLD16(728, unicode_length), TOLD16(720, unicode_state), TOLD16(736, unicode_ascii_data),
	TOLD16(744, unicode_compact_data),
};

/* Where _Py_DebugOffsets of 3.15t tells them. */
static const struct py_debug_offset debug_offsets_3_15t[] = {
	TOLD32(40, interpreters_head), TOLD32(72, threads_head), TOLD16(64, interp_next),
	TOLD16(184, tstate_prev), TOLD16(192, tstate_next), TOLD16(200, tstate_interp),
	TOLD16(208, tstate_frame), TOLD16(240, tstate_thread_id),
	TOLD16(248, tstate_native_thread_id), TOLD16(256, tstate_datastack_chunk),
	TOLD16(264, tstate_status), TOLD16(320, frame_back), TOLD16(328, frame_code),
	TOLD16(336, frame_lasti), TOLD16(344, frame_locals), TOLD16(352, frame_owner),
	TOLD16(392, code_name), TOLD16(400, code_qualname), TOLD16(384, code_filename),
	TOLD16(416, code_firstlineno), TOLD16(424, code_argcount), TOLD16(408, code_linetable),
	TOLD16(432, code_varnames), TOLD16(448, code_instructions), TOLD16(472, object_type),
	TOLD16(560, var_size), TOLD16(552, tuple_items), TOLD16(704, bytes_data),
	TOLD16(728, unicode_length), TOLD16(720, unicode_state), TOLD16(736, unicode_ascii_data),
	TOLD16(368, frame_tlbc_index), TOLD16(456, code_tlbc), TOLD16(744, unicode_compact_data),
};

const struct py_table py_tables[] = {
	/* 3.8: read from the headers of 3.8.18 */
	{
		.first = 0x030800f0,
		.last = 0x0308ffff,
		.debug_size = 0,
		.layout = {
			.frames = PY_FRAMES_OBJECTS, .lasti = PY_LASTI_BYTES,
			.lines = PY_LINES_LNOTAB, .flags = 0, .interpreters_head = 32,
			.tstate_current = 1368, .threads_head = 8, .frame_size = 120,
			.owner_native_first = 0, .state_kind_shift = 2, .state_compact_shift = 5,
			.state_ascii_shift = 6, .interp_next = 0, .tstate_prev = 0,
			.tstate_next = 8, .tstate_interp = 16, .tstate_thread_id = 176,
			.tstate_native_thread_id = PY_ABSENT, .tstate_status = PY_ABSENT,
			.tstate_frame = 24, .tstate_datastack_chunk = PY_ABSENT,
			.cframe_current_frame = PY_ABSENT, .frame_back = 24, .frame_code = 32,
			.frame_lasti = 104, .frame_owner = PY_ABSENT, .frame_is_entry = PY_ABSENT,
			.frame_state = 116, .frame_locals = 360, .frame_tlbc_index = PY_ABSENT,
			.code_name = 112, .code_qualname = PY_ABSENT, .code_filename = 104,
			.code_firstlineno = 40, .code_linetable = 120, .code_varnames = 72,
			.code_instructions = 48, .code_version = PY_ABSENT, .code_argcount = 16,
			.code_flags = 36, .code_tlbc = PY_ABSENT, .tlbc_size = PY_ABSENT,
			.tlbc_entries = PY_ABSENT, .object_refcnt = 0, .object_type = 8,
			.var_size = 16, .bytes_data = 32, .tuple_items = 24, .unicode_length = 16,
			.unicode_hash = 24, .unicode_state = 32, .unicode_ascii_data = 48,
			.unicode_compact_data = 72,
		},
	},
	/* 3.9: read from the headers of 3.9.18 */
	{
		.first = 0x030900f0,
		.last = 0x0309ffff,
		.debug_size = 0,
		.layout = {
			.frames = PY_FRAMES_OBJECTS, .lasti = PY_LASTI_BYTES,
			.lines = PY_LINES_LNOTAB, .flags = 0, .interpreters_head = 32,
			.tstate_current = 568, .threads_head = 8, .frame_size = 120,
			.owner_native_first = 0, .state_kind_shift = 2, .state_compact_shift = 5,
			.state_ascii_shift = 6, .interp_next = 0, .tstate_prev = 0,
			.tstate_next = 8, .tstate_interp = 16, .tstate_thread_id = 176,
			.tstate_native_thread_id = PY_ABSENT, .tstate_status = PY_ABSENT,
			.tstate_frame = 24, .tstate_datastack_chunk = PY_ABSENT,
			.cframe_current_frame = PY_ABSENT, .frame_back = 24, .frame_code = 32,
			.frame_lasti = 104, .frame_owner = PY_ABSENT, .frame_is_entry = PY_ABSENT,
			.frame_state = 116, .frame_locals = 360, .frame_tlbc_index = PY_ABSENT,
			.code_name = 112, .code_qualname = PY_ABSENT, .code_filename = 104,
			.code_firstlineno = 40, .code_linetable = 120, .code_varnames = 72,
			.code_instructions = 48, .code_version = PY_ABSENT, .code_argcount = 16,
			.code_flags = 36, .code_tlbc = PY_ABSENT, .tlbc_size = PY_ABSENT,
			.tlbc_entries = PY_ABSENT, .object_refcnt = 0, .object_type = 8,
			.var_size = 16, .bytes_data = 32, .tuple_items = 24, .unicode_length = 16,
			.unicode_hash = 24, .unicode_state = 32, .unicode_ascii_data = 48,
			.unicode_compact_data = 72,
		},
	},
	/* 3.10: read from the headers of 3.10.13 */
	{
		.first = 0x030a00f0,
		.last = 0x030affff,
		.debug_size = 0,
		.layout = {
			.frames = PY_FRAMES_OBJECTS, .lasti = PY_LASTI_UNITS,
			.lines = PY_LINES_LINETABLE, .flags = 0, .interpreters_head = 32,
			.tstate_current = 568, .threads_head = 8, .frame_size = 112,
			.owner_native_first = 0, .state_kind_shift = 2, .state_compact_shift = 5,
			.state_ascii_shift = 6, .interp_next = 0, .tstate_prev = 0,
			.tstate_next = 8, .tstate_interp = 16, .tstate_thread_id = 176,
			.tstate_native_thread_id = PY_ABSENT, .tstate_status = PY_ABSENT,
			.tstate_frame = 24, .tstate_datastack_chunk = PY_ABSENT,
			.cframe_current_frame = PY_ABSENT, .frame_back = 24, .frame_code = 32,
			.frame_lasti = 96, .frame_owner = PY_ABSENT, .frame_is_entry = PY_ABSENT,
			.frame_state = 108, .frame_locals = 352, .frame_tlbc_index = PY_ABSENT,
			.code_name = 112, .code_qualname = PY_ABSENT, .code_filename = 104,
			.code_firstlineno = 40, .code_linetable = 120, .code_varnames = 72,
			.code_instructions = 48, .code_version = PY_ABSENT, .code_argcount = 16,
			.code_flags = 36, .code_tlbc = PY_ABSENT, .tlbc_size = PY_ABSENT,
			.tlbc_entries = PY_ABSENT, .object_refcnt = 0, .object_type = 8,
			.var_size = 16, .bytes_data = 32, .tuple_items = 24, .unicode_length = 16,
			.unicode_hash = 24, .unicode_state = 32, .unicode_ascii_data = 48,
			.unicode_compact_data = 72,
		},
	},
	/* 3.11: read from the headers of 3.11.2, 3.11.7 */
	{
		.first = 0x030b00f0,
		.last = 0x030bffff,
		.debug_size = 0,
		.layout = {
			.frames = PY_FRAMES_CFRAME, .lasti = PY_LASTI_POINTER,
			.lines = PY_LINES_LOCATIONS, .flags = 0, .interpreters_head = 40,
			.tstate_current = 576, .threads_head = 16, .frame_size = 72,
			.owner_native_first = 0, .state_kind_shift = 2, .state_compact_shift = 5,
			.state_ascii_shift = 6, .interp_next = 0, .tstate_prev = 0,
			.tstate_next = 8, .tstate_interp = 16, .tstate_thread_id = 152,
			.tstate_native_thread_id = 160, .tstate_status = PY_ABSENT,
			.tstate_frame = 56, .tstate_datastack_chunk = 296,
			.cframe_current_frame = 8, .frame_back = 48, .frame_code = 32,
			.frame_lasti = 56, .frame_owner = 69, .frame_is_entry = 68,
			.frame_state = PY_ABSENT, .frame_locals = 72,
			.frame_tlbc_index = PY_ABSENT, .code_name = 120, .code_qualname = 128,
			.code_filename = 112, .code_firstlineno = 72, .code_linetable = 136,
			.code_varnames = 96, .code_instructions = 184, .code_version = PY_ABSENT,
			.code_argcount = 56, .code_flags = 48, .code_tlbc = PY_ABSENT,
			.tlbc_size = PY_ABSENT, .tlbc_entries = PY_ABSENT, .object_refcnt = 0,
			.object_type = 8, .var_size = 16, .bytes_data = 32, .tuple_items = 24,
			.unicode_length = 16, .unicode_hash = 24, .unicode_state = 32,
			.unicode_ascii_data = 48, .unicode_compact_data = 72,
		},
	},
	/* 3.12: read from the headers of 3.12.1 */
	{
		.first = 0x030c00f0,
		.last = 0x030cffff,
		.debug_size = 0,
		.layout = {
			.frames = PY_FRAMES_CFRAME, .lasti = PY_LASTI_POINTER,
			.lines = PY_LINES_LOCATIONS, .flags = PY_COMPACT_UNICODE_40,
			.interpreters_head = 40, .tstate_current = ~0u, .threads_head = 72,
			.frame_size = 72, .owner_native_first = 3, .state_kind_shift = 2,
			.state_compact_shift = 5, .state_ascii_shift = 6, .interp_next = 0,
			.tstate_prev = 0, .tstate_next = 8, .tstate_interp = 16,
			.tstate_thread_id = 136, .tstate_native_thread_id = 144,
			.tstate_status = 24, .tstate_frame = 56, .tstate_datastack_chunk = 232,
			.cframe_current_frame = 0, .frame_back = 8, .frame_code = 0,
			.frame_lasti = 56, .frame_owner = 70, .frame_is_entry = PY_ABSENT,
			.frame_state = PY_ABSENT, .frame_locals = 72,
			.frame_tlbc_index = PY_ABSENT, .code_name = 120, .code_qualname = 128,
			.code_filename = 112, .code_firstlineno = 68, .code_linetable = 136,
			.code_varnames = 96, .code_instructions = 192, .code_version = 92,
			.code_argcount = 52, .code_flags = 48, .code_tlbc = PY_ABSENT,
			.tlbc_size = PY_ABSENT, .tlbc_entries = PY_ABSENT, .object_refcnt = 0,
			.object_type = 8, .var_size = 16, .bytes_data = 32, .tuple_items = 24,
			.unicode_length = 16, .unicode_hash = 24, .unicode_state = 32,
			.unicode_ascii_data = 40, .unicode_compact_data = 56,
		},
	},
	/* 3.13: read from the headers of 3.13.0, 3.13.5, 3.13.15, 3.13.18 */
	{
		.first = 0x030d00f0,
		.last = 0x030dffff,
		.debug_offsets = debug_offsets_3_13,
		.n_debug_offsets = sizeof(debug_offsets_3_13) / sizeof(debug_offsets_3_13[0]),
		.debug_size = 584,
		.layout = {
			.frames = PY_FRAMES_CURRENT, .lasti = PY_LASTI_POINTER,
			.lines = PY_LINES_LOCATIONS, .flags = PY_COMPACT_UNICODE_40,
			.interpreters_head = 632, .tstate_current = ~0u, .threads_head = 7344,
			.frame_size = 72, .owner_native_first = 3, .state_kind_shift = 2,
			.state_compact_shift = 5, .state_ascii_shift = 6, .interp_next = 7264,
			.tstate_prev = 0, .tstate_next = 8, .tstate_interp = 16,
			.tstate_thread_id = 152, .tstate_native_thread_id = 160,
			.tstate_status = 32, .tstate_frame = 72, .tstate_datastack_chunk = 232,
			.cframe_current_frame = PY_ABSENT, .frame_back = 8, .frame_code = 0,
			.frame_lasti = 56, .frame_owner = 70, .frame_is_entry = PY_ABSENT,
			.frame_state = PY_ABSENT, .frame_locals = 72,
			.frame_tlbc_index = PY_ABSENT, .code_name = 120, .code_qualname = 128,
			.code_filename = 112, .code_firstlineno = 68, .code_linetable = 136,
			.code_varnames = 96, .code_instructions = 200, .code_version = 92,
			.code_argcount = 52, .code_flags = 48, .code_tlbc = PY_ABSENT,
			.tlbc_size = PY_ABSENT, .tlbc_entries = PY_ABSENT, .object_refcnt = 0,
			.object_type = 8, .var_size = 16, .bytes_data = 32, .tuple_items = 24,
			.unicode_length = 16, .unicode_hash = 24, .unicode_state = 32,
			.unicode_ascii_data = 40, .unicode_compact_data = 56,
		},
	},
	/* 3.13t: read from the headers of 3.13.0, 3.13.5, 3.13.15, 3.13.18 */
	{
		.first = 0x030d00f0,
		.last = 0x030dffff,
		.debug_offsets = debug_offsets_3_13,
		.n_debug_offsets = sizeof(debug_offsets_3_13) / sizeof(debug_offsets_3_13[0]),
		.debug_size = 584,
		.layout = {
			.frames = PY_FRAMES_CURRENT, .lasti = PY_LASTI_POINTER,
			.lines = PY_LINES_LOCATIONS,
			.flags = PY_FREE_THREADED | PY_COMPACT_UNICODE_40,
			.interpreters_head = 632, .tstate_current = ~0u, .threads_head = 7344,
			.frame_size = 72, .owner_native_first = 3, .state_kind_shift = 2,
			.state_compact_shift = 5, .state_ascii_shift = 6, .interp_next = 7264,
			.tstate_prev = 0, .tstate_next = 8, .tstate_interp = 16,
			.tstate_thread_id = 152, .tstate_native_thread_id = 160,
			.tstate_status = 32, .tstate_frame = 72, .tstate_datastack_chunk = 232,
			.cframe_current_frame = PY_ABSENT, .frame_back = 8, .frame_code = 0,
			.frame_lasti = 56, .frame_owner = 70, .frame_is_entry = PY_ABSENT,
			.frame_state = PY_ABSENT, .frame_locals = 72,
			.frame_tlbc_index = PY_ABSENT, .code_name = 136, .code_qualname = 144,
			.code_filename = 128, .code_firstlineno = 84, .code_linetable = 152,
			.code_varnames = 112, .code_instructions = 216, .code_version = 108,
			.code_argcount = 68, .code_flags = 64, .code_tlbc = PY_ABSENT,
			.tlbc_size = PY_ABSENT, .tlbc_entries = PY_ABSENT, .object_refcnt = 12,
			.object_type = 24, .var_size = 32, .bytes_data = 48, .tuple_items = 40,
			.unicode_length = 32, .unicode_hash = 40, .unicode_state = 48,
			.unicode_ascii_data = 56, .unicode_compact_data = 72,
		},
	},
	/* 3.14: read from the headers of 3.14.8, 3.14.10 */
	{
		.first = 0x030e00f0,
		.last = 0x030effff,
		.debug_offsets = debug_offsets_3_14,
		.n_debug_offsets = sizeof(debug_offsets_3_14) / sizeof(debug_offsets_3_14[0]),
		.debug_size = 760,
		.layout = {
			.frames = PY_FRAMES_CURRENT, .lasti = PY_LASTI_POINTER,
			.lines = PY_LINES_LOCATIONS,
			.flags = PY_TAGGED_REFS | PY_COMPACT_UNICODE_40, .interpreters_head = 808,
			.tstate_current = ~0u, .threads_head = 7344, .frame_size = 80,
			.owner_native_first = 3, .state_kind_shift = 2, .state_compact_shift = 5,
			.state_ascii_shift = 6, .interp_next = 7272, .tstate_prev = 0,
			.tstate_next = 8, .tstate_interp = 16, .tstate_thread_id = 152,
			.tstate_native_thread_id = 160, .tstate_status = 32, .tstate_frame = 72,
			.tstate_datastack_chunk = 232, .cframe_current_frame = PY_ABSENT,
			.frame_back = 8, .frame_code = 0, .frame_lasti = 56, .frame_owner = 74,
			.frame_is_entry = PY_ABSENT, .frame_state = PY_ABSENT, .frame_locals = 80,
			.frame_tlbc_index = PY_ABSENT, .code_name = 120, .code_qualname = 128,
			.code_filename = 112, .code_firstlineno = 68, .code_linetable = 136,
			.code_varnames = 96, .code_instructions = 208, .code_version = 92,
			.code_argcount = 52, .code_flags = 48, .code_tlbc = PY_ABSENT,
			.tlbc_size = PY_ABSENT, .tlbc_entries = PY_ABSENT, .object_refcnt = 0,
			.object_type = 8, .var_size = 16, .bytes_data = 32, .tuple_items = 32,
			.unicode_length = 16, .unicode_hash = 24, .unicode_state = 32,
			.unicode_ascii_data = 40, .unicode_compact_data = 56,
		},
	},
	/* 3.14t: read from the headers of 3.14.8, 3.14.10 */
	{
		.first = 0x030e00f0,
		.last = 0x030effff,
		.debug_offsets = debug_offsets_3_14t,
		.n_debug_offsets = sizeof(debug_offsets_3_14t) / sizeof(debug_offsets_3_14t[0]),
		.debug_size = 760,
		.layout = {
			.frames = PY_FRAMES_CURRENT, .lasti = PY_LASTI_POINTER,
			.lines = PY_LINES_LOCATIONS,
			.flags = PY_FREE_THREADED | PY_TAGGED_REFS | PY_TLBC | PY_COMPACT_UNICODE_40,
			.interpreters_head = 808, .tstate_current = ~0u, .threads_head = 7344,
			.frame_size = 80, .owner_native_first = 3, .state_kind_shift = 8,
			.state_compact_shift = 11, .state_ascii_shift = 12, .interp_next = 7272,
			.tstate_prev = 0, .tstate_next = 8, .tstate_interp = 16,
			.tstate_thread_id = 152, .tstate_native_thread_id = 160,
			.tstate_status = 32, .tstate_frame = 72, .tstate_datastack_chunk = 232,
			.cframe_current_frame = PY_ABSENT, .frame_back = 8, .frame_code = 0,
			.frame_lasti = 56, .frame_owner = 78, .frame_is_entry = PY_ABSENT,
			.frame_state = PY_ABSENT, .frame_locals = 80, .frame_tlbc_index = 72,
			.code_name = 136, .code_qualname = 144, .code_filename = 128,
			.code_firstlineno = 84, .code_linetable = 152, .code_varnames = 112,
			.code_instructions = 232, .code_version = 108, .code_argcount = 68,
			.code_flags = 64, .code_tlbc = 224, .tlbc_size = 0, .tlbc_entries = 8,
			.object_refcnt = 12, .object_type = 24, .var_size = 32, .bytes_data = 48,
			.tuple_items = 48, .unicode_length = 32, .unicode_hash = 40,
			.unicode_state = 48, .unicode_ascii_data = 56, .unicode_compact_data = 72,
		},
	},
	/* 3.15: read from the headers of 3.15.0, 3.15.2 */
	{
		.first = 0x030f00f0,
		.last = 0x030fffff,
		.debug_offsets = debug_offsets_3_15,
		.n_debug_offsets = sizeof(debug_offsets_3_15) / sizeof(debug_offsets_3_15[0]),
		.debug_size = 888,
		.layout = {
			.frames = PY_FRAMES_CURRENT, .lasti = PY_LASTI_POINTER,
			.lines = PY_LINES_LOCATIONS,
			.flags = PY_TAGGED_REFS | PY_COMPACT_UNICODE_40 | PY_BASE_FRAME,
			.interpreters_head = 936, .tstate_current = ~0u, .threads_head = 7336,
			.frame_size = 80, .owner_native_first = 3, .state_kind_shift = 2,
			.state_compact_shift = 5, .state_ascii_shift = 6, .interp_next = 7264,
			.tstate_prev = 0, .tstate_next = 8, .tstate_interp = 16,
			.tstate_thread_id = 176, .tstate_native_thread_id = 184,
			.tstate_status = 32, .tstate_frame = 72, .tstate_datastack_chunk = 256,
			.cframe_current_frame = PY_ABSENT, .frame_back = 8, .frame_code = 0,
			.frame_lasti = 56, .frame_owner = 74, .frame_is_entry = PY_ABSENT,
			.frame_state = PY_ABSENT, .frame_locals = 80,
			.frame_tlbc_index = PY_ABSENT, .code_name = 120, .code_qualname = 128,
			.code_filename = 112, .code_firstlineno = 68, .code_linetable = 136,
			.code_varnames = 96, .code_instructions = 208, .code_version = 92,
			.code_argcount = 52, .code_flags = 48, .code_tlbc = PY_ABSENT,
			.tlbc_size = PY_ABSENT, .tlbc_entries = PY_ABSENT, .object_refcnt = 0,
			.object_type = 8, .var_size = 16, .bytes_data = 32, .tuple_items = 32,
			.unicode_length = 16, .unicode_hash = 24, .unicode_state = 32,
			.unicode_ascii_data = 40, .unicode_compact_data = 56,
		},
	},
	/* 3.15t: read from the headers of 3.15.0, 3.15.2 */
	{
		.first = 0x030f00f0,
		.last = 0x030fffff,
		.debug_offsets = debug_offsets_3_15t,
		.n_debug_offsets = sizeof(debug_offsets_3_15t) / sizeof(debug_offsets_3_15t[0]),
		.debug_size = 888,
		.layout = {
			.frames = PY_FRAMES_CURRENT, .lasti = PY_LASTI_POINTER,
			.lines = PY_LINES_LOCATIONS,
			.flags = PY_FREE_THREADED | PY_TAGGED_REFS | PY_TLBC | PY_COMPACT_UNICODE_40 | PY_BASE_FRAME,
			.interpreters_head = 936, .tstate_current = ~0u, .threads_head = 7336,
			.frame_size = 80, .owner_native_first = 3, .state_kind_shift = 8,
			.state_compact_shift = 11, .state_ascii_shift = 12, .interp_next = 7264,
			.tstate_prev = 0, .tstate_next = 8, .tstate_interp = 16,
			.tstate_thread_id = 176, .tstate_native_thread_id = 184,
			.tstate_status = 32, .tstate_frame = 72, .tstate_datastack_chunk = 256,
			.cframe_current_frame = PY_ABSENT, .frame_back = 8, .frame_code = 0,
			.frame_lasti = 56, .frame_owner = 78, .frame_is_entry = PY_ABSENT,
			.frame_state = PY_ABSENT, .frame_locals = 80, .frame_tlbc_index = 72,
			.code_name = 136, .code_qualname = 144, .code_filename = 128,
			.code_firstlineno = 84, .code_linetable = 152, .code_varnames = 112,
			.code_instructions = 232, .code_version = 108, .code_argcount = 68,
			.code_flags = 64, .code_tlbc = 224, .tlbc_size = 0, .tlbc_entries = 8,
			.object_refcnt = 12, .object_type = 24, .var_size = 32, .bytes_data = 48,
			.tuple_items = 48, .unicode_length = 32, .unicode_hash = 40,
			.unicode_state = 48, .unicode_ascii_data = 56, .unicode_compact_data = 72,
		},
	},
};
/* clang-format on */

const size_t py_tables_n = sizeof(py_tables) / sizeof(py_tables[0]);
