#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The lines that cost the compile, as `report --by=source-line` shows them, against clocks around Numba's own lower_inst() and constraints in the
target (compile_lines.py). Those of a compiler that runs what it compiles, against clocks in that (compile_traced.py); of Triton, around its visits of statements (compile_triton_lines.py).

    tests/live/source_lines.py [--python FILE] [--jax FILE] [--triton FILE] [--seconds N] [--without] [--show]

Each line's share of the compiles' CPU time, of lowering and of typing, must be within two points of what the clocks say; each line of a function
must be one of its own; and the rows must add up to what the table `source` says. --without: a second run without clocks, against those of the first.
--jax, --triton: Pythons with these, and no other test.
Needs root."""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

from lib import CPROFD
from units_told import finish, verdict

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRITON = os.path.join(ROOT, "tests/targets/compile_triton_lines.py")
TRACED = os.path.join(ROOT, "tests/targets/compile_traced.py")
TARGET = os.path.join(ROOT, "tests/targets/compile_lines.py")
POINTS = 2


def report(recording, by):
    text = subprocess.run([CPROFD, "report", recording, "--by=" + by, "--json"], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(text.decode())["tables"][0]["rows"]


def cpu(row, which):
    return sum(each[which + "_cpu_ns"] for each in row["each"])


def run(python, seconds, folder, clocks):
    recording, account = os.path.join(folder, "a.cprof"), os.path.join(folder, "a.json")
    run = subprocess.run([CPROFD, "record", "--native=off", "-o", recording, "--", python, TARGET, str(seconds), account] + clocks,
                         stderr=subprocess.PIPE, universal_newlines=True)
    if run.returncode:
        verdict("the target compiles", run.stderr)
        return None, None, None
    with open(account) as stream:
        return json.load(stream), report(recording, "source-line"), report(recording, "source")


def shares_of(truth, rows):
    """{(function, line, what): %} of the compiles' time. Typing is one phase in another."""
    compiled = sum(cpu(row, "exclusive") for row in rows if not row["name"].startswith("(outside"))
    told = collections.Counter()
    for row in rows:
        if row["name"] in truth["functions"] and row["line"]:
            for phase in row["phases"]:
                what = "typing" if phase["name"] == "typing" or "type_inference" in phase["name"] else "lowering"
                told[row["name"], row["line"], what] += 100 * cpu(phase, "inclusive") / compiled
    return told


def check(label, true, told, note):
    far = ["%s:%d %s %.2f %%, told %.2f %%" % (*key, true[key], told[key]) for key in sorted(set(true) | set(told)) if abs(true[key] - told[key]) > POINTS]
    most = max(abs(true[key] - told[key]) for key in set(true) | set(told))
    verdict(label + "each line's share of lowering and of typing within two points", "; ".join(far[:6]),
            "%d lines, up to %.2f points off, %s" % (len(set(key[:2] for key in true)), most, note))


def traced(kind, target, python, seconds, folder):
    """Lines of one file: a target that tells of each line how long it was at it, and in what is called there."""
    recording, account = os.path.join(folder, "t.cprof"), os.path.join(folder, "t.json")
    run = subprocess.run([CPROFD, "record", "--native=off", "--rules", os.path.join(ROOT, "tests/targets/traced.rules"), "-o", recording, "--",
                          python, *target, str(seconds), account], stderr=subprocess.PIPE, universal_newlines=True)
    if run.returncode:
        return verdict(kind + ": the target compiles", run.stderr)
    with open(account) as stream:
        truth = json.load(stream)
    told = collections.Counter()
    for row in report(recording, "source-line"):
        if row["file"] == target[0] and str(row["line"]) in truth["lines"]:
            told[row["line"]] += cpu(row, "inclusive")
    true = {int(line): 100 * ns / truth["traced"] for line, ns in truth["lines"].items()}
    far = ["line %d: %.2f %%, told %.2f %%" % (line, share, 100 * told[line] / truth["traced"]) for line, share in true.items()
           if abs(share - 100 * told[line] / truth["traced"]) > POINTS]
    most = max(abs(share - 100 * told[line] / truth["traced"]) for line, share in true.items())
    verdict("%s %s: each traced line's share within two points" % (kind, truth["compiler"]), "; ".join(far),
            "%d lines, up to %.2f points off, %.1f s" % (len(true), most, truth["traced"] / 1e9))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--jax")
    parser.add_argument("--triton")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--without", action="store_true")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.jax:
            traced("jax", (TRACED, "jax"), options.jax, options.seconds, folder)
        if options.triton:
            traced("triton", (TRITON,), options.triton, options.seconds, folder)
        if options.jax or options.triton:
            return finish()
        traced("toy", (TRACED, "toy"), options.python, options.seconds / 2, folder)
        truth, rows, sources = run(options.python, options.seconds, folder, ["clocks"])
        if not truth:
            return finish()
        label = "numba %s: " % truth["numba"]
        true = collections.Counter({(name, line, what): 100 * ns / truth["compiled"] for name, line, what, ns in truth["lines"]
                                    if name in truth["functions"]})
        told = shares_of(truth, rows)
        if options.show:
            for key, share in true.most_common(30):
                print("   %6.2f %% %6.2f %%  %s:%d %s" % (share, told[key], *key))
        check(label, true, told, "%.1f s of compiles" % (truth["compiled"] / 1e9))
        outside = ["%s %s:%d" % (row["name"], row["file"], row["line"]) for row in rows if row["name"] in truth["functions"] and row["line"] and
                   (row["file"] != TARGET or not truth["functions"][row["name"]][0] <= row["line"] <= truth["functions"][row["name"]][1])]
        verdict(label + "each line is one of its function", "; ".join(outside[:5]))
        sums = collections.Counter()
        for row in rows:
            sums[row["name"], row["compiler"]] += cpu(row, "exclusive")
        for row in sources:
            sums[row["name"], row["compiler"]] -= cpu(row, "exclusive")
        verdict(label + "the rows add up to the functions' own time", "; ".join("%s %d ns" % (key[0], ns) for key, ns in sums.items() if ns),
                "%d functions" % len(sums))
        if options.without:
            truth, rows, _ = run(options.python, options.seconds, folder, [])
            check(label + "without clocks: ", true, shares_of(truth, rows), "%.1f s of compiles" % (truth["compiled"] / 1e9))
    return finish()


sys.exit(main())
