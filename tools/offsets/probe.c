/* SPDX-License-Identifier: MIT */
/* Compiled against the headers of one CPython and run: prints where the fields
 * of struct py_layout are, and where _Py_DebugOffsets tells them, as lines
 * "key value". The only file of this tree that sees CPython's headers.
 * Free-threaded: -DPy_GIL_DISABLED=1. Driven by tables.py.
 */
#define Py_BUILD_CORE 1
#include <Python.h>
#include <frameobject.h>
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#include <internal/pycore_code.h>
#endif
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_interpframe.h>
#include <internal/pycore_debug_offsets.h>
#endif
#if PY_VERSION_HEX >= 0x03090000 /* 3.8 has all of it in pycore_pystate.h */
#include <internal/pycore_runtime.h>
#include <internal/pycore_interp.h>
#endif
#include <internal/pycore_pystate.h>
#if PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_dict.h>
#endif
#if PY_VERSION_HEX >= 0x030a0000
#include <internal/pycore_moduleobject.h>
#endif

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define AT(minor) (PY_VERSION_HEX >= (0x03000000 | (minor) << 16))

#if AT(11)
typedef _PyInterpreterFrame Frame;
#else
typedef PyFrameObject Frame;
#endif

#define NUMBER(key, value) printf("%s %llu\n", key, (unsigned long long)(value))
#define FIELD(key, type, field) NUMBER(key, offsetof(type, field))
/* A field of the part of a frame that the walker reads: frame_size covers it. */
#define FRAME(key, field) \
	do { \
		size_t end_ = offsetof(Frame, field) + sizeof(((Frame *)0)->field); \
		FIELD("frame_" key, Frame, field); \
		if (end_ > frame_end) \
			frame_end = end_; \
	} while (0)

static void runtime(void)
{
	FIELD("interpreters_head", _PyRuntimeState, interpreters.head);
	FIELD("interp_next", PyInterpreterState, next);
#if AT(11)
	FIELD("threads_head", PyInterpreterState, threads.head);
#else
	FIELD("threads_head", PyInterpreterState, tstate_head);
#endif
#if AT(12)
	NUMBER("tstate_current", ~0u); /* a thread-local variable from here on */
#else
	FIELD("tstate_current", _PyRuntimeState, gilstate.tstate_current);
#endif
	/* pywalk.h reads both words at once. */
	_Static_assert(offsetof(_PyRuntimeState, interpreters.main) ==
			       offsetof(_PyRuntimeState, interpreters.head) + 8,
		       "interpreters.main follows head");
}

static void tstate(void)
{
	FIELD("tstate_prev", PyThreadState, prev);
	FIELD("tstate_next", PyThreadState, next);
	FIELD("tstate_interp", PyThreadState, interp);
	FIELD("tstate_thread_id", PyThreadState, thread_id);
#if AT(11)
	FIELD("tstate_native_thread_id", PyThreadState, native_thread_id);
	FIELD("tstate_datastack_chunk", PyThreadState, datastack_chunk);
#endif
#if AT(12)
	FIELD("tstate_status", PyThreadState, _status);
#endif
#if AT(13)
	NUMBER("frames", 3);
	FIELD("tstate_frame", PyThreadState, current_frame);
#elif AT(11)
	NUMBER("frames", 2);
	FIELD("tstate_frame", PyThreadState, cframe);
	FIELD("cframe_current_frame", _PyCFrame, current_frame);
#else
	NUMBER("frames", 1);
	FIELD("tstate_frame", PyThreadState, frame);
#endif
}

static void frame(void)
{
	size_t frame_end = 0;

#if AT(13)
	FRAME("code", f_executable);
	FRAME("lasti", instr_ptr);
#elif AT(11)
	FRAME("code", f_code);
	FRAME("lasti", prev_instr);
#else
	FRAME("code", f_code);
	FRAME("lasti", f_lasti);
#endif
	FRAME("globals", f_globals);
#if AT(11)
	NUMBER("lasti", 3);
	FRAME("back", previous);
	FRAME("owner", owner);
	FIELD("frame_locals", Frame, localsplus);
#else
	NUMBER("lasti", AT(10) ? 2 : 1);
	FRAME("back", f_back);
	FIELD("frame_locals", Frame, f_localsplus);
#endif
#if AT(11) && !AT(12)
	FRAME("is_entry", is_entry);
#elif AT(10) && !AT(11)
	FRAME("state", f_state);
#elif !AT(10)
	FRAME("state", f_executing);
#endif
#if AT(14) && defined(Py_GIL_DISABLED)
	FRAME("tlbc_index", tlbc_index);
#endif
#if AT(14)
	NUMBER("owner_native_first", FRAME_OWNED_BY_INTERPRETER);
#elif AT(12)
	NUMBER("owner_native_first", FRAME_OWNED_BY_CSTACK);
#else
	NUMBER("owner_native_first", 0);
#endif
	NUMBER("frame_size", (frame_end + 7) & ~(size_t)7);
}

