/* SPDX-License-Identifier: MIT */
/* The layout of one build of CPython: everything that cprofd knows of a version. One value per process image, which
 * daemon/target/ makes from _Py_DebugOffsets of the target (3.13+) or from generated tables, and the engine writes
 * into the sampler's `images` map.
 *
 * All offsets are bytes from the start of the named struct. PY_ABSENT: this version has no such field. */
#pragma once

#include "host.h"

#define PY_ABSENT 0xffffu

/* How a thread state leads to its innermost frame. */
enum py_frames {
	PY_FRAMES_OBJECTS = 1,  /* 3.8-3.10: PyFrameObject chain, one per call */
	PY_FRAMES_CFRAME = 2,   /* 3.11, 3.12: tstate->cframe->current_frame */
	PY_FRAMES_CURRENT = 3,  /* 3.13+: tstate->current_frame */
};

/* What f_lasti / prev_instr / instr_ptr means. */
enum py_lasti {
	PY_LASTI_BYTES = 1,     /* 3.8, 3.9: int, byte offset into co_code */
	PY_LASTI_UNITS = 2,     /* 3.10: int, in 2-byte code units */
	PY_LASTI_POINTER = 3,   /* 3.11+: pointer into co_code_adaptive (or a tlbc copy) */
};

/* Formats of line tables (Objects/lnotab_notes.txt, Objects/locations.md). */
enum py_lines {
	PY_LINES_LNOTAB = 1,    /* 3.8, 3.9: co_lnotab */
	PY_LINES_LINETABLE = 2, /* 3.10: PEP 626 */
	PY_LINES_LOCATIONS = 3, /* 3.11+: PEP 657 */
};

/* py_layout.flags */
#define PY_FREE_THREADED 1u /* Py_GIL_DISABLED */
#define PY_TAGGED_REFS 2u   /* f_executable is a _PyStackRef (3.14+): mask the low 3 bits */
#define PY_TLBC 4u          /* frames name a per-thread copy of the bytecode (3.14t+) */
#define PY_COMPACT_UNICODE_40 8u /* PyASCIIObject without wstr (3.12+); only informative */
#define PY_BASE_FRAME 16u   /* the outermost shim is the thread state's own and no eval loop's (3.15+) */

/* tp_flags (Include/object.h): subclasses of int, of str */
#define PY_TYPE_LONG (1u << 24)
#define PY_TYPE_TEXT (1u << 28)

/* X(group, field): every offset, in order; u16 each. The generator of tables (tools/offsets) and the output of
 * `check -v` iterate over the same list.
 *  runtime: _PyRuntimeState;   interp: PyInterpreterState;  tstate: PyThreadState
 *  cframe: _PyCFrame (3.11/3.12); frame: PyFrameObject or _PyInterpreterFrame
 *  code: PyCodeObject;  object/var/bytes/tuple/unicode...: as named;
 *  descriptor: PyDescrObject and the structs that start with it;
 *  keys: PyDictKeysObject;  values: PyDictValues
 *  tlbc: _PyCodeArray of 3.14t+ */
