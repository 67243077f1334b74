#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes daemon/classes/opcodes.c from interpreters: what each byte of a bytecode means to a call, specialised instructions
included.

    opcodes.py PYTHON... > daemon/classes/opcodes.c    one interpreter of each minor version
    opcodes.py --rows                                  the rows of the interpreter that runs this"""
import subprocess
import sys

ROWS = r'''
import dis, opcode, sys
version = sys.version_info[:2]
numbers = dict(dis.opmap)
bases, caches = {}, {}
try:
    import _opcode_metadata as meta
    numbers.update(meta._specialized_opmap)
    for base, names in meta._specializations.items():
        for name in names:
            bases[name] = base
except ImportError:
    numbers.update(getattr(dis, "_all_opmap", {}))
    for base, names in getattr(opcode, "_specializations", {}).items():
        for name in names:
            bases[name] = base
    for name in numbers:  # two instructions in one: the second stands behind it as it was
        if "__" in name:
            bases[name] = name.split("__")[0]
entries = getattr(opcode, "_inline_cache_entries", {})
if hasattr(entries, "items"):
    caches = dict(entries)
else:
    caches = {dis.opname[i]: n for i, n in enumerate(entries) if n}

def meaning(name):
    if name == "EXTENDED_ARG":
        return "EXTENDED"
    if name.startswith("INSTRUMENTED_"):
        return meaning(name[13:])
    if name in ("LOAD_NAME", "LOAD_GLOBAL"):
        return "GLOBAL_1" if name == "LOAD_GLOBAL" and version >= (3, 11) else "GLOBAL"
    if name in ("LOAD_METHOD", "IMPORT_FROM") or (name == "LOAD_ATTR" and version < (3, 12)):
        return "NAME"
    if name == "LOAD_ATTR":
        return "NAME_1"
    if name in ("LOAD_SUPER_ATTR",):
        return "NAME_2"
    if name.startswith(("CALL_FUNCTION", "CALL_METHOD", "PRECALL")) or name in ("CALL", "CALL_KW"):
        return "CALL"
    if name.startswith(("BINARY_", "INPLACE_", "UNARY_", "COMPARE_OP", "CONTAINS_OP", "FOR_ITER", "GET_ITER", "STORE_SUBSCR",
                        "STORE_SLICE", "DELETE_SUBSCR", "SEND", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE", "FORMAT_",
                        "UNPACK_", "TO_BOOL", "POP_JUMP", "JUMP_IF")):
        return "OPERATOR"
    return ""

# What a specialised instruction calls: it is no other, or the instruction does as the plain one.
SPECIAL = {"LEN": "len", "ISINSTANCE": "isinstance", "LIST_APPEND": "list.append", "STR_1": "str", "TYPE_1": "type",
           "TUPLE_1": "tuple", "ADD_INT": "int.__add__", "SUBTRACT_INT": "int.__sub__", "MULTIPLY_INT": "int.__mul__",
           "ADD_FLOAT": "float.__add__", "SUBTRACT_FLOAT": "float.__sub__", "MULTIPLY_FLOAT": "float.__mul__",
           "ADD_UNICODE": "str.__add__", "SUBSCR_LIST_INT": "list.__getitem__", "SUBSCR_LIST_SLICE": "list.__getitem__",
           "SUBSCR_TUPLE_INT": "tuple.__getitem__", "SUBSCR_STR_INT": "str.__getitem__", "SUBSCR_USTR_INT": "str.__getitem__",
           "SUBSCR_DICT": "dict.__getitem__", "CONTAINS_OP_DICT": "dict.__contains__", "STORE_SUBSCR_DICT": "dict.__setitem__",
           "STORE_SUBSCR_LIST_INT": "list.__setitem__"}
def special(name):
    for head in ("PRECALL_NO_KW_", "PRECALL_", "CALL_NO_KW_", "CALL_", "BINARY_OP_INPLACE_", "BINARY_OP_", "BINARY_", ""):
        if name.startswith(head) and name[len(head):] in SPECIAL:
            return SPECIAL[name[len(head):]]

# Those that push nothing, among those of expressions.
KEEPS = ("NOP", "EXTENDED_ARG", "RESUME", "KW_NAMES", "NOT_TAKEN", "COPY_FREE_VARS", "MAKE_CELL", "PRECALL")

# {effect on the stack, how it grows with the argument}
def effect(base):
    if base in KEEPS and base != "PRECALL":
        return 0, "NONE"
    # What may go elsewhere, or puts what was there before in another place.
    if base in ("COPY", "SWAP", "DUP_TOP", "DUP_TOP_TWO") or base.startswith(("ROT_", "JUMP", "POP_JUMP", "FOR_ITER", "SEND", "STORE", "DELETE",
                "RETURN", "RAISE", "RERAISE", "SETUP", "POP_", "END_", "YIELD", "INSTRUMENTED", "WITH", "BEFORE", "ENTER", "UNPACK", "PUSH_EXC")):
        return 0, "UNKNOWN"
    number = dis.opmap[base]
    def at(argument):
        return dis.stack_effect(number, argument if number >= dis.HAVE_ARGUMENT else None)
    try:
        values = [at(i) for i in range(8)]
    except ValueError:
        return 0, "UNKNOWN"
    if values == [values[0]] * 8:
        return values[0], "NONE"
    for step, name in ((-1, "MINUS"), (-2, "MINUS_2"), (1, "PLUS")):
        if values == [values[0] + step * i for i in range(8)]:
            return values[0], name
    if values == [values[0] + (i & 1) for i in range(8)]:
        return values[0], "BIT"
    if values == [values[0] - (i & 1) for i in range(8)]:
        return values[0], "MINUS_BIT"
    return 0, "UNKNOWN"

# How far below the top of the stack a call has what it calls.
def depth(base):
    if base == "CALL_FUNCTION_EX":
        return (3, "NONE") if version >= (3, 14) else (2 if version >= (3, 13) else 1, "BIT")
    if base == "CALL":
        return (0, "NONE") if version == (3, 11) else (1 if version >= (3, 13) else 0, "PLUS")
    return {"CALL_FUNCTION": 0, "CALL_FUNCTION_KW": 1, "CALL_METHOD": 1, "PRECALL": 0, "CALL_KW": 2}.get(base, 0), "PLUS"

rows = []
for name, number in sorted(numbers.items(), key=lambda row: row[1]):
    if number > 255 or name == "CACHE":
        continue
    base = bases.get(name, name)
    plain = base[13:] if base.startswith("INSTRUMENTED_") else base
    kind, cache = meaning(base), int(caches.get(plain, 0))
    size, growth = effect(plain) if plain in dis.opmap else (0, "UNKNOWN")
    below, below_growth = depth(plain) if kind == "CALL" else (0, "UNKNOWN")
    flags = []
    if name.startswith("LOAD_GLOBAL_BUILTIN"):
        flags.append("OPCODE_BUILTIN")
    if name.startswith("LOAD_GLOBAL_MODULE"):
        flags.append("OPCODE_MODULE")
    if (name.startswith(("LOAD_METHOD_", "LOAD_ATTR_METHOD_")) or name == "LOAD_ATTR_CLASS") and "ADAPTIVE" not in name:
        flags.append("OPCODE_POINTER")
    if plain in KEEPS:
        flags.append("OPCODE_KEEPS")
    row = ["OPCODE_" + (kind or "OTHER"), str(cache), str(size), "GROWS_" + growth, str(below), "GROWS_" + below_growth,
           " | ".join(flags) or "0", '"%s"' % special(name) if name in bases and special(name) else "0"]
    while row and row[-1] in ("0", "GROWS_UNKNOWN", "OPCODE_OTHER"):
        row.pop()
    if row:
        rows.append("[%d] = {%s}" % (number, ", ".join(row)))
print(sys.version_info[1])
print("\n".join(rows))
'''


def main():
    print("/* SPDX-License-Identifier: MIT */\n" "/* Made by tools/opcodes/opcodes.py from the interpreters' own tables (dis, opcode, _opcode_metadata). */")
    print('#include "classes/bytecode.h"\n\n/* What is left out of a row is 0. */\n'
          '#pragma GCC diagnostic ignored "-Wmissing-field-initializers"\n/* clang-format off */')
    print("const struct opcode opcodes[][256] = {")
    for python in sys.argv[1:]:
        minor, *rows = subprocess.run([python, "-c", ROWS], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        print("\t[%s - OPCODE_FIRST] = {" % minor)
        for i in range(0, len(rows), 4):
            print("\t\t" + ", ".join(rows[i:i + 4]) + ",")
        print("\t},")
    print("};\n/* clang-format on */\n\nconst uint32_t opcodes_n = sizeof(opcodes) / sizeof(opcodes[0]);")


main()
