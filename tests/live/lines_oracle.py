# SPDX-License-Identifier: MIT
"""Writes what CPython itself says of the position of every code unit of its standard library.

Runs under the interpreter to be tested (3.8+):

    python3.X lines_oracle.py [-N] [FOLDER...] | lines_check

-N: each Nth file only. FOLDER: only these parts of the library (asyncio, json...). The stream, little endian, for lines_check.c:

    code object  u32 format (enum py_lines), firstlineno, table bytes, code bytes, name bytes
                 the table, the name
                 i32[4] for each code unit: line, end line, column, end column; -1: none
                 u8 for each code unit: units behind the instruction it is an inline cache of, else 0
    end          u32 0, files skipped, 0, 0, 0

The oracles are each interpreter's own: PyCode_Addr2Line (3.8, 3.9); from 3.10 on two, which must agree or
nothing is said: that and co_lines() (3.10), co_positions() and co_lines() (3.11+).
"""
import array
import ast
import dis
import itertools
import marshal
import opcode
import os
import importlib.util
import struct
import sys
import types
import warnings

LNOTAB, LINETABLE, LOCATIONS = 1, 2, 3
VERSION = sys.version_info[:2]
FORMAT = LOCATIONS if VERSION >= (3, 11) else LINETABLE if VERSION == (3, 10) else LNOTAB
UNIT = 2


def caches_by_opcode():
    """How many cache units follow each opcode: a list, a dict by name (3.13), a frozendict (3.15)."""
    caches = getattr(opcode, "_inline_cache_entries", None)
    if caches is None:
        return [0] * 256
    if hasattr(caches, "get"):
        caches = [caches.get(dis.opname[op], 0) for op in range(256)]
    return [caches[op] if op < len(caches) else 0 for op in range(256)]


CACHES = caches_by_opcode()

if FORMAT != LOCATIONS:
    import ctypes  # a build without libffi has none
    addr2line = ctypes.pythonapi.PyCode_Addr2Line
    addr2line.argtypes = [ctypes.py_object, ctypes.c_int]
    addr2line.restype = ctypes.c_int


def lines_by_range(code):
    """co_lines(), one entry for each unit."""
    lines = []
    for start, end, line in code.co_lines():
        assert start == len(lines) * UNIT, (code, start)
        lines.extend([-1 if line is None else line] * ((end - start) // UNIT))
    return lines


def positions(code):
    flat = array.array("i")
    units = len(code.co_code) // UNIT
    if FORMAT == LOCATIONS:
        for position in code.co_positions():
            if None in position:
                position = [-1 if value is None else value for value in position]
            flat.extend(position)
        lines = flat[::4].tolist()
    else:
        lines = [addr2line(code, unit * UNIT) for unit in range(units)]
        for line in lines:
            flat.extend((line, line, -1, -1))
    if FORMAT != LNOTAB and lines != lines_by_range(code):
        raise AssertionError("%s: the interpreter contradicts itself" % code)
    assert len(lines) == units, (code, len(lines), units)
    return flat


def cache_units(code):
    """0 for instructions, 1.. for the cache units behind one. Runs with these are
    where a caller's frame points from 3.12 on."""
    behind = bytearray()
    ops = code.co_code[::2]
    while len(behind) < len(ops):
        behind += bytes(range(CACHES[ops[len(behind)]] + 1))
    assert len(behind) == len(ops), code
    return behind


def write_code(out, code):
    table = code.co_lnotab if FORMAT == LNOTAB else code.co_linetable
    name = ("%s:%d %s" % (code.co_filename, code.co_firstlineno, code.co_name)).encode("utf-8", "replace")
    flat = positions(code)
    if sys.byteorder != "little":
        flat.byteswap()
    out.write(struct.pack("<5I", FORMAT, code.co_firstlineno, len(table), len(code.co_code), len(name)))
    out.write(table)
    out.write(name)
    out.write(flat.tobytes())
    out.write(cache_units(code))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            write_code(out, constant)


def library_files(folders):
    root = os.path.dirname(os.__file__)
    for folder in folders or [""]:
        for path, folders, files in os.walk(os.path.join(root, folder)):
            folders[:] = sorted(set(folders) - {"site-packages", "dist-packages", "__pycache__"})
            for file in sorted(files):
                # Debian's sitecustomize.py may be a link to nowhere.
                if file.endswith(".py") and os.path.exists(os.path.join(path, file)):
                    yield os.path.join(path, file)


def compile_file(path):
    """From the interpreter's own cache when it has one: the same code, much sooner."""
    try:
        with open(importlib.util.cache_from_source(path), "rb") as file:
            if file.read(16)[:4] == importlib.util.MAGIC_NUMBER:
                return marshal.loads(file.read())
    except OSError:
        pass
    with open(path, "rb") as file:
        return compile(file.read(), path, "exec", dont_inherit=True)


def shifted(source, step):
    """The statements of `source` at lines that jump ahead and back: as code that
    a program makes from an AST."""
    tree = ast.parse(source)
    for i, statement in enumerate(tree.body):
        line = 1 + (i * step) % 1000003
        for node in ast.walk(statement):
            if hasattr(node, "lineno"):
                node.lineno = node.end_lineno = line
    return tree


def made_up():
    """What the library does not have: far lines, far columns, many-byte columns."""
    statement = "a = b.c(d, e[f]) if g else [h for h in i]\n"
    for gap in (1, 2, 3, 126, 127, 128, 129, 254, 255, 256, 8191, 65535, 70000):
        yield "lines%d" % gap, (statement + "\n" * gap) * 3
        yield "inside%d" % gap, "a = (b +" + "\n" * gap + "c(d) +" + "\n" * gap + "e)\n" + statement
        yield "columns%d" % gap, "a = (b +" + " " * gap + "c(d)" + " " * gap + "+ e)\n" + statement
    for step in (7, 127, 128, 129, 500, 333333, 999983):
        yield "shifted%d" % step, shifted(statement * 60, step)
    yield "bytes", "é = 'ü€🐍'.ñ(é, '" + "🐍" * 50 + "', é)\n" + "é = é['ñ'] + é.ü\n" * 20
    yield "long", "if a:\n" + ("    " + statement) * 400 + "while b:\n    c(d)\n"
    yield "wide", "a(" + ", ".join("b(%d)" % i for i in range(1000)) + ")\n"
    yield "flow", (
        "@a\n@b(\n c)\ndef f(x=(\n 1)):\n  try:\n    with x as y, \\\n      z:\n      yield lambda: (\n x,\n y)\n"
        "  except (A,\n B) as e:\n    raise\n  finally:\n    for i in x:\n      continue\n  return [\n"
        " g for g in\n x if g]\nasync def k():\n  async with x:\n    async for i in y:\n      await i\n"
        "class C(\n metaclass=\n M):\n  x: int = 1\n"
    )


def main(words):
    every = -int(words.pop(0)) if words and words[0].startswith("-") else 1
    warnings.simplefilter("ignore")
    sys.setrecursionlimit(10000)
    skipped = 0
    with os.fdopen(sys.stdout.fileno(), "wb", 1 << 20) as out:
        for name, source in made_up():
            write_code(out, compile(source, name, "exec", dont_inherit=True))
        for path in itertools.islice(library_files(words), 0, None, every):
            try:
                code = compile_file(path)
            except (SyntaxError, ValueError, RecursionError):
                skipped += 1  # samples of what must not compile
                continue
            write_code(out, code)
        out.write(struct.pack("<5I", 0, skipped, 0, 0, 0))


main(sys.argv[1:])
