#!/usr/bin/env python3
"""Makes daemon/classes/opcodes.c from interpreters: what each byte of a bytecode means to a call, specialised instructions
included.

    opcodes.py PYTHON... > daemon/classes/opcodes.c    one interpreter of each minor version
    opcodes.py --rows                                  the rows of the interpreter that runs this"""
import subprocess
import sys

ROWS = r'''
import dis, opcode, sys
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
    if name in ("LOAD_NAME", "LOAD_METHOD", "IMPORT_FROM") or (name == "LOAD_ATTR" and sys.version_info < (3, 12)):
        return "NAME"
    if name == "LOAD_GLOBAL":
        return "NAME_1" if sys.version_info >= (3, 11) else "NAME"
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
rows = []
for name, number in sorted(numbers.items(), key=lambda row: row[1]):
    if number > 255 or name == "CACHE":
        continue
    base = bases.get(name, name)
    kind, cache = meaning(base), int(caches.get(base, 0))
    if name.startswith("INSTRUMENTED_"):
        cache = int(caches.get(name[13:], 0))
    if kind or cache:
        rows.append("[%d] = {OPCODE_%s, %d}" % (number, kind or "OTHER", cache))
print(sys.version_info[1])
print("\n".join(rows))
'''


def main():
    print("/* Made by tools/opcodes/opcodes.py from the interpreters' own tables (dis, opcode, _opcode_metadata). */")
    print('#include "classes/bytecode.h"\n\n/* clang-format off */')
    print("const struct opcode opcodes[OPCODE_VERSIONS][256] = {")
    for python in sys.argv[1:]:
        minor, *rows = subprocess.run([python, "-c", ROWS], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        print("\t[%s - OPCODE_FIRST] = {" % minor)
        for i in range(0, len(rows), 4):
            print("\t\t" + ", ".join(rows[i:i + 4]) + ",")
        print("\t},")
    print("};\n/* clang-format on */")


main()
