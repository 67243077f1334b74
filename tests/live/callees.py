#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The callee of C calls: which builtin or extension function a sample is in, against a target that documents for each of its functions
what it calls and by which instruction. Of the samples at such an instruction whose leaf is above the eval loop, 99.5 % must
name the right callee. Needs root.

    callees.py [--all] [--names] [--dispatcher] [--seconds N] [--rate HZ] [PYTHON ...]     --all: every interpreter of pythons.sh"""
import argparse
import collections
import json
import os
import subprocess
import sys

from lib.calls import add_interpreters, run, told_by
from lib.result import check_figures, skip
from lib.wait import few, spread
from lib import ROOT
from lib.recording import kind_of, record, samples

TARGET = os.path.join(ROOT, "tests/targets/callees.py")
SITES = os.path.join(ROOT, "build", "tests/tools/bytecode_sites")
DISPATCHER = os.path.join(ROOT, "tests/targets/dispatch.py")
NOTE = 3        # kind of a frame that says that something is missing
SHARE = 0.995
EACH = 0.9      # of each callee by itself, if it was met often; where that is not so often, less what chance does
FEW = 30
BARE = 0.02      # of methods alone, without their type


def recording(python, seconds, rate):
    """What the target said, and the recording."""
    with told_by(python, TARGET, seconds + 20) as (target, known):
        return known, record(target.pid, seconds, rate)


def judge(python, seconds, rate, show, begin):
    if subprocess.call([python, "-c", "import zlib"], stderr=subprocess.DEVNULL):
        skip("%s has no zlib" % python)
        return
    known, events = recording(python, seconds + begin, rate)
    right, bare, wrong = collections.Counter(), collections.Counter(), collections.defaultdict(collections.Counter)
    for sample in samples(events, innermost=True):
        path = sample.frames
        caller = path[-1][0][0].split(".")[-1] if path else ""
        if sample.time < begin * 1e9 or len(path) < 2 or caller not in known or sample.kind in ("kernel", "GC"):
            continue
        if any(kind_of(f) == NOTE for f, _ in path):
            continue  # a cut stack says so
        expected, ways, spans, text = known[caller]
        if not any(first <= path[-1][1] < end for first, end in spans):
            continue
        is_call = sample.kind == "C call"
        if is_call and (sample.name == expected or sample.name in ways) if expected else not is_call:
            right[text] += 1
        elif is_call and expected and sample.name == expected.split(".")[-1]:
            bare[text] += 1  # of which type is not known where the C function is inlined into what calls it
        else:
            wrong[text]["%s %s: %s" % (sample.kind, sample.name, " < ".join(f[0] for f, _ in path[:6]))] += 1
    n_wrong = sum(sum(c.values()) for c in wrong.values())
    total = sum(right.values()) + sum(bare.values()) + n_wrong
    name = os.path.basename(python)
    print("%s: %d samples of %d calls, right %.3f %%, %d without the type" % (
        name, total, len(known), 100.0 * sum(right.values()) / max(total, 1), sum(bare.values())))
    for text, c in sorted(wrong.items(), key=lambda row: -sum(row[1].values()))[:show]:
        print("    %5d of %5d  %s" % (sum(c.values()), sum(c.values()) + right[text], text))
        for what, n in c.most_common(2):
            print("          %5d %s" % (n, what))
    check_figures(sum(bare.values()) <= few(total, BARE), "%s: types of methods" % name)
    right.update(bare)
    check_figures(total > 500 and n_wrong <= few(total, 1 - SHARE), "%s: callees" % name)
    n_of = {t: sum(c.values()) + right[t] for t, c in wrong.items()}
    bad = [t for t, n in n_of.items() if n >= FEW and right[t] < (EACH - spread(EACH, n)) * n]
    check_figures(not bad, "%s: each callee" % name, *bad[:8])


def dispatcher(python, seconds, rate):
    """Numba's dispatcher is called as any object: by its type's __call__. What is neither the kernel's nor the caller's is dispatch."""
    if subprocess.call([python, "-c", "import numba"], stderr=subprocess.DEVNULL):
        skip("%s has no numba" % python)
        return
    target = subprocess.Popen([python, DISPATCHER, str(seconds + 20)], stdout=subprocess.PIPE, text=True)
    try:
        target.stdout.readline()
        events = record(target.pid, seconds, rate)
    finally:
        target.kill()
        target.wait()
    callees, classes, odd, n = collections.Counter(), collections.Counter(), collections.Counter(), 0
    for sample in samples(events, innermost=True):
        path = [f[0] for f, _ in sample.frames]
        if not path or not path[-1].endswith("drive") or sample.kind in ("kernel", "GC") or not any("Dispatcher" in f or "kernel(" in f for f in path):
            continue
        n += 1
        callees[path[-2]] += 1
        # The kernel itself has its name and no more; its wrapper unboxes and boxes.
        own = any("kernel(" in f and "wrapper" not in f for f in path)
        classes[sample.kind] += 1
        if sample.kind != ("JIT code" if own else "JIT dispatch"):
            odd["%s %s: %s" % (sample.kind, sample.name, " < ".join(path[:6]))] += 1
    print("dispatcher: %d samples: %s; %s" % (n, ", ".join("%s %d" % row for row in classes.most_common()), dict(callees)))
    for what, count in odd.most_common(5):
        print("    %5d %s" % (count, what))
    check_figures(n and n - callees["_dispatcher.Dispatcher.__call__"] <= few(n, 1 - SHARE), "dispatcher: callee")
    check_figures(n and sum(odd.values()) <= few(n, 1 - SHARE), "dispatcher: classes")


NAMES = r'''
import ast, dis, glob, json, os, sys, sysconfig
files = sorted(glob.glob(os.path.join(sysconfig.get_path("stdlib"), "*.py")))[:150]
def codes(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from codes(constant)
for path in files:
    try:
        source = open(path, encoding="utf-8").read()
        tree, code = ast.parse(source), compile(source, path, "exec")
    except (OSError, SyntaxError, UnicodeDecodeError):
        continue
    calls = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            f = node.func
            calls[node.lineno, node.end_lineno, node.col_offset, node.end_col_offset] = \
                f.attr if isinstance(f, ast.Attribute) else f.id if isinstance(f, ast.Name) else None
    for code in codes(code):
        rows = []
        for row in dis.get_instructions(code):
            if row.opname in ("CALL", "PRECALL", "CALL_KW", "CALL_FUNCTION_EX") and tuple(row.positions) in calls:
                expected = calls[tuple(row.positions)]
                if expected is not None and expected.startswith("__") and not expected.endswith("__"):
                    continue  # mangled
                rows.append([row.offset, expected])
        if rows:
            print(json.dumps([sys.version_info[1], code.co_code.hex(), list(code.co_names), rows]))
'''


def names(python):
    """Which name a call's callee was loaded by, against the source: ast and positions of the standard library's calls, 3.11+."""
    rows = [json.loads(row) for row in subprocess.run([python, "-c", NAMES], stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()]
    text = "".join("%d %s %s\n" % (minor, code, " ".join(str(offset) for offset, _ in calls)) for minor, code, _, calls in rows)
    told = iter(subprocess.run([SITES], input=text, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines())
    n = exact = wrong = 0
    for minor, code, known, calls in rows:
        for offset, expected in calls:
            is_exact, name = (int(word) for word in next(told).split())
            n, exact = n + 1, exact + is_exact
            # Of a local's or a cell's name nothing is said.
            if is_exact and name >= 0 and known[name] != expected:
                wrong += 1
                if wrong < 6:
                    print("    %s, not %s, at %d of %s" % (known[name], expected, offset, known[:6]))
    name = os.path.basename(python)
    print("%s: %d calls, %.2f %% exact, %d wrong" % (name, n, 100.0 * exact / max(n, 1), wrong))
    check_figures(n and exact >= 0.9 * n and not wrong, "%s: names of what calls call" % name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--names", action="store_true", help="names of callees in the standard library's bytecode, instead; 3.11+")
    parser.add_argument("--dispatcher", action="store_true", help="calls of a function that Numba compiled, instead")
    parser.add_argument("--seconds", type=int, default=7)
    parser.add_argument("--rate", type=int, default=4999)
    parser.add_argument("--show", type=int, default=12)
    parser.add_argument("--skip", type=int, default=1, help="seconds: symbols of large debug information are read meanwhile")
    add_interpreters(parser)
    arguments = parser.parse_args()

    def one(python):
        if arguments.names:
            names(python)
        elif arguments.dispatcher:
            dispatcher(python, arguments.seconds, arguments.rate)
        else:
            judge(python, arguments.seconds, arguments.rate, arguments.show, arguments.skip)
    return run(one, arguments)


if __name__ == "__main__":
    sys.exit(main())