static void code(void)
{
	FIELD("code_name", PyCodeObject, co_name);
	FIELD("code_filename", PyCodeObject, co_filename);
	FIELD("code_firstlineno", PyCodeObject, co_firstlineno);
	FIELD("code_argcount", PyCodeObject, co_argcount);
	FIELD("code_flags", PyCodeObject, co_flags);
#if AT(11)
	NUMBER("lines", 3);
	FIELD("code_qualname", PyCodeObject, co_qualname);
	FIELD("code_linetable", PyCodeObject, co_linetable);
	FIELD("code_varnames", PyCodeObject, co_localsplusnames);
	_Static_assert(offsetof(PyCodeObject, co_localspluskinds) == offsetof(PyCodeObject, co_localsplusnames) + 8,
		       "bpf/capture.h takes the one beside the other");
	FIELD("code_instructions", PyCodeObject, co_code_adaptive);
#else
	NUMBER("lines", AT(10) ? 2 : 1);
#if AT(10)
	FIELD("code_linetable", PyCodeObject, co_linetable);
#else
	FIELD("code_linetable", PyCodeObject, co_lnotab);
#endif
	FIELD("code_varnames", PyCodeObject, co_varnames);
	_Static_assert(offsetof(PyCodeObject, co_freevars) == offsetof(PyCodeObject, co_varnames) + 8 &&
			       offsetof(PyCodeObject, co_cellvars) == offsetof(PyCodeObject, co_varnames) + 16,
		       "bpf/capture.h takes them one beside the other");
	FIELD("code_instructions", PyCodeObject, co_code);
#endif
#if AT(12)
	FIELD("code_version", PyCodeObject, co_version);
#endif
#if AT(14) && defined(Py_GIL_DISABLED)
	FIELD("code_tlbc", PyCodeObject, co_tlbc);
	FIELD("tlbc_size", _PyCodeArray, size);
	FIELD("tlbc_entries", _PyCodeArray, entries);
#endif
}

/* The bit of the state word that `field` begins at. */
#define STATE_SHIFT(key, field) \
	do { \
		PyASCIIObject text_; \
		unsigned int word_; \
		memset(&text_, 0, sizeof(text_)); \
		text_.state.field = 1; \
		memcpy(&word_, &text_.state, sizeof(word_)); \
		NUMBER(key, __builtin_ctz(word_)); \
	} while (0)

/* PyDictKeysObject; up to 3.10 no header has it (Objects/dict-common.h). */
static void keys(void)
{
#if AT(11)
	FIELD("keys_log2_index", PyDictKeysObject, dk_log2_index_bytes);
	FIELD("keys_kind", PyDictKeysObject, dk_kind);
	FIELD("keys_n", PyDictKeysObject, dk_nentries);
	FIELD("keys_index", PyDictKeysObject, dk_indices);
	FIELD("values_items", PyDictValues, values);
#else
	struct {
		Py_ssize_t refcnt, size;
		void *lookup;
		Py_ssize_t usable, n;
		char index[8];
	} *from = NULL;

	NUMBER("keys_size", (size_t)&from->size);
	NUMBER("keys_n", (size_t)&from->n);
	NUMBER("keys_index", (size_t)&from->index);
	NUMBER("values_items", 0);
#endif
}

static void attributes(void)
{
#if AT(12)
	FIELD("interp_modules", PyInterpreterState, imports.modules);
#else
	FIELD("interp_modules", PyInterpreterState, modules);
#endif
	FIELD("code_names", PyCodeObject, co_names);
	FIELD("function_name", PyFunctionObject, func_name);
	FIELD("function_qualname", PyFunctionObject, func_qualname);
	FIELD("function_code", PyFunctionObject, func_code);
	FIELD("method_function", PyMethodObject, im_func);
#if AT(10)
	FIELD("module_dict", PyModuleObject, md_dict);
#else
	NUMBER("module_dict", sizeof(PyObject)); /* Objects/moduleobject.c: the first member */
#endif
	FIELD("descriptor_member", PyMemberDescrObject, d_member);
	FIELD("descriptor_method", PyMethodDescrObject, d_method);
	FIELD("type_name", PyTypeObject, tp_name);
	FIELD("type_basic_size", PyTypeObject, tp_basicsize);
	FIELD("type_flags", PyTypeObject, tp_flags);
	FIELD("type_dict", PyTypeObject, tp_dict);
	FIELD("type_dict_offset", PyTypeObject, tp_dictoffset);
	FIELD("type_mro", PyTypeObject, tp_mro);
	FIELD("type_version", PyTypeObject, tp_version_tag);
	FIELD("type_cached_keys", PyHeapTypeObject, ht_cached_keys);
	FIELD("list_items", PyListObject, ob_item);
#if AT(12)
	FIELD("long_head", PyLongObject, long_value.lv_tag);
	FIELD("long_digits", PyLongObject, long_value.ob_digit);
#else
	FIELD("long_head", PyVarObject, ob_size);
	FIELD("long_digits", PyLongObject, ob_digit);
#endif
	FIELD("dict_keys", PyDictObject, ma_keys);
	FIELD("dict_values", PyDictObject, ma_values);
	FIELD("cell_ref", PyCellObject, ob_ref);
}

