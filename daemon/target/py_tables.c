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
 * A row of py_tables serves the final releases from `first` to `last`. The rows of one
 * minor version end with its newest final release, whatever that will be: a layout is
 * frozen with the first release candidate. Pre-releases have no row.
 */
#include "target/py_tables.h"

/* clang-format off */

const struct py_table py_tables[] = {
	/* 3.8: read from the headers of 3.8.18 */
	{
		.first = 0x030800f0, .last = 0x0308ffff, .debug_size = 0,
		.frames = PY_FRAMES_OBJECTS, .lasti = PY_LASTI_BYTES,
		.lines = PY_LINES_LNOTAB,
		.flags = 0,
	},
	/* 3.9: read from the headers of 3.9.18 */
	{
		.first = 0x030900f0, .last = 0x0309ffff, .debug_size = 0,
		.frames = PY_FRAMES_OBJECTS, .lasti = PY_LASTI_BYTES,
		.lines = PY_LINES_LNOTAB,
		.flags = 0,
	},
	/* 3.10: read from the headers of 3.10.13 */
	{
		.first = 0x030a00f0, .last = 0x030affff, .debug_size = 0,
		.frames = PY_FRAMES_OBJECTS, .lasti = PY_LASTI_UNITS,
		.lines = PY_LINES_LINETABLE,
		.flags = 0,
	},
	/* 3.11: read from the headers of 3.11.2, 3.11.7 */
	{
		.first = 0x030b00f0, .last = 0x030bffff, .debug_size = 0,
		.frames = PY_FRAMES_CFRAME, .lasti = PY_LASTI_POINTER,
		.lines = PY_LINES_LOCATIONS,
		.flags = 0,
	},
	/* 3.12: read from the headers of 3.12.1 */
	{
		.first = 0x030c00f0, .last = 0x030cffff, .debug_size = 0,
		.frames = PY_FRAMES_CFRAME, .lasti = PY_LASTI_POINTER,
		.lines = PY_LINES_LOCATIONS,
		.flags = PY_COMPACT_UNICODE_40,
	},
	/* 3.13: read from the headers of 3.13.0, 3.13.5, 3.13.15, 3.13.18 */
	{
		.first = 0x030d00f0, .last = 0x030dffff, .debug_size = 584,
		.frames = PY_FRAMES_CURRENT, .lasti = PY_LASTI_POINTER,
		.lines = PY_LINES_LOCATIONS,
		.flags = PY_COMPACT_UNICODE_40,
	},
	/* 3.13t: read from the headers of 3.13.0, 3.13.5, 3.13.15, 3.13.18 */
	{
		.first = 0x030d00f0, .last = 0x030dffff, .debug_size = 584,
		.frames = PY_FRAMES_CURRENT, .lasti = PY_LASTI_POINTER,
		.lines = PY_LINES_LOCATIONS,
		.flags = PY_FREE_THREADED | PY_COMPACT_UNICODE_40,
	},
	/* 3.14: read from the headers of 3.14.8, 3.14.10 */
	{
		.first = 0x030e00f0, .last = 0x030effff, .debug_size = 760,
		.frames = PY_FRAMES_CURRENT, .lasti = PY_LASTI_POINTER,
		.lines = PY_LINES_LOCATIONS,
		.flags = PY_TAGGED_REFS | PY_COMPACT_UNICODE_40,
	},
	/* 3.14t: read from the headers of 3.14.8, 3.14.10 */
	{
		.first = 0x030e00f0, .last = 0x030effff, .debug_size = 760,
		.frames = PY_FRAMES_CURRENT, .lasti = PY_LASTI_POINTER,
		.lines = PY_LINES_LOCATIONS,
		.flags = PY_FREE_THREADED | PY_TAGGED_REFS | PY_TLBC | PY_COMPACT_UNICODE_40,
	},
	/* 3.15: read from the headers of 3.15.0, 3.15.2 */
	{
		.first = 0x030f00f0, .last = 0x030fffff, .debug_size = 888,
		.frames = PY_FRAMES_CURRENT, .lasti = PY_LASTI_POINTER,
		.lines = PY_LINES_LOCATIONS,
		.flags = PY_TAGGED_REFS | PY_COMPACT_UNICODE_40 | PY_BASE_FRAME,
	},
	/* 3.15t: read from the headers of 3.15.0, 3.15.2 */
	{
		.first = 0x030f00f0, .last = 0x030fffff, .debug_size = 888,
		.frames = PY_FRAMES_CURRENT, .lasti = PY_LASTI_POINTER,
		.lines = PY_LINES_LOCATIONS,
		.flags = PY_FREE_THREADED | PY_TAGGED_REFS | PY_TLBC | PY_COMPACT_UNICODE_40 | PY_BASE_FRAME,
	},
};

