#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Edges of the call graph of a program that says of each of its functions what it calls, in Python and in C: whatever else a stack shows
below it never happened. Many of its C functions end with a jump, or run for so short a time that a sample meets the interpreter's helpers
alone. Needs root.

    edges.py [--all] [--seconds N] [--rate HZ] [--option OPTION ...] [PYTHON ...]     --all: every interpreter of pythons.sh"""
import argparse
import collections
import json
import os
import subprocess
import sys

from samples import HERE, ROOT, kind_of, record, samples

TARGET = os.path.join(ROOT, "tests/targets/edges.py")
CALLEE = 6       # kind of a frame that names what was called
COLLECTOR = "(GC)"
FEW = 200
passed = failed = skipped = 0


def check(good, name, *details):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok" if good else "FAILED", name, *details, flush=True)


def bare(names):
    """Of a method that several types have, the name alone is told where the type is not known."""
    return [name.split(".")[-1] for name in names]


def wrong(path, known):
    """Each edge of a stack that the program does not have, and how many edges there are."""
    n, false, called, runs = 0, [], None, []
    for function, _ in path:
        kind, name = kind_of(function), function[0]
        if kind == CALLEE and name != COLLECTOR:
            runs.append(name)
        elif not kind: # no function of a library runs
            name = name.split(".")[-1]
            if name in known:
                calls, may = known[name]
                n += bool(called) + len(runs)
                false += ["%s -> %s" % (name, called)] if called and called not in calls else []
                false += ["%s -> %s" % (name, run) for run in runs if run not in may and run not in bare(may)]
            called, runs = name, []
    return n, false


def judge(python, seconds, rate, options):
    target = subprocess.Popen([python, TARGET, str(seconds + 60)], stdout=subprocess.PIPE, text=True)
    try:
        known = json.loads(target.stdout.readline())
        events = record(target.pid, seconds, rate, *options)
    finally:
        target.kill()
        target.wait()
    n = n_samples = 0
    false, met = collections.Counter(), set()
    for sample in samples(events):
        more, edges = wrong(sample.frames, known)
        n, n_samples = n + more, n_samples + 1
        false.update(edges)
        met.update(function[0].split(".")[-1] for function, _ in sample.frames)
    name = " ".join([os.path.basename(python), *options])
    check(n > FEW and not false, "%s: no edge that never happened" % name, "of %d in %d samples" % (n, n_samples), dict(false.most_common(20)))
    check(len(met & set(known)) > len(known) - 6, "%s: functions that were met" % name, sorted(set(known) - met))


def main():
    global skipped
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--rate", type=int, default=4999)
    parser.add_argument("--option", action="append", default=[])
    parser.add_argument("pythons", nargs="*", default=["/usr/bin/python3"])
    arguments = parser.parse_args()
    pythons = arguments.pythons
    if arguments.all:
        rows = subprocess.run([os.path.join(HERE, "pythons.sh")], stdout=subprocess.PIPE, text=True).stdout
        pythons = [row.split()[1] for row in rows.splitlines()]
    if os.geteuid():
        skipped += 1
    else:
        for python in pythons:
            judge(python, arguments.seconds, arguments.rate, arguments.option)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