static void objects(void)
{
#ifdef Py_GIL_DISABLED
	FIELD("object_refcnt", PyObject, ob_ref_local);
#else
	FIELD("object_refcnt", PyObject, ob_refcnt);
#endif
	FIELD("object_type", PyObject, ob_type);
	FIELD("var_size", PyVarObject, ob_size);
	FIELD("bytes_data", PyBytesObject, ob_sval);
	FIELD("tuple_items", PyTupleObject, ob_item);
	FIELD("unicode_length", PyASCIIObject, length);
	FIELD("unicode_hash", PyASCIIObject, hash);
	FIELD("unicode_state", PyASCIIObject, state);
	NUMBER("unicode_ascii_data", sizeof(PyASCIIObject));
	NUMBER("unicode_compact_data", sizeof(PyCompactUnicodeObject));
	STATE_SHIFT("state_kind_shift", kind);
	STATE_SHIFT("state_compact_shift", compact);
	STATE_SHIFT("state_ascii_shift", ascii);
}

/* Where the target's own description tells each field. */
static void debug_offsets(void)
{
#if AT(13)
#define TOLD(key, path) FIELD("debug " key, struct _Py_DebugOffsets, path)
	NUMBER("debug size", sizeof(struct _Py_DebugOffsets));
	TOLD("interpreters_head", runtime_state.interpreters_head);
	TOLD("threads_head", interpreter_state.threads_head);
	TOLD("interp_next", interpreter_state.next);
	TOLD("tstate_prev", thread_state.prev);
	TOLD("tstate_next", thread_state.next);
	TOLD("tstate_interp", thread_state.interp);
	TOLD("tstate_frame", thread_state.current_frame);
	TOLD("tstate_thread_id", thread_state.thread_id);
	TOLD("tstate_native_thread_id", thread_state.native_thread_id);
	TOLD("tstate_datastack_chunk", thread_state.datastack_chunk);
	TOLD("tstate_status", thread_state.status);
	TOLD("frame_back", interpreter_frame.previous);
	TOLD("frame_code", interpreter_frame.executable);
	TOLD("frame_lasti", interpreter_frame.instr_ptr);
	TOLD("frame_locals", interpreter_frame.localsplus);
	TOLD("frame_owner", interpreter_frame.owner);
	TOLD("code_name", code_object.name);
	TOLD("code_qualname", code_object.qualname);
	TOLD("code_filename", code_object.filename);
	TOLD("code_firstlineno", code_object.firstlineno);
	TOLD("code_argcount", code_object.argcount);
	TOLD("code_linetable", code_object.linetable);
	TOLD("code_varnames", code_object.localsplusnames);
	TOLD("code_instructions", code_object.co_code_adaptive);
	TOLD("object_type", pyobject.ob_type);
	TOLD("var_size", tuple_object.ob_size);
	TOLD("tuple_items", tuple_object.ob_item);
	TOLD("bytes_data", bytes_object.ob_sval);
	TOLD("unicode_length", unicode_object.length);
	TOLD("unicode_state", unicode_object.state);
	TOLD("unicode_ascii_data", unicode_object.asciiobject_size);
	TOLD("interp_modules", interpreter_state.imports_modules);
	TOLD("type_name", type_object.tp_name);
	TOLD("type_flags", type_object.tp_flags);
	TOLD("list_items", list_object.ob_item);
	TOLD("long_head", long_object.lv_tag);
	TOLD("long_digits", long_object.ob_digit);
	TOLD("dict_keys", dict_object.ma_keys);
	TOLD("dict_values", dict_object.ma_values);
#if AT(14) && defined(Py_GIL_DISABLED)
	TOLD("frame_tlbc_index", interpreter_frame.tlbc_index);
	TOLD("code_tlbc", code_object.co_tlbc);
#endif
#if AT(15)
	TOLD("unicode_compact_data", unicode_object.compactunicodeobject_size);
	TOLD("type_basic_size", type_object.tp_basicsize);
	TOLD("type_dict_offset", type_object.tp_dictoffset);
	TOLD("type_cached_keys", heap_type_object.ht_cached_keys);
#endif
#endif
}

int main(void)
{
	unsigned int flags = 0;

#ifdef Py_GIL_DISABLED
	flags |= 1;
#endif
#if AT(14)
	flags |= 2;
#if defined(Py_GIL_DISABLED)
	flags |= 4;
#endif
#endif
	if (AT(12))
		flags |= 8;
	NUMBER("version", PY_VERSION_HEX);
#if PY_VERSION_HEX >= 0x030F0000 /* _PyThreadStateImpl.base_frame */
	flags |= 16;
#endif
	NUMBER("flags", flags);
	runtime();
	tstate();
	frame();
	code();
	objects();
	attributes();
	keys();
	debug_offsets();
	return 0;
}
