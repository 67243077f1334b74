#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# run-live: once
"""Edges of the call graph of a program that documents what each of its functions calls, in Python and in C: any other
edge in a stack is false. Many of its C functions end with a tail call, or are so short that a sample hits only the interpreter's
helpers. Needs root.

    edges.py [--all] [--seconds N] [--samples N] [--rate HZ] [--option OPTION ...] [PYTHON ...]
                   --all: every interpreter of pythons.sh; --samples: as often as it takes to have so many"""
import argparse
import collections
import os
import sys

from lib.calls import add_interpreters, calls, own_name, run, told_by
from lib.result import check_figures
from lib import ROOT
from lib.recording import kind_of, record, samples

TARGET = os.path.join(ROOT, "tests/targets/edges.py")
FEW, RUNS = 200, 20  # on a machine with other work


def bare(names):
    """Of a method that several types have, the name alone is told where the type is not known."""
    return [name.split(".")[-1] for name in names]


def native(path):
    """What is inside of the innermost Python function."""
    return " < ".join(f[0] for f, _ in path[:next((i for i, (f, _) in enumerate(path) if not kind_of(f)), 0)])


def wrong(path, known):
    """Each edge of a stack that the program does not have, and how many edges there are."""
    n, false = 0, []
    for caller, between, inner in calls(path):
        if caller not in known:
            continue
        called, may = known[caller]
        n += bool(inner) + len(between)
        false += ["%s -> %s" % (caller, inner)] if inner and inner not in called else []
        false += ["%s -> %s%s (native: %s)" % (caller, name, " -> " + inner if inner else "", native(path))
                  for name in between if name not in may and name not in bare(may)]
    return n, false


def judge(python, seconds, rate, options, enough):
    n = n_samples = runs = 0
    false, met = collections.Counter(), set()
    with told_by(python, TARGET, 1e9) as (target, known):
        while not runs or n_samples < enough or (runs < RUNS and n <= FEW):
            runs += 1
            for sample in samples(record(target.pid, seconds, rate, *options)):
                more, edges = wrong(sample.frames, known)
                n, n_samples = n + more, n_samples + 1
                false.update(edges)
                met.update(own_name(function) for function, _ in sample.frames)
    name = " ".join([os.path.basename(python), *options])
    check_figures(n > FEW and not false, "%s: no edge that never happened" % name, "of %d in %d samples" % (n, n_samples), dict(false.most_common(20)))
    check_figures(len(met & set(known)) > len(known) - 6, "%s: functions that were met" % name, sorted(set(known) - met))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--rate", type=int, default=4999)
    parser.add_argument("--option", action="append", default=[])
    add_interpreters(parser)
    arguments = parser.parse_args()
    return run(lambda python: judge(python, arguments.seconds, arguments.rate, arguments.option, arguments.samples), arguments)


if __name__ == "__main__":
    sys.exit(main())