/* clang-format off */
#define PY_LAYOUT_FIELDS(X) \
	X(interp, next)            /* PyInterpreterState.next */ \
	X(tstate, prev) \
	X(tstate, next) \
	X(tstate, interp) \
	X(tstate, thread_id)       /* unsigned long: pthread_self() */ \
	X(tstate, native_thread_id)/* 3.11+ */ \
	X(tstate, status)          /* 3.12+: _status bit field, u32 */ \
	X(tstate, frame)           /* 3.8-3.10 frame; 3.11/3.12 cframe; 3.13+ current_frame */ \
	X(tstate, datastack_chunk) /* 3.11+: _PyStackChunk *, newest chunk of the data stack */ \
	X(cframe, current_frame)   /* 3.11/3.12 */ \
	X(frame, back)             /* f_back, or previous */ \
	X(frame, code)             /* f_code, or f_executable */ \
	X(frame, globals)          /* f_globals */ \
	X(frame, lasti)            /* f_lasti, prev_instr or instr_ptr */ \
	X(frame, owner)            /* 3.12+: u8; 3.11: owner too */ \
	X(frame, is_entry)         /* 3.11: u8 */ \
	X(frame, state)            /* 3.10: f_state (s8); 3.8/3.9: f_executing (u8) */ \
	X(frame, locals)           /* f_localsplus / localsplus */ \
	X(frame, tlbc_index)       /* 3.14t+: s32 */ \
	X(code, name) \
	X(code, qualname)          /* 3.11+ */ \
	X(code, filename) \
	X(code, firstlineno)       /* int */ \
	X(code, linetable)         /* PyBytesObject *: co_lnotab or co_linetable */ \
	X(code, varnames)          /* tuple: co_varnames, or co_localsplusnames from 3.11 */ \
	X(code, instructions)      /* <=3.10: co_code, a PyBytesObject *; 3.11+: co_code_adaptive, inline */ \
	X(code, version)           /* 3.12+: co_version, u32, unique until it wraps; PY_ABSENT before */ \
	X(code, argcount)          /* int */ \
	X(code, flags)             /* int co_flags */ \
	X(code, tlbc)              /* 3.14t+: co_tlbc, _PyCodeArray * */ \
	X(tlbc, size)              /* Py_ssize_t */ \
	X(tlbc, entries)           /* char *[] */ \
	X(object, refcnt)          /* Py_ssize_t; 3.12+: low 32 bits count; free-threaded: ob_ref_local */ \
	X(object, type) \
	X(var, size)               /* ob_size of PyVarObject */ \
	X(bytes, data) \
	X(tuple, items) \
	X(unicode, length)         /* Py_ssize_t, code points */ \
	X(unicode, hash) \
	X(unicode, state)          /* u32: bit field, see state_kind_shift in daemon/target */ \
	X(unicode, ascii_data)     /* sizeof(PyASCIIObject) */ \
	X(unicode, compact_data)   /* sizeof(PyCompactUnicodeObject) */ \
	X(cell, ref) \
	/* From here on: what only daemon/python reads, for the values of locals and for call sites. */ \
	X(interp, modules)         /* the dictionary of all modules: modules, or imports.modules from 3.12 */ \
	X(code, names)             /* tuple */ \
	X(function, name) \
	X(function, qualname) \
	X(function, code) \
	X(method, function)        /* im_func of a bound method */ \
	X(module, dict)            /* md_dict */ \
	X(descriptor, member)      /* PyMemberDescrObject: PyMemberDef * */ \
	X(descriptor, method)      /* PyMethodDescrObject: PyMethodDef * */ \
	X(type, name)              /* tp_name: const char * */ \
	X(type, basic_size)        /* Py_ssize_t */ \
	X(type, flags)             /* tp_flags: u64 */ \
	X(type, dict) \
	X(type, dict_offset)       /* Py_ssize_t */ \
	X(type, mro) \
	X(type, version)           /* tp_version_tag: u32 */ \
	X(type, cached_keys)       /* PyHeapTypeObject.ht_cached_keys */ \
	X(list, items)             /* PyObject ** */ \
	X(long, head)              /* ob_size; from 3.12 lv_tag */ \
	X(long, digits)            /* u32[] */ \
	X(dict, keys)              /* PyDictKeysObject * */ \
	X(dict, values)            /* PyObject **, or PyDictValues * from 3.11 */ \
	X(values, items)           /* PyDictValues.values; 0 before 3.11 */ \
	X(keys, size)              /* 3.8-3.10: dk_size, slots of the index */ \
	X(keys, log2_index)        /* 3.11+: u8 dk_log2_index_bytes */ \
	X(keys, kind)              /* 3.11+: u8 dk_kind */ \
	X(keys, n)                 /* dk_nentries */ \
	X(keys, index)             /* dk_indices; the entries follow it */
/* clang-format on */

struct py_layout {
	__u32 version;           /* 0x030b07 = 3.11.7; the low byte is the micro version */
	__u8 frames;             /* enum py_frames */
	__u8 lasti;              /* enum py_lasti */
	__u8 lines;              /* enum py_lines */
	__u8 flags;              /* PY_FREE_THREADED ... */
	__u32 interpreters_head; /* in _PyRuntimeState: interpreters.head */
	__u32 tstate_current;    /* in _PyRuntimeState: gilstate.tstate_current, 3.8-3.11; else ~0u */
	__u32 threads_head;      /* in PyInterpreterState: tstate_head or threads.head */
	__u32 frame_size;        /* bytes of the frame struct that the walker needs, <= 128 */
	__u8 owner_native_first; /* 3.12+: frames whose owner >= this are shims (CSTACK 3; 3.14 INTERPRETER 3) */
	__u8 state_kind_shift;   /* unicode state: (state >> shift) & 7 = 1, 2, 4 */
	__u8 state_compact_shift;
	__u8 state_ascii_shift;
	/* Sizes that the walker asserts; the bytecode of 3.11+ is ob_size 2-byte units. */
#define PY_LAYOUT_MEMBER(group, field) __u16 group##_##field;
	PY_LAYOUT_FIELDS(PY_LAYOUT_MEMBER)
#undef PY_LAYOUT_MEMBER
};

#ifndef __bpf__
extern const char py_versions[]; /* "3.8 to 3.15": the supported versions */
#endif
