#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# run-live: once
"""Frames that come by unusual ways (tests/targets/crossings.py): the target's source says which functions each of its lines may call, and each
stack is held against that. Needs root.

    crossings.py [--all] [--seconds N] [--rate HZ] [PYTHON ...]     --all: every interpreter of pythons.sh; else the system's and the newest"""
import argparse
import collections
import os
import re
import sys

from lib import ROOT
from lib.calls import CALLEE, COLLECTOR, add_interpreters, every_interpreter, run, told_by
from lib.recording import Batches, kind_of, record, rows
from lib.result import check, check_figures
from lib.wait import few

TARGET = os.path.join(ROOT, "tests/targets/crossings.py")
NOTE = 3         # kind of a frame that says that something is missing
FEW = 500        # on a machine with other work
RUNS = 10
LEVELS = 13      # of `level`, when `base` runs below it
# `throw()` into a generator that delegates has fewer eval loops than frames, up to 3.11 (docs/weaving.md); frames change as they are read.
CUT = 0.05
NUMBERED = re.compile(r"(\w+?)_(\d+)$")
# What calls which, of functions with a number.
CHAINS = {"down": {"down", "key", "burn"}, "key": {"burn"}, "first": {"second"}, "second": {"third"}, "third": {"burn"}, "<module>": {"down"}}

Frame = collections.namedtuple("Frame", "name number file first line runs")


def source():
    """The Python functions, and the C functions that each line may call; the former of any line are those of line 0."""
    called, runs = {0: set()}, {}
    for number, line in enumerate(open(TARGET), 1):
        for kind, names in re.findall(r"# (call|runs|anywhere): ([^#\n]*)", line):
            {"call": called, "runs": runs, "anywhere": called}[kind][0 if kind == "anywhere" else number] = set(names.split())
    return called, runs


def stacks(events):
    """Of each sample: (function's row, line), innermost first."""
    tables = Batches()
    for event in events:
        tables.feed(event)
        for _, stack in rows(event, "stack") if event["ev"] == "samples" else ():
            yield [(function, row[2] if len(row) > 2 else 0) for function, row in tables.path(stack)]


def python_frames(path):
    """The Python frames of a stack, outermost first, each with the C functions that it called; None: it is cut."""
    found, runs = [], []
    for function, line in path:
        kind = kind_of(function)
        if kind == NOTE or (not kind and function[0].startswith("(")):
            return None
        if kind == CALLEE and function[0] != COLLECTOR:
            runs.append(function[0])
        elif not kind:
            name = function[0].split(".")[-1]
            numbered = NUMBERED.match(name)
            found.append(Frame(numbered.group(1) if numbered else name, numbered and int(numbered.group(2)), function[1], function[2], line, runs))
            runs = []
    return found[::-1]


def wrong_edge(outer, inner, called):
    """Why one frame does not call the other, or None."""
    if outer.file == TARGET and outer.number is None:
        if inner.name not in called.get(outer.line, ()) and inner.name not in called[0]:
            return "line %d: %s -> %s" % (outer.line, outer.name, inner.name)
    elif inner.number is not None or outer.number is not None:
        if inner.name not in CHAINS.get(outer.name, ()):
            return "%s -> %s" % (outer.name, inner.name)
        if None not in (outer.number, inner.number) and outer.number != inner.number:
            return "%s -> %s of another number" % (outer.name, inner.name)
    return None


def wrong(frames, called, runs):
    """What is false in a stack."""
    for outer, inner in zip(frames, frames[1:]):
        why = wrong_edge(outer, inner, called)
        if why:
            yield why
    for frame in frames:
        if frame.file == TARGET and frame.line in runs:
            yield from ("line %d: %s calls %s" % (frame.line, frame.name, name) for name in frame.runs
                        if not any(name in (right, right.split(".")[-1]) for right in runs[frame.line]))
        if frame.file.startswith("/of/") and (frame.number != int(frame.file[4:]) or frame.first != frame.number):
            yield "%s of another file or line" % frame.name
    names = [frame.name for frame in frames]
    resumed = frames[names.index("resume")].line if "resume" in names else 0
    if names[-1:] == ["base"] and resumed and "generator.throw" not in runs[resumed] and names.count("level") != LEVELS:
        yield "base below %d of %d" % (names.count("level"), LEVELS)


def judge(python, seconds, rate):
    called, runs = source()
    n = cut = attempts = 0
    false, met = collections.Counter(), collections.Counter()
    while not attempts or (n < FEW and attempts < RUNS):
        attempts += 1
        with told_by(python, TARGET, seconds + 60) as (target, _):
            events = record(target.pid, seconds, rate)
        for path in stacks(events):
            frames = python_frames(path)
            n += 1
            if frames is None:
                cut += 1
                continue
            false.update(wrong(frames, called, runs))
            met.update({frame.name for frame in frames})
    name = os.path.basename(os.path.realpath(python))
    check_figures(n >= FEW, "%s: samples" % name, n)
    check(not false, "%s: each edge is one that the source has" % name, n, false.most_common(8))
    check(cut <= few(n, CUT), "%s: stacks are whole" % name, cut, n)


def main():
    parser = argparse.ArgumentParser()
    add_interpreters(parser, default=())
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=2999)
    arguments = parser.parse_args()
    if not arguments.pythons:
        arguments.pythons = sorted({"/usr/bin/python3", *every_interpreter()[-1:]})
    return run(lambda python: judge(python, arguments.seconds, arguments.rate), arguments)


if __name__ == "__main__":
    sys.exit(main())