/* The members of struct py_layout in each: 3.8 3.9 3.10 3.11 3.12 3.13 3.13t 3.14 3.14t 3.15 3.15t */
const struct py_member py_offsets[] = {
	ROW(interpreters_head,          32,   32,   32,   40,   40,  632,  632,  808,  808,  936,  936),
	ROW(tstate_current,           1368,  568,  568,  576,   -1,   -1,   -1,   -1,   -1,   -1,   -1),
	ROW(threads_head,                8,    8,    8,   16,   72, 7344, 7344, 7344, 7344, 7336, 7336),
	ROW(frame_size,                120,  120,  112,   72,   72,   72,   72,   80,   80,   80,   80),
	ROW(owner_native_first,          0,    0,    0,    0,    3,    3,    3,    3,    3,    3,    3),
	ROW(state_kind_shift,            2,    2,    2,    2,    2,    2,    2,    2,    8,    2,    8),
	ROW(state_compact_shift,         5,    5,    5,    5,    5,    5,    5,    5,   11,    5,   11),
	ROW(state_ascii_shift,           6,    6,    6,    6,    6,    6,    6,    6,   12,    6,   12),
	ROW(interp_next,                 0,    0,    0,    0,    0, 7264, 7264, 7272, 7272, 7264, 7264),
	ROW(tstate_prev,                 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0),
	ROW(tstate_next,                 8,    8,    8,    8,    8,    8,    8,    8,    8,    8,    8),
	ROW(tstate_interp,              16,   16,   16,   16,   16,   16,   16,   16,   16,   16,   16),
	ROW(tstate_thread_id,          176,  176,  176,  152,  136,  152,  152,  152,  152,  176,  176),
	ROW(tstate_native_thread_id,    -1,   -1,   -1,  160,  144,  160,  160,  160,  160,  184,  184),
	ROW(tstate_status,              -1,   -1,   -1,   -1,   24,   32,   32,   32,   32,   32,   32),
	ROW(tstate_frame,               24,   24,   24,   56,   56,   72,   72,   72,   72,   72,   72),
	ROW(tstate_datastack_chunk,     -1,   -1,   -1,  296,  232,  232,  232,  232,  232,  256,  256),
	ROW(cframe_current_frame,       -1,   -1,   -1,    8,    0,   -1,   -1,   -1,   -1,   -1,   -1),
	ROW(frame_back,                 24,   24,   24,   48,    8,    8,    8,    8,    8,    8,    8),
	ROW(frame_code,                 32,   32,   32,   32,    0,    0,    0,    0,    0,    0,    0),
	ROW(frame_globals,              48,   48,   48,    8,   24,   24,   24,   24,   24,   24,   24),
	ROW(frame_lasti,               104,  104,   96,   56,   56,   56,   56,   56,   56,   56,   56),
	ROW(frame_owner,                -1,   -1,   -1,   69,   70,   70,   70,   74,   78,   74,   78),
	ROW(frame_is_entry,             -1,   -1,   -1,   68,   -1,   -1,   -1,   -1,   -1,   -1,   -1),
	ROW(frame_state,               116,  116,  108,   -1,   -1,   -1,   -1,   -1,   -1,   -1,   -1),
	ROW(frame_locals,              360,  360,  352,   72,   72,   72,   72,   80,   80,   80,   80),
	ROW(frame_tlbc_index,           -1,   -1,   -1,   -1,   -1,   -1,   -1,   -1,   72,   -1,   72),
	ROW(code_name,                 112,  112,  112,  120,  120,  120,  136,  120,  136,  120,  136),
	ROW(code_qualname,              -1,   -1,   -1,  128,  128,  128,  144,  128,  144,  128,  144),
	ROW(code_filename,             104,  104,  104,  112,  112,  112,  128,  112,  128,  112,  128),
	ROW(code_firstlineno,           40,   40,   40,   72,   68,   68,   84,   68,   84,   68,   84),
	ROW(code_linetable,            120,  120,  120,  136,  136,  136,  152,  136,  152,  136,  152),
	ROW(code_varnames,              72,   72,   72,   96,   96,   96,  112,   96,  112,   96,  112),
	ROW(code_instructions,          48,   48,   48,  184,  192,  200,  216,  208,  232,  208,  232),
	ROW(code_version,               -1,   -1,   -1,   -1,   92,   92,  108,   92,  108,   92,  108),
	ROW(code_argcount,              16,   16,   16,   56,   52,   52,   68,   52,   68,   52,   68),
	ROW(code_flags,                 36,   36,   36,   48,   48,   48,   64,   48,   64,   48,   64),
	ROW(code_tlbc,                  -1,   -1,   -1,   -1,   -1,   -1,   -1,   -1,  224,   -1,  224),
	ROW(tlbc_size,                  -1,   -1,   -1,   -1,   -1,   -1,   -1,   -1,    0,   -1,    0),
	ROW(tlbc_entries,               -1,   -1,   -1,   -1,   -1,   -1,   -1,   -1,    8,   -1,    8),
	ROW(object_refcnt,               0,    0,    0,    0,    0,    0,   12,    0,   12,    0,   12),
	ROW(object_type,                 8,    8,    8,    8,    8,    8,   24,    8,   24,    8,   24),
	ROW(var_size,                   16,   16,   16,   16,   16,   16,   32,   16,   32,   16,   32),
	ROW(bytes_data,                 32,   32,   32,   32,   32,   32,   48,   32,   48,   32,   48),
	ROW(tuple_items,                24,   24,   24,   24,   24,   24,   40,   32,   48,   32,   48),
	ROW(unicode_length,             16,   16,   16,   16,   16,   16,   32,   16,   32,   16,   32),
	ROW(unicode_hash,               24,   24,   24,   24,   24,   24,   40,   24,   40,   24,   40),
	ROW(unicode_state,              32,   32,   32,   32,   32,   32,   48,   32,   48,   32,   48),
	ROW(unicode_ascii_data,         48,   48,   48,   48,   40,   40,   56,   40,   56,   40,   56),
	ROW(unicode_compact_data,       72,   72,   72,   72,   56,   56,   72,   56,   72,   56,   72),
	ROW(cell_ref,                   16,   16,   16,   16,   16,   16,   32,   16,   32,   16,   32),
	ROW(interp_modules,             56,  856,  856,  888,  944, 7656, 7664, 7688, 7712, 7592, 7592),
	ROW(code_names,                 64,   64,   64,   32,   32,   32,   48,   32,   48,   32,   48),
	ROW(function_name,              64,   64,   32,   32,   32,   32,   48,   32,   48,   32,   48),
	ROW(function_qualname,         104,  104,   40,   40,   40,   40,   56,   40,   56,   40,   56),
	ROW(function_code,              16,   16,   48,   48,   48,   48,   64,   48,   64,   48,   64),
	ROW(method_function,            16,   16,   16,   16,   16,   16,   32,   16,   32,   16,   32),
	ROW(module_dict,                16,   16,   16,   16,   16,   16,   32,   16,   32,   16,   32),
	ROW(descriptor_member,          40,   40,   40,   40,   40,   40,   56,   40,   56,   40,   56),
	ROW(descriptor_method,          40,   40,   40,   40,   40,   40,   56,   40,   56,   40,   56),
	ROW(type_name,                  24,   24,   24,   24,   24,   24,   40,   24,   40,   24,   40),
	ROW(type_basic_size,            32,   32,   32,   32,   32,   32,   48,   32,   48,   32,   48),
	ROW(type_flags,                168,  168,  168,  168,  168,  168,  184,  168,  184,  168,  184),
	ROW(type_dict,                 264,  264,  264,  264,  264,  264,  280,  264,  280,  264,  280),
	ROW(type_dict_offset,          288,  288,  288,  288,  288,  288,  304,  288,  304,  288,  304),
	ROW(type_mro,                  344,  344,  344,  344,  344,  344,  360,  344,  360,  344,  360),
	ROW(type_version,              384,  384,  384,  384,  384,  384,  400,  384,  400,  384,  400),
	ROW(type_cached_keys,          872,  864,  872,  872,  880,  880,  896,  880,  896,  888,  904),
	ROW(list_items,                 24,   24,   24,   24,   24,   24,   40,   24,   40,   24,   40),
	ROW(long_head,                  16,   16,   16,   16,   16,   16,   32,   16,   32,   16,   32),
	ROW(long_digits,                24,   24,   24,   24,   24,   24,   40,   24,   40,   24,   40),
	ROW(dict_keys,                  32,   32,   32,   32,   32,   32,   48,   32,   48,   32,   48),
	ROW(dict_values,                40,   40,   40,   40,   40,   40,   56,   40,   56,   40,   56),
	ROW(values_items,                0,    0,    0,    0,    0,    8,    8,    8,    8,    8,    8),
	ROW(keys_size,                   8,    8,    8,   -1,   -1,   -1,   -1,   -1,   -1,   -1,   -1),
	ROW(keys_log2_index,            -1,   -1,   -1,    9,    9,    9,    9,    9,    9,    9,    9),
	ROW(keys_kind,                  -1,   -1,   -1,   10,   10,   10,   10,   10,   10,   10,   10),
	ROW(keys_n,                     32,   32,   32,   24,   24,   24,   24,   24,   24,   24,   24),
	ROW(keys_index,                 40,   40,   40,   32,   32,   32,   32,   32,   32,   32,   32),
};

