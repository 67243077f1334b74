#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# run-live: once
"""Code objects of files that take the memory of others that are gone: stacks have no function of a module that did not run. Needs root.

From 3.12 on each module that is loaded is new code: of 10 seconds (--seconds 10) more comes than the engine keeps at once, and all that is
sampled has a name nevertheless.

    reused_code.py [--all] [--seconds N] [PYTHON ...]     --all: every interpreter of pythons.sh"""
import argparse
import collections
import os
import sys

from lib import ROOT
from lib.calls import add_interpreters, run, told_by
from lib.recording import kind_of, record, samples
from lib.result import check

TARGET = os.path.join(ROOT, "tests/targets/reused_code.py")
FEW = 300  # on a machine with other work
PARTS = ["<module>", "outer", "inner"]  # what each calls in turn


def chain(frames):
    """The functions of modules in a stack, outermost first: [(module, part)]."""
    for function, _ in reversed(frames):
        if not kind_of(function) and function[1].startswith("/reused/"):
            yield function[1][-5:-3], function[0].split("_")[0]


def judge(python, seconds):
    false, cut, unnamed, n = collections.Counter(), 0, 0, 0
    with told_by(python, TARGET, seconds + 60) as (target, _):
        events = record(target.pid, seconds, 9999)
    for sample in samples(events):
        if any(function[0] == "(name unknown)" for function, _ in sample.frames):
            unnamed += 1
            continue
        found = list(chain(sample.frames))
        n += len(found) > 1
        parts = [part for _, part in found]
        real = any(parts == PARTS[i:i + len(parts)] for i in range(len(PARTS)))
        cut += real and parts != PARTS[:len(parts)]  # frames are missing, none is false
        if len({module for module, _ in found}) > 1 or not real:
            false[" > ".join("%s of %s" % (part, module) for module, part in found)] += 1
    check(n >= FEW, "%s: stacks of modules" % python, n)
    check(sum(false.values()) <= n / 10000, "%s: each stack is of one module" % python, sum(false.values()), n, false.most_common(5))
    check(unnamed <= n / 10, "%s: code has names" % python, unnamed, n)
    check(cut <= max(2, n / 200), "%s: they are whole" % python, cut, n)


def main():
    parser = argparse.ArgumentParser()
    add_interpreters(parser)
    parser.add_argument("--seconds", type=float, default=2)
    options = parser.parse_args()
    return run(lambda python: judge(python, options.seconds), options)


sys.exit(main())
