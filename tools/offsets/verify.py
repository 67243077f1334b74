#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Asks living interpreters whether the tables of CPython's layouts are true.

    verify.py [PYTHON...]     without any: what tests/live/pythons.sh finds

py_layout.c is loaded into each interpreter; every offset is then used to read
the interpreter's own memory, and what is read is compared with what Python
says: code.co_name, sys._getframe(), threading.get_ident()... The truth comes
from the interpreter, never from headers or from this project.

Exit: 0 all true, 1 not, 2 no interpreter was found. Runs under 3.8 and later.
"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))


# --- inside an interpreter ---

def inside(library):
    import ctypes
    import re
    import struct
    import threading
    import types

    counts = {"checks": 0, "wrong": 0}
    version = sys.version_info[:2]
    absent = 0xffff

    def check(name, got, expected):
        counts["checks"] += 1
        if got != expected:
            counts["wrong"] += 1
            if counts["wrong"] <= 20:
                print("  wrong %s: read %.60r, Python says %.60r" % (name, got, expected))

    # struct py_layout, from the header that defines it
    with open(os.path.join(TREE, "include/cprofd/pylayout.h")) as f:
        names = ["_".join(m) for m in re.findall(r"\bX\((\w+), (\w+)\)", f.read())]
    names = [n for n in names if n != "group_field"]

    class Layout(ctypes.Structure):
        _fields_ = ([("version", ctypes.c_uint32)] +
                    [(n, ctypes.c_uint8) for n in ("frames", "lasti", "lines", "flags")] +
                    [(n, ctypes.c_uint32) for n in ("interpreters_head", "tstate_current",
                                                    "threads_head", "frame_size")] +
                    [(n, ctypes.c_uint8) for n in ("owner_native_first", "state_kind_shift",
                                                   "state_compact_shift", "state_ascii_shift")] +
                    [(n, ctypes.c_uint16) for n in names])

    def read(address, format):
        return struct.unpack(format, ctypes.string_at(address, struct.calcsize(format)))[0]

    def pointer(address):
        return read(address, "<Q")

    lib = ctypes.CDLL(library)
    size = ctypes.c_uint32.in_dll(lib, "verify_layout_size").value
    check("sizeof(struct py_layout)", ctypes.sizeof(Layout), size)
    import sysconfig
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    layout = Layout()
    err = lib.py_layout__from_table(ctypes.c_uint32(sys.hexversion), ctypes.c_bool(free_threaded),
                                    ctypes.byref(layout))
    check("py_layout__from_table", err, 0)
    if err:
        return 1
    check("version", layout.version, sys.hexversion >> 8)
    check("free-threaded", bool(layout.flags & 1), free_threaded)

    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    told = Layout()
    err = lib.py_layout__from_debug_offsets(ctypes.c_void_p(runtime), ctypes.c_size_t(1024),
                                            ctypes.byref(told))
    if version >= (3, 13):
        check("py_layout__from_debug_offsets", err, 0)
        for name, _ in Layout._fields_:
            check("_Py_DebugOffsets and table: " + name, getattr(told, name), getattr(layout, name))
    else:
        check("py_layout__from_debug_offsets", err, -8)  # ENOEXEC

    # Code objects of the standard library. Not this file's: those run, and rewrite themselves.
    def codes_of(code):
        yield code
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                yield from codes_of(constant)

    codes = []
    for module in (os, re, struct, threading, types, tempfile, subprocess, sysconfig):
        for value in vars(module).values():
            if isinstance(value, types.FunctionType):
                codes.extend(codes_of(value.__code__))
            elif isinstance(value, type):
                for method in vars(value).values():
                    if isinstance(method, types.FunctionType):
                        codes.extend(codes_of(method.__code__))
    codes = list({id(c): c for c in codes}.values())
    versions = []
    for code in codes:
        at = id(code)
        check("object.type", pointer(at + layout.object_type), id(types.CodeType))
        check("code.name", pointer(at + layout.code_name), id(code.co_name))
        check("code.filename", pointer(at + layout.code_filename), id(code.co_filename))
        check("code.firstlineno", read(at + layout.code_firstlineno, "<i"), code.co_firstlineno)
        check("code.argcount", read(at + layout.code_argcount, "<i"), code.co_argcount)
        check("code.flags", read(at + layout.code_flags, "<i"), code.co_flags)
        lines = code.co_linetable if version >= (3, 10) else code.co_lnotab
        check("code.linetable", pointer(at + layout.code_linetable), id(lines))
        check("var.size of a bytes", read(id(lines) + layout.var_size, "<q"), len(lines))
        check("bytes.data", ctypes.string_at(id(lines) + layout.bytes_data, len(lines)), lines)
        variables = pointer(at + layout.code_varnames)
        n = read(variables + layout.var_size, "<q")
        items = [pointer(variables + layout.tuple_items + 8 * i) for i in range(n)]
        if version >= (3, 11):
            check("code.qualname", pointer(at + layout.code_qualname), id(code.co_qualname))
            names_told = set(code.co_varnames + code.co_cellvars + code.co_freevars)
            check("code.varnames", {ctypes.cast(i, ctypes.py_object).value for i in items}, names_told)
            adaptive = code._co_code_adaptive
            check("var.size of a code", 2 * read(at + layout.var_size, "<i"), len(adaptive))
            check("code.instructions", ctypes.string_at(at + layout.code_instructions, len(adaptive)),
                  adaptive)
        else:
            check("code.varnames", variables, id(code.co_varnames))
            check("tuple.items", items, [id(name) for name in code.co_varnames])
            check("code.instructions", pointer(at + layout.code_instructions), id(code.co_code))
        if layout.code_version != absent:
            versions.append(read(at + layout.code_version, "<I"))
    given = [v for v in versions if v]
    check("code.version twice", len(set(given)), len(given))
    if versions and not free_threaded:
        check("code.version given", len(given) > 0, True)

    # Strings
    for text in ("", "a", "plain ascii", "latin \xe9", "greek \u03bb", "beyond \U0001f600"):
        text = "".join(list(text))
        hash(text)
        at, widest = id(text), max(map(ord, text), default=0)
        kind = 1 if widest < 0x100 else 2 if widest < 0x10000 else 4
        state = read(at + layout.unicode_state, "<I")
        check("unicode.length", read(at + layout.unicode_length, "<q"), len(text))
        check("unicode.hash", read(at + layout.unicode_hash, "<q"), hash(text))
        check("unicode kind", state >> layout.state_kind_shift & 7, kind)
        check("unicode compact", state >> layout.state_compact_shift & 1, 1)
        check("unicode ascii", state >> layout.state_ascii_shift & 1, int(widest < 0x80))
        data = layout.unicode_ascii_data if widest < 0x80 else layout.unicode_compact_data
        codec = {1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind]
        check("unicode data", ctypes.string_at(at + data, kind * len(text)), text.encode(codec))

    thing, keep = object(), []
    before = read(id(thing) + layout.object_refcnt, "<I")
    keep.extend([thing] * 5)
    check("object.refcnt", read(id(thing) + layout.object_refcnt, "<I") - before, 5)

    # What values of locals and call sites are read by
    def text_at(address):
        return ctypes.string_at(pointer(address)).decode()

    class Plain:
        def method(self):
            pass

    class Slotted:
        __slots__ = ("slot",)

    plain, function = Plain(), Plain.method
    check("function.name", pointer(id(function) + layout.function_name), id(function.__name__))
    check("function.qualname", pointer(id(function) + layout.function_qualname), id(function.__qualname__))
    check("function.code", pointer(id(function) + layout.function_code), id(function.__code__))
    bound = plain.method
    check("method.function", pointer(id(bound) + layout.method_function), id(function))
    check("module.dict", pointer(id(sys) + layout.module_dict), id(vars(sys)))
    join, slot = str.join, Slotted.slot  # PyMethodDef and PyMemberDef begin with the name
    check("descriptor.method", text_at(pointer(id(join) + layout.descriptor_method)), "join")
    check("descriptor.member", text_at(pointer(id(slot) + layout.descriptor_member)), "slot")
    for code in codes:
        check("code.names", pointer(id(code) + layout.code_names), id(code.co_names))
    for kind in (dict, Plain, Slotted):
        check("type.name", text_at(id(kind) + layout.type_name), kind.__name__)
        check("type.basic_size", read(id(kind) + layout.type_basic_size, "<q"), kind.__basicsize__)
        check("type.flags", read(id(kind) + layout.type_flags, "<Q"), kind.__flags__)
        check("type.dict_offset", read(id(kind) + layout.type_dict_offset, "<q"), kind.__dictoffset__)
        check("type.mro", pointer(id(kind) + layout.type_mro), id(kind.__mro__))
    inside_plain = ctypes.cast(pointer(id(Plain) + layout.type_dict), ctypes.py_object).value
    check("type.dict", inside_plain == dict(Plain.__dict__), True)
    versions = []
    for value in range(3):
        Plain.changed = value
        [getattr(plain, "changed") for _ in range(3)]
        versions.append(read(id(Plain) + layout.type_version, "<I"))
    check("type.version changes", len(set(versions)), 3)
    things = [object(), object()]
    check("list.items", pointer(pointer(id(things) + layout.list_items) + 8), id(things[1]))
    for number in (1, 12345, (3 << 30) + 77):
        digits = (number.bit_length() + 29) // 30
        head = read(id(number) + layout.long_head, "<q")
        check("long.head", head >> 3 if version >= (3, 12) else head, digits)
        check("long.digits", [read(id(number) + layout.long_digits + 4 * i, "<I") for i in range(digits)],
              [number >> 30 * i & (1 << 30) - 1 for i in range(digits)])

    def entries_of(keys):
        """(address of the first entry, bytes of one, where its key is)"""
        if layout.keys_size != absent:
            slots = pointer(keys + layout.keys_size)
            return keys + layout.keys_index + slots * (1 if slots <= 0xff else 2), 24, 8
        wide = not read(keys + layout.keys_kind, "<B")
        return keys + layout.keys_index + (1 << read(keys + layout.keys_log2_index, "<B")), 24 if wide else 16, 8 * wide

    for table in ({"a": things, "b": plain}, {i: str(i) + "x" for i in range(1, 300)}):
        keys = pointer(id(table) + layout.dict_keys)
        check("keys.n", pointer(keys + layout.keys_n), len(table))
        check("dict.values of its own", pointer(id(table) + layout.dict_values), 0)
        at, size, key_at = entries_of(keys)
        check("entries", [(pointer(at + size * i + key_at), pointer(at + size * i + key_at + 8)) for i in range(len(table))],
              [(id(key), id(value)) for key, value in table.items()])
    plain.first = things
    shared = plain.__dict__
    check("type.cached_keys", pointer(id(Plain) + layout.type_cached_keys), pointer(id(shared) + layout.dict_keys))
    check("values.items", pointer(pointer(id(shared) + layout.dict_values) + layout.values_items), id(things))
    cell = (lambda: things).__closure__[0]
    check("cell.ref", pointer(id(cell) + layout.cell_ref), id(things))

    # The thread state of this thread, and the way to it
    api = ctypes.pythonapi
    api.PyThreadState_Get.restype = ctypes.c_void_p
    mine = api.PyThreadState_Get()
    interp = pointer(runtime + layout.interpreters_head)
    check("interpreters.main follows head", pointer(runtime + layout.interpreters_head + 8), interp)
    check("interp.next", pointer(interp + layout.interp_next), 0)
    check("interp.modules", pointer(interp + layout.interp_modules), id(sys.modules))
    if version >= (3, 9):
        api.PyInterpreterState_Get.restype = ctypes.c_void_p
        check("interpreters.head", interp, api.PyInterpreterState_Get())
    check("tstate.interp", pointer(mine + layout.tstate_interp), interp)
    if layout.tstate_current != 0xffffffff:
        check("gilstate.tstate_current", pointer(runtime + layout.tstate_current), mine)

    def thread_states():
        states, at, last = [], pointer(interp + layout.threads_head), 0
        while at and len(states) < 100:
            check("tstate.prev", pointer(at + layout.tstate_prev), last)
            states.append(at)
            at, last = pointer(at + layout.tstate_next), at
        return states

    def thread_state(ident):
        found = [s for s in thread_states() if pointer(s + layout.tstate_thread_id) == ident]
        check("tstate.thread_id: one state has it", len(found), 1)
        return found[0]

    check("tstate.thread_id", thread_state(threading.get_ident()), mine)
    if layout.tstate_native_thread_id != absent:
        check("tstate.native_thread_id", pointer(mine + layout.tstate_native_thread_id),
              threading.get_native_id())
    if layout.tstate_status != absent:
        # initialized and bound are its first bits, in all versions
        check("tstate.status", read(mine + layout.tstate_status, "<I") & 3, 3)

    # Frames, as the walker reads them
    def frames_of(tstate):
        # By no Python function: this frame is to be the innermost.
        at = ctypes.c_uint64.from_address(tstate + layout.tstate_frame).value
        if layout.frames == 2:
            at = ctypes.c_uint64.from_address(at + layout.cframe_current_frame).value
        if layout.tstate_datastack_chunk != absent:
            chunk = pointer(tstate + layout.tstate_datastack_chunk)
            # struct _stack_chunk: previous, size, top, data; the innermost frame is a call's
            check("tstate.datastack_chunk", chunk and chunk < at < chunk + pointer(chunk + 8), True)
        frames, closed = [], True
        while at and len(frames) < 100:
            if layout.owner_native_first and read(at + layout.frame_owner, "<B") >= layout.owner_native_first:
                closed = True
                at = pointer(at + layout.frame_back)
                continue
            code = pointer(at + layout.frame_code)
            if layout.flags & 2:
                code &= ~7
            check("frame.code is a code", pointer(code + layout.object_type), id(types.CodeType))
            if layout.lasti == 3:
                start = code + layout.code_instructions
                if layout.flags & 4:
                    index = read(at + layout.frame_tlbc_index, "<i")
                    array = pointer(code + layout.code_tlbc)
                    check("tlbc.size", 0 <= index < read(array + layout.tlbc_size, "<q"), True)
                    check("tlbc entry 0", pointer(array + layout.tlbc_entries), start)
                    start = pointer(array + layout.tlbc_entries + 8 * index)
                lasti = pointer(at + layout.frame_lasti) - start
            else:
                lasti = read(at + layout.frame_lasti, "<i") * (2 if layout.lasti == 2 else 1)
            if layout.frame_is_entry != absent:
                closed = bool(read(at + layout.frame_is_entry, "<B"))
            elif layout.owner_native_first:
                closed = False
            frames.append((at, code, lasti))
            at = pointer(at + layout.frame_back)
        check("a chain ends in native code", closed, True)
        return frames

    def compare(name, walked, frame):
        depth = 0
        while frame is not None:
            if depth < len(walked):
                check(name + ": frame.code", walked[depth][1], id(frame.f_code))
                if depth or name == "other thread": # else it went on since
                    check(name + ": frame.lasti", walked[depth][2], frame.f_lasti)
            frame, depth = frame.f_back, depth + 1
        check(name + ": depth", len(walked), depth)

    def outer(argument, then):
        return then(argument) + 0

    def innermost(argument):
        walked = frames_of(mine)
        # walked[0] was frames_of() itself.
        compare("main thread", walked[1:], sys._getframe())
        at = walked[1][0]
        value = pointer(at + layout.frame_locals)
        check("frame.locals", value & ~7 if layout.flags & 2 else value, id(argument))
        if layout.frame_owner != absent:
            check("frame.owner of a call", read(at + layout.frame_owner, "<B") in (0, 2), True)
        if layout.frame_state != absent:
            check("frame.state", read(at + layout.frame_state, "<b"), 0 if version >= (3, 10) else 1)
        check("frame_size", layout.frame_size <= min(128, layout.frame_locals), True)
        return 1

    outer(object(), lambda a: outer(a, innermost))
    max(sorted([3, 1, 2], key=lambda n: outer(object(), innermost)))  # through native code

    def generator():
        walked = frames_of(mine)
        compare("generator", walked[1:], sys._getframe())
        if layout.frame_owner != absent:
            check("frame.owner of a generator", read(walked[1][0] + layout.frame_owner, "<B"), 1)
        yield

    list(generator())

    ready, leave = threading.Event(), threading.Event()

    def other(argument):
        ready.set()
        leave.wait()

    threads = [threading.Thread(target=lambda: outer(object(), lambda a: other(a) or 0)) for _ in range(3)]
    for thread in threads:
        ready.clear()
        thread.start()
        ready.wait()
    import time
    time.sleep(0.2)
    for thread in threads:
        state = thread_state(thread.ident)
        check("tstate.interp of a thread", pointer(state + layout.tstate_interp), interp)
        compare("other thread", frames_of(state), sys._current_frames()[thread.ident])
    leave.set()
    for thread in threads:
        thread.join()

    print("  %d checks, %d code objects, %d wrong" % (counts["checks"], len(codes), counts["wrong"]))
    return 1 if counts["wrong"] else 0


