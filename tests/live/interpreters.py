#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# run-live: once
"""Interpreters that live for some ms (tests/targets/interpreters.py): from its first sample on each has its own frames, below those of the interpreter
that runs it. The eval loops on the native stack, one for each such call, say whether frames are missing (docs/weaving.md). Needs root.

    interpreters.py [--all] [--seconds N] [PYTHON ...]     --all: every interpreter of pythons.sh; else the system's, the oldest and the newest"""
import argparse
import collections
import os
import sys

from lib import ROOT
from lib.calls import add_interpreters, every_interpreter, run, told_by
from lib.recording import Batches, kind_of, record, rows
from lib.result import check, check_figures
from lib.wait import few

TARGET = os.path.join(ROOT, "tests/targets/interpreters.py")
FEW = 300
NOTE = 3  # kind of a frame that says that something is missing
# Which Python frames lie in a row below `turn`, outermost first.
WITHIN = ("runs", "<module>", "within", "leaf_within")


def judge(python, seconds):
    tables, false, n, cut = Batches(), collections.Counter(), 0, 0
    with told_by(python, TARGET) as (target, _):
        for event in record(target.pid, seconds, 2999):
            tables.feed(event)
            for _, stack in rows(event, "stack") if event["ev"] == "samples" else ():
                path = [function for function, _ in tables.path(stack)][::-1]
                names = [function[0].split(".")[-1] for function in path if not kind_of(function)]
                n += 1
                cut += any(kind_of(function) == NOTE or function[0].startswith("(cut:") for function in path)
                if "leaf_within" in names and tuple(names[names.index("turn") + 1:] if "turn" in names else ()) != WITHIN:
                    false[" ".join(names)] += 1
    of = os.path.basename(os.path.realpath(python)) + ":"
    check_figures(n >= FEW, of, n, "samples")
    check(not false, of + " frames of an interpreter are below those of who runs it", false.most_common(4))
    check_figures(cut <= few(n, 0.001), of + " cut", cut)


def main():
    parser = argparse.ArgumentParser()
    add_interpreters(parser, default=())
    parser.add_argument("--seconds", type=int, default=3)
    arguments = parser.parse_args()
    if not arguments.pythons:
        found = every_interpreter()
        arguments.pythons = sorted({"/usr/bin/python3", *found[:1], *found[-1:]})
    return run(lambda python: judge(python, arguments.seconds), arguments)


if __name__ == "__main__":
    sys.exit(main())
