#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Woven stacks of running interpreters. The target's program defines which native code is between two of its
Python frames: each adjacent pair in each stack must have exactly that between them.

    tests/live/weave.py [--stops N] [PYTHON...]
"""
import argparse
import collections
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from eval_ranges import module_of, output  # noqa: E402

TOOL = os.path.join(HERE, "../../build/tests/tools/weave_live")
TARGET = os.path.join(HERE, "../targets/weave.py")

DIRECT = "direct"    # one Python function calls another
THROUGH = "through"  # C code of the interpreter or of a library lies between
EITHER = "either"    # a generator: made by a call, resumed by C
PAIRS = {
    ("<module>", "main"): DIRECT, ("main", "by_sorted"): DIRECT, ("main", "by_qsort"): DIRECT,
    ("main", "by_tiny"): DIRECT, ("main", "direct"): DIRECT, ("by_sorted", "key"): THROUGH,
    ("key", "makes_dying"): THROUGH, ("key", "__del__"): THROUGH, ("__del__", "in_del"): DIRECT,
    ("by_qsort", "compare"): "qsort", ("compare", "by_sum"): DIRECT, ("compare", "direct"): DIRECT,
    ("by_sum", "gen_outer"): EITHER, ("gen_outer", "gen_inner"): EITHER, ("by_tiny", "tiny"): THROUGH,
}
for caller in ("in_del", "makes_dying", "key", "gen_inner", "direct"):
    PAIRS[caller, "spin"] = DIRECT


def parse(text):
    """[(head, [(kind, words...)])]"""
    found = []
    for line in text.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "stop":
            found.append(([int(x) for x in rest.split()], []))
        else:
            found[-1][1].append((kind, *rest.split(" ", 1)))
    return found


def wrong(stack, version, module):
    """What is wrong with a woven stack, or None."""
    between, outer = [], None
    for number, (kind, *words) in enumerate(stack, 1):
        if kind != "P":
            between.append((kind, *words))
            continue
        name = words[0]
        if outer is None:
            if name != "<module>":
                return "it begins with " + name
            if not any(w[2] == "_start" for w in between if w[0] == "N"):
                return "no _start outside of Python"
        else:
            want = PAIRS.get((outer, name))
            files = {w[1] for w in between}
            if want is None:
                return "%s does not call %s" % (outer, name)
            if want == DIRECT and version >= (3, 11) and between:
                return "between %s and %s: %s" % (outer, name, between)
            if want == DIRECT and not files <= {module}:
                return "between %s and %s: %s" % (outer, name, between)
            if want == THROUGH and (not between and version >= (3, 11) or "libz" in str(files)):
                return "between %s and %s: %s" % (outer, name, between)
            if want == "qsort" and not any("qsort" in w[2] and w[1].startswith("libc")
                                           for w in between if w[0] == "N"):
                return "no qsort between %s and %s: %s" % (outer, name, between)
            if (outer, name) == ("by_sum", "gen_outer") and not between and version >= (3, 11) and \
                    any(kind == "P" for kind, *_ in stack[number:]):
                return "sum() is missing"
            if name != "__del__" and sum(w[2:] == ("_PyEval_EvalFrameDefault",) for w in between):
                return "an eval loop between %s and %s: %s" % (outer, name, between)
        between, outer = [], name
    if any(w[0] == "N" and w[2] == "crc32" for w in between) and outer != "spin":
        return "crc32 inside of %s" % outer
    if outer is None:
        return "no Python frame"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--stops", type=int, default=500)
    parser.add_argument("pythons", nargs="*")
    args = parser.parse_args()
    pythons = args.pythons or [line.split(None, 1)[1] for line in
                               output(os.path.join(HERE, "pythons.sh")).splitlines()]
    passed = failed = skipped = 0
    for python in pythons:
        module = module_of(python)
        version = tuple(map(int, output(python, "-c", "import sys; print(*sys.version_info[:2])").split()))
        process = subprocess.Popen([python, TARGET], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if process.stdout.readline() != "ready\n":
            print("skipped: %s cannot run the target" % python)
            skipped += 1
            process.wait()
            continue
        try:
            text = output(TOOL, str(process.pid), str(args.stops), "300", module)
        finally:
            process.kill()
            process.wait()
        tally = collections.Counter()
        first = []
        stops = parse(text)
        for (python_loss, cut, loss, guess, _), stack in stops:
            tally["guess"] += guess
            if python_loss or cut or loss:
                tally["python %d cut %d weave %d" % (python_loss, cut, loss)] += 1
                continue
            why = wrong(stack, version, os.path.basename(module))
            if why and guess:
                tally["wrong guess"] += 1
            elif why:
                tally["wrong"] += 1
                first.append((why, [" ".join(frame) for frame in stack]))
            else:
                tally["right"] += 1
        print("%s: %d stops, %s" % (python, len(stops), dict(tally)))
        if first or len(stops) != args.stops or tally["right"] < 0.9 * args.stops:
            print("FAILED", python, *first[:3], sep="\n  ")
            failed += 1
        else:
            passed += 1
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
