#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes daemon/target/py_tables.c from CPython's headers, or compares with it.

    tables.py --check [DIR...]                     compare what the headers found say (make tables-check)
    tables.py --write [--add NAME TEXT]... [DIR...]
                                                   make the file anew, from the headers that it lists and those that
                                                   are added: --add "3.16.0" "Debian libpython3.16-dev 3.16.0-1"

DIR is a folder that holds Python.h. A "t" behind a version marks a free-threaded build's own headers; for 3.13 and
later each set of headers gives the free-threaded layout as well, by -DPy_GIL_DISABLED=1. Without any: $CPROFD_HEADERS (separated by
colons), pyenv's versions, /usr/include/python3.*, /usr/local/include/python3.*.

Exit: 0 equal or written, 1 different, 2 nothing could be compared.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TREE = os.path.dirname(os.path.dirname(HERE))
OUTPUT = os.path.join(TREE, "daemon/target/py_tables.c")
FIRST_MINOR = 8
ENUMS = {
    "frames": ["PY_FRAMES_OBJECTS", "PY_FRAMES_CFRAME", "PY_FRAMES_CURRENT"],
    "lasti": ["PY_LASTI_BYTES", "PY_LASTI_UNITS", "PY_LASTI_POINTER"],
    "lines": ["PY_LINES_LNOTAB", "PY_LINES_LINETABLE", "PY_LINES_LOCATIONS"],
}
WORDS = ["interpreters_head", "tstate_current", "threads_head", "frame_size"]
BYTES = ["owner_native_first", "state_kind_shift", "state_compact_shift", "state_ascii_shift"]


class Failure(Exception):
    pass


def offset_fields():
    """The fields of PY_LAYOUT_FIELDS, in order: the header is the list."""
    with open(os.path.join(TREE, "include/cprofd/pylayout.h")) as f:
        return ["_".join(m) for m in re.findall(r"\bX\((\w+), (\w+)\)\s*(?:/\*.*?\*/)?\s*\\?\n", f.read())
                if m != ("group", "field")]


def flags():
    """The names of the bits of py_layout.flags, from the header that has them."""
    with open(os.path.join(TREE, "include/cprofd/pylayout.h")) as f:
        text = f.read()
    found = re.findall(r"^#define (PY_\w+) (\d+)u", text[text.index("/* py_layout.flags */"):], re.M)
    return {int(value): name for name, value in found}


def default_directories():
    if os.environ.get("CPROFD_HEADERS"):
        return os.environ["CPROFD_HEADERS"].split(":")
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    return [d for pattern in (pyenv + "/versions/*/include/python3.*", "/usr/include/python3.*",
                              "/usr/local/include/python3.*")
            for d in sorted(glob.glob(pattern))]


def header_version(directory):
    """((3, 13, 5), is_final, free-threaded build) as the headers have it, or None."""
    try:
        with open(os.path.join(directory, "patchlevel.h")) as f:
            text = f.read()
        with open(os.path.join(directory, "pyconfig.h")) as f:
            config = f.read()
    except OSError:
        return None
    number = {k: re.search(r"#define PY_%s_VERSION\s+(\d+)" % k, text) for k in ("MAJOR", "MINOR", "MICRO")}
    if not all(number.values()):
        return None
    version = tuple(int(number[k].group(1)) for k in ("MAJOR", "MINOR", "MICRO"))
    final = "#define PY_RELEASE_LEVEL        PY_RELEASE_LEVEL_FINAL" in text
    return version, final, bool(re.search(r"^#define Py_GIL_DISABLED 1", config, re.M))


