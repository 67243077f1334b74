#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# run-live: beside
"""Where the eval loop lies, in every interpreter that is found: what the symbol tables say (readelf), and
what gdb sees of a living process. The target's stack has a known number of eval loops: each stop must show as
many frames in the ranges, or one more where a call begins or ends.

    tests/live/eval_ranges.py [PYTHON...]
"""
import os
import re
import shutil
import subprocess
import sys

from lib import LIVE, ROOT
from lib.wait import burned

TOOL = os.path.join(ROOT, "build/tests/tools/eval_ranges")
STOPS = 10
DEPTH = 12
# map() enters the interpreter from C DEPTH times; the module is another. Before 3.11 the call from the
# module's code to down() enters it, too.
TARGET = """
def leaf(n):
    s = 0
    while True:
        for i in range(100): s = (s + i * i) & 1023
def down(n):
    for _ in map(down if n > 1 else leaf, [n - 1]): pass
print("ready", flush=True)
down(%d)
""" % DEPTH


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def module_of(python):
    for line in output("ldd", python).splitlines():
        if "libpython" in line:
            return os.path.realpath(line.split("=>")[1].split()[0])
    return os.path.realpath(python)


def ranges_of(module, *options):
    return [(int(r[0], 16), int(r[1], 16), r[2], r[3])
            for r in map(str.split, output(TOOL, module, *options).splitlines())]


def symbols_of(module):
    found = set()
    for line in output("readelf", "-sW", module).splitlines():
        word = line.split()
        if len(word) == 8 and word[3] == "FUNC" and word[6] != "UND" and \
                re.match(r"(_PyEval_EvalFrameDefault(\.|@|$)|_TAIL_CALL_)", word[7]):
            found.add((int(word[1], 16), int(word[1], 16) + int(word[2], 0)))
    return found


def bias_of(pid, module):
    """What is added to the ELF file's addresses: from its first mapping and its first segment."""
    with open("/proc/%d/maps" % pid) as maps:
        start = min(int(line.split("-")[0], 16) for line in maps if line.rstrip().endswith(module))
    for line in output("readelf", "-lW", module).splitlines():
        word = line.split()
        if word[:1] == ["LOAD"] and int(word[1], 16) == 0:
            return start - int(word[2], 16)
    return start


def stops(python, module, ranges):
    """Of each stop of a living process how many of its frames lie in the ranges."""
    process = subprocess.Popen([python, "-c", TARGET], stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout.readline() != "ready\n":
            return []
        burned(process.pid, 0.1)  # it has come to leaf()
        bias = bias_of(process.pid, module)
        script = ["set pagination off"]
        for _ in range(STOPS):
            script += ["attach %d" % process.pid, "bt", "echo STOP\\n", "detach"]
        # One gdb for all stops: most of its time goes into reading symbols.
        command = ["gdb", "-nx", "-batch"] + [x for line in script for x in ("-ex", line)]
        text = output(*command)
    finally:
        process.kill()
        process.wait()
    counts = []
    for stop in text.split("STOP")[:-1]:
        n = 0
        for m in re.finditer(r"^#(\d+)\s+0x([0-9a-f]+) in ", stop, re.M):
            pc = int(m[2], 16) - bias - (m[1] != "0")
            n += any(start <= pc < end and mark == "eval" for start, end, mark, _ in ranges)
        # gdb leaves out the pc of the innermost frame at a statement's first instruction; lines without pc
        # that follow are of functions that have the one before inlined.
        head = re.split(r"^#\d+\s+0x", stop, maxsplit=1, flags=re.M)[0]
        n += bool(re.search(r"^#\d+\s+_PyEval_EvalFrameDefault", head, re.M))
        counts.append(n)
    return counts


def main():
    pythons = sys.argv[1:]
    passed = failed = skipped = 0
    if not pythons:
        pythons = [line.split(None, 1)[1] for line in
                   output(os.path.join(LIVE, "pythons.sh")).splitlines()]
    if not shutil.which("gdb"):
        print("skipped: no gdb")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    for python in pythons:
        module = module_of(python)
        ranges = ranges_of(module)
        named = symbols_of(module)
        bad = [s for s in named if not any(r[0] <= s[0] and s[1] <= r[1] for r in ranges)]
        counts = stops(python, module, ranges)
        old = output(python, "-c", "import sys; print(sys.version_info < (3, 11))") == "True\n"
        loops = DEPTH + 1 + old
        right = sum(n in (loops, loops + 1) for n in counts)
        print("%s: %d ranges, %d of them without a name; %d of %d stops show %d loops" % (
            python, len(ranges), sum(r[3] == "jumps" for r in ranges), right, len(counts), loops))
        if bad or not ranges or right != len(counts) or len(counts) != STOPS:
            print("FAILED", python, "not found:", bad, "counts:", counts)
            failed += 1
        else:
            passed += 1
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