/* Where _Py_DebugOffsets of each has them. */
const struct py_member py_debug_offsets[] = {
	ROW(interpreters_head,           0,    0,    0,    0,    0,   40,   40,   40,   40,   40,   40),
	ROW(threads_head,                0,    0,    0,    0,    0,   72,   72,   72,   72,   72,   72),
	ROW(interp_next,                 0,    0,    0,    0,    0,   64,   64,   64,   64,   64,   64),
	ROW(tstate_prev,                 0,    0,    0,    0,    0,  160,  160,  184,  184,  184,  184),
	ROW(tstate_next,                 0,    0,    0,    0,    0,  168,  168,  192,  192,  192,  192),
	ROW(tstate_interp,               0,    0,    0,    0,    0,  176,  176,  200,  200,  200,  200),
	ROW(tstate_frame,                0,    0,    0,    0,    0,  184,  184,  208,  208,  208,  208),
	ROW(tstate_thread_id,            0,    0,    0,    0,    0,  192,  192,  216,  216,  240,  240),
	ROW(tstate_native_thread_id,     0,    0,    0,    0,    0,  200,  200,  224,  224,  248,  248),
	ROW(tstate_datastack_chunk,      0,    0,    0,    0,    0,  208,  208,  232,  232,  256,  256),
	ROW(tstate_status,               0,    0,    0,    0,    0,  216,  216,  240,  240,  264,  264),
	ROW(frame_back,                  0,    0,    0,    0,    0,  232,  232,  256,  256,  320,  320),
	ROW(frame_code,                  0,    0,    0,    0,    0,  240,  240,  264,  264,  328,  328),
	ROW(frame_lasti,                 0,    0,    0,    0,    0,  248,  248,  272,  272,  336,  336),
	ROW(frame_locals,                0,    0,    0,    0,    0,  256,  256,  280,  280,  344,  344),
	ROW(frame_owner,                 0,    0,    0,    0,    0,  264,  264,  288,  288,  352,  352),
	ROW(code_name,                   0,    0,    0,    0,    0,  288,  288,  328,  328,  392,  392),
	ROW(code_qualname,               0,    0,    0,    0,    0,  296,  296,  336,  336,  400,  400),
	ROW(code_filename,               0,    0,    0,    0,    0,  280,  280,  320,  320,  384,  384),
	ROW(code_firstlineno,            0,    0,    0,    0,    0,  312,  312,  352,  352,  416,  416),
	ROW(code_argcount,               0,    0,    0,    0,    0,  320,  320,  360,  360,  424,  424),
	ROW(code_linetable,              0,    0,    0,    0,    0,  304,  304,  344,  344,  408,  408),
	ROW(code_varnames,               0,    0,    0,    0,    0,  328,  328,  368,  368,  432,  432),
	ROW(code_instructions,           0,    0,    0,    0,    0,  344,  344,  384,  384,  448,  448),
	ROW(object_type,                 0,    0,    0,    0,    0,  360,  360,  408,  408,  472,  472),
	ROW(var_size,                    0,    0,    0,    0,    0,  416,  416,  464,  464,  560,  560),
	ROW(tuple_items,                 0,    0,    0,    0,    0,  408,  408,  456,  456,  552,  552),
	ROW(bytes_data,                  0,    0,    0,    0,    0,  528,  528,  608,  608,  704,  704),
	ROW(unicode_length,              0,    0,    0,    0,    0,  552,  552,  632,  632,  728,  728),
	ROW(unicode_state,               0,    0,    0,    0,    0,  544,  544,  624,  624,  720,  720),
	ROW(unicode_ascii_data,          0,    0,    0,    0,    0,  560,  560,  640,  640,  736,  736),
	ROW(interp_modules,              0,    0,    0,    0,    0,   88,   88,   96,   96,   96,   96),
	ROW(type_name,                   0,    0,    0,    0,    0,  376,  376,  424,  424,  488,  488),
	ROW(type_flags,                  0,    0,    0,    0,    0,  392,  392,  440,  440,  504,  504),
	ROW(list_items,                  0,    0,    0,    0,    0,  432,  432,  480,  480,  576,  576),
	ROW(long_head,                   0,    0,    0,    0,    0,  496,  496,  576,  576,  672,  672),
	ROW(long_digits,                 0,    0,    0,    0,    0,  504,  504,  584,  584,  680,  680),
	ROW(dict_keys,                   0,    0,    0,    0,    0,  456,  456,  536,  536,  632,  632),
	ROW(dict_values,                 0,    0,    0,    0,    0,  464,  464,  544,  544,  640,  640),
	ROW(frame_tlbc_index,            0,    0,    0,    0,    0,    0,    0,    0,  304,    0,  368),
	ROW(code_tlbc,                   0,    0,    0,    0,    0,    0,    0,    0,  392,    0,  456),
	ROW(unicode_compact_data,        0,    0,    0,    0,    0,    0,    0,    0,    0,  744,  744),
	ROW(type_basic_size,             0,    0,    0,    0,    0,    0,    0,    0,    0,  512,  512),
	ROW(type_dict_offset,            0,    0,    0,    0,    0,    0,    0,    0,    0,  520,  520),
	ROW(type_cached_keys,            0,    0,    0,    0,    0,    0,    0,    0,    0,  536,  536),
};
/* clang-format on */

const size_t py_tables_n = sizeof(py_tables) / sizeof(py_tables[0]);
const size_t py_offsets_n = sizeof(py_offsets) / sizeof(py_offsets[0]);
const size_t py_debug_offsets_n = sizeof(py_debug_offsets) / sizeof(py_debug_offsets[0]);
const char py_versions[] = "3.8 to 3.15";