def probe(directory, free_threaded):
    """What probe.c prints for these headers: {key: number}."""
    with tempfile.TemporaryDirectory() as scratch:
        program = os.path.join(scratch, "probe")
        # Debian's pyconfig.h includes <x86_64-linux-gnu/python3.N/pyconfig.h>: hence the last one.
        command = [os.environ.get("CC", "gcc"), "-std=gnu17", "-w", "-O1", "-I" + directory,
                   "-I" + directory + "/internal", "-I" + directory + "/internal/mimalloc",
                   "-idirafter", os.path.dirname(directory)]
        if free_threaded and not header_version(directory)[2]:
            command.append("-DPy_GIL_DISABLED=1")
        built = subprocess.run(command + [os.path.join(HERE, "probe.c"), "-o", program],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if built.returncode:
            raise Failure("%s: the probe does not compile:\n%s" % (directory, built.stdout[:2000]))
        lines = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout
    pairs = (line.rsplit(" ", 1) for line in lines.splitlines())
    return {key: int(value) for key, value in pairs}


ABSENT = -1
NUMBERS = WORDS + BYTES


class Row:
    """One layout that a range of versions has: an entry of py_tables, and a column of the other two tables."""

    def __init__(self, found, fields, free_threaded, minor):
        self.head = {k: names[found[k] - 1] for k, names in ENUMS.items()}
        self.head["flags"] = " | ".join(name for bit, name in flags().items() if found["flags"] & bit) or "0"
        self.debug_size = found.get("debug size", 0)
        self.offsets = {k: ABSENT if found[k] == 0xffffffff else found[k] for k in NUMBERS}
        for key in fields:
            if key in found and not 0 <= found[key] < 0xffff:
                raise Failure("%s does not fit: %d" % (key, found[key]))
            self.offsets[key] = found.get(key, ABSENT)
        self.debug = {k[len("debug "):]: at for k, at in found.items() if k.startswith("debug ") and k != "debug size"}
        unknown = [k for k in found if not k.startswith("debug ") and
                   k not in fields + NUMBERS + list(ENUMS) + ["flags", "version"]]
        if unknown:
            raise Failure("probe.c prints what struct py_layout has not: " + ", ".join(unknown))
        self.free_threaded, self.minor = free_threaded, minor
        self.versions = []
        self.first = self.last = 0

    def content(self):
        """What is compared: all but the provenance and the range."""
        return self.head, self.debug_size, self.offsets, self.debug

    def same(self, other):
        return self.content() == other.content()


def name_of(minor, free_threaded):
    return "3.%d%s" % (minor, "t" if free_threaded else "")


def collect(directories):
    """{(minor, free_threaded): {(version, is_own_headers): Row}} and {version name: directory}"""
    fields, rows, seen = offset_fields(), {}, {}
    for directory in directories:
        directory = directory.rstrip("/")
        known = header_version(directory)
        if not known or known[0][0] != 3 or known[0][1] < FIRST_MINOR:
            continue
        version, final, own = known
        if not os.path.isdir(directory + "/internal"):
            continue
        if not final:
            print("%s: %d.%d.%d is a pre-release, skipped" % ((directory,) + version))
            continue
        name = "%d.%d.%d" % version + ("t" if own else "")
        if name in seen:
            continue
        seen[name] = directory
        for free_threaded in (True,) if own else (False, True) if version[1] >= 13 else (False,):
            row = Row(probe(directory, free_threaded), fields, free_threaded, version[1])
            rows.setdefault((version[1], free_threaded), {})[(version, own)] = row
    return rows, seen


def ranges(minor, found):
    """Neighbours with one layout become a row. Versions between two rows are in none."""
    rows = []
    for (version, own), row in sorted(found.items()):
        if rows and rows[-1].same(row):
            rows[-1].versions.append(version)
            continue
        if rows and version == rows[-1].versions[-1]:
            raise Failure("3.%d: two sets of headers of one version differ" % minor)
        row.versions.append(version)
        rows.append(row)
    for i, row in enumerate(rows):
        first = 0 if i == 0 else row.versions[0][2]
        last = 0xff if i == len(rows) - 1 else row.versions[-1][2]
        row.first = 3 << 24 | minor << 16 | first << 8 | 0xf0
        row.last = 3 << 24 | minor << 16 | last << 8 | 0xff
    return rows


def sources():
    """{version: where its headers came from}, as the committed file says."""
    with open(OUTPUT) as f:
        head = f.read().split("*/")[1]
    return dict(re.findall(r"^ \*   (\S+) +(.*)$", head, re.M))


HEAD = """/* SPDX-License-Identifier: MIT */
/* Where things are inside each CPython: made from its headers by
 * tools/offsets/tables.py --write, compared by make tables-check. Not edited.
 *
 * The headers that were read:
%s
 *
 * A row of py_tables serves the final releases from `first` to `last`. The rows of one
 * minor version end with its newest final release, whatever that will be: a layout is
 * frozen with the first release candidate. Pre-releases have no row.
 */
#include "target/py_tables.h"

/* clang-format off */
"""


def lines_of(columns):
    """A line for each member that any layout has: its numbers in all of them. `columns`: {member: number} by layout."""
    members = list(dict.fromkeys(member for column in columns for member in column))
    for member in members:
        yield "\tROW(%-25s%s)," % (member + ",", ",".join("%5d" % column.get(member, 0) for column in columns))


def text_of(all_rows, names):
    out = [HEAD % "\n".join(" *   %-9s %s" % (name, names[name]) for name in names)]
    out.append("const struct py_table py_tables[] = {")
    for row in all_rows:
        out.append("\t/* %s: read from the headers of %s */\n\t{"
                   % (name_of(row.minor, row.free_threaded), ", ".join("%d.%d.%d" % v for v in sorted(set(row.versions)))))
        out.append("\t\t.first = 0x%08x, .last = 0x%08x, .debug_size = %d," % (row.first, row.last, row.debug_size))
        out.append("\t\t.frames = %(frames)s, .lasti = %(lasti)s,\n\t\t.lines = %(lines)s,\n\t\t.flags = %(flags)s,\n\t}," % row.head)
    layouts = " ".join(name_of(row.minor, row.free_threaded) for row in all_rows)
    out.append("};\n\n/* The members of struct py_layout in each: %s */\nconst struct py_member py_offsets[] = {" % layouts)
    out += lines_of([row.offsets for row in all_rows])
    out.append("};\n\n/* Where _Py_DebugOffsets of each has them. */\nconst struct py_member py_debug_offsets[] = {")
    out += lines_of([row.debug for row in all_rows])
    out.append("};\n/* clang-format on */\n")
    out += ["const size_t %s_n = sizeof(%s) / sizeof(%s[0]);" % ((name,) * 3) for name in ("py_tables", "py_offsets", "py_debug_offsets")]
    minors = sorted({row.minor for row in all_rows})
    out.append('const char py_versions[] = "3.%d to 3.%d";\n' % (minors[0], minors[-1]))
    return "\n".join(out)


def write(rows, seen, added):
    names = {**sources(), **added}
    missing = [n for n in names if n not in seen]
    extra = [n for n in seen if n not in names]
    if missing or extra:
        raise Failure("the file's list and the headers found differ: missing %s, not listed %s (--add)" % (missing, extra))
    all_rows = [row for (minor, _), found in sorted(rows.items()) for row in ranges(minor, found)]
    with open(OUTPUT, "w") as f:
        f.write(text_of(all_rows, names))
    print("%d rows from %d sets of headers" % (len(all_rows), len(seen)))
    return 0


def columns_of(text, name):
    """[{member: number}] by layout, of one table of the committed file."""
    body = re.search(r" %s\[\] = \{\n(.*?)\n\};" % name, text, re.S).group(1)
    lines = [(m, [int(n) for n in numbers.split(",")]) for m, numbers in re.findall(r"ROW\((\w+),([^)]*)\)", body)]
    return [{m: numbers[i] for m, numbers in lines} for i in range(len(lines[0][1]))]


def committed():
    """[(first, last, content as of Row)] of the committed file."""
    with open(OUTPUT) as f:
        text = f.read()
    offsets, debug = columns_of(text, "py_offsets"), columns_of(text, "py_debug_offsets")
    for i, block in enumerate(re.findall(r"^\t\{\n(.*?)^\t\},$", text, re.S | re.M)):
        row = dict(re.findall(r"\.(\w+) = ([^,]*),", block))
        head = {k: row[k] for k in list(ENUMS) + ["flags"]}
        # A position of 0, where the cookie is, says that this version has none.
        yield (int(row["first"], 16), int(row["last"], 16),
               (head, int(row["debug_size"]), offsets[i], {m: at for m, at in debug[i].items() if at}))


def check(rows, seen):
    table, bad, good = list(committed()), 0, 0
    for (minor, free_threaded), found in sorted(rows.items()):
        for (version, own), row in sorted(found.items()):
            name = "%d.%d.%d" % version + ("t" if free_threaded else "")
            hexed = version[0] << 24 | version[1] << 16 | version[2] << 8 | 0xf0
            serving = [content for first, last, content in table
                       if first <= hexed <= last and ("PY_FREE_THREADED" in content[0]["flags"]) == free_threaded]
            if serving == [row.content()]:
                good += 1
                continue
            bad += 1
            print("%s: %s (%s)" % (name, "the committed table differs from its headers" if serving
                                   else "no row serves it", seen.get(name.rstrip("t") if not own else name)))
    without = [n for n in sources() if n not in seen]
    if without:
        print("not compared, no headers here: " + ", ".join(without))
    print("%d layouts equal, %d different" % (good, bad))
    return 1 if bad else 0 if good else 2


def main(arguments):
    if not arguments or arguments[0] not in ("--check", "--write"):
        print(__doc__, file=sys.stderr)
        return 2
    command, rest, added = arguments[0], arguments[1:], {}
    while rest[:1] == ["--add"] and len(rest) > 2:
        added[rest[1]] = rest[2]
        rest = rest[3:]
    try:
        rows, seen = collect(rest or default_directories())
        return write(rows, seen, added) if command == "--write" else check(rows, seen)
    except Failure as failure:
        print(failure, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