# --- outside ---

def build(scratch):
    library = os.path.join(scratch, "layout.so")
    source = '#include "target/py_layout.h"\nconst uint32_t verify_layout_size = sizeof(struct py_layout);\n'
    subprocess.run([os.environ.get("CC", "gcc"), "-std=gnu17", "-shared", "-fPIC", "-O1",
                    "-I" + TREE + "/include", "-I" + TREE + "/daemon",
                    TREE + "/daemon/target/py_layout.c", TREE + "/daemon/target/py_tables.c",
                    "-x", "c", "-", "-o", library], input=source, text=True, check=True)
    return library


def find_pythons():
    lines = subprocess.run(["sh", TREE + "/tests/live/pythons.sh"], stdout=subprocess.PIPE, text=True).stdout
    return [line.split(None, 1)[1] for line in lines.splitlines() if line.strip()]


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "--inside":
        return inside(arguments[1])
    pythons, wrong = arguments or find_pythons(), []
    with tempfile.TemporaryDirectory() as scratch:
        library = build(scratch)
        for python in pythons:
            print(python, flush=True)
            if subprocess.run([python, "-B", os.path.abspath(__file__), "--inside", library]).returncode:
                wrong.append(python)
    print("%d interpreters, %d wrong%s" % (len(pythons), len(wrong), ": " if wrong else "") + ", ".join(wrong))
    return 2 if not pythons else 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
