#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Deep recursions: each stack has every call of its path, which the target logs, and hardly any stack is incomplete or lost. Needs root.

    deep.py [--all] [--seconds N] [PYTHON ...]     --all: every interpreter of pythons.sh; else the oldest, and Debian's"""
import argparse
import collections
import os
import sys

from lib.calls import add_interpreters, every_interpreter, own_name, run, told_by
from lib.result import check_figures
from lib import ROOT
from lib.recording import kind_of, record, samples

TARGET = os.path.join(ROOT, "tests/targets/deep.py")
KINDS = (("calls", 5000), ("eval", 900), ("mixed", 1200))
NAMELESS = "(name unknown)" # code that was gone when it was read
SHARE = 0.005    # may be cut or lost
ENOUGH = 150     # samples at the way's end
RUNS = 10
# A walk of before the tables were made is done again over a copy of the stack, which is short (docs/unwinding.md).
EARLY = "still being built", "in no code that is known"


def is_way(names, way):
    return len(names) == len(way) and all(name in (right, NAMELESS) for name, right in zip(names, way))


def judge(python, kind, depth, seconds):
    n = lost = runs = 0
    other, losses, cuts = collections.Counter(), collections.Counter(), collections.Counter()
    with told_by(python, TARGET, kind, depth) as (target, way):
        while n < ENOUGH and runs < RUNS:
            runs += 1
            events = record(target.pid, seconds, 499)
            losses.update([event for event in events if event["ev"] == "ledger"][-1]["losses"])
            for sample in samples(events):
                functions = [function for function, _ in reversed(sample.frames)]
                cut = [function[0] for function in functions if function[0].startswith("(cut:")]
                names = [own_name(function) for function in functions if not kind_of(function) or function[0] == NAMELESS]
                if "bottom" not in names or any(early in note for note in cut for early in EARLY):
                    continue
                n += 1
                cuts.update(cut[:1])
                before = names[:names.index("bottom")][-len(way):]
                if not cut and not is_way(before, way):
                    other["%d calls, not %d" % (len(before), len(way))] += 1
    name = "%s, %s, %d calls" % (os.path.basename(python), kind, len(way))
    check_figures(n >= ENOUGH, name + ": samples", n)
    check_figures(not other, name + ": each stack has every call", dict(other.most_common(3)))
    check_figures(sum(cuts.values()) <= 1 + SHARE * n, name + ": cut", "%d of %d" % (sum(cuts.values()), n), dict(cuts), dict(losses))
    check_figures(losses["ring_full"] <= 1 + SHARE * n, name + ": lost in a full ring", "%d of %d" % (losses["ring_full"], n))


def oldest():
    pythons = every_interpreter()
    return ["/usr/bin/python3", *(python for python in pythons[:1] if len(pythons) > 1)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=2)
    add_interpreters(parser, [])
    arguments = parser.parse_args()
    arguments.pythons = arguments.pythons or oldest()
    return run(lambda python: [judge(python, kind, depth, arguments.seconds) for kind, depth in KINDS], arguments)


if __name__ == "__main__":
    sys.exit(main())
