#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# run-live: once
"""Edges of the call graph at polymorphic call sites, against a target that says what may stand between a site and the Python function
that it calls, and what a site may call that ends in C: none other may. In long runs the time of each C function against the target's own
clock. Needs root.

    polymorphic.py [--all] [--seconds N] [--samples N] [--rate HZ] [PYTHON ...]     --all: every interpreter of pythons.sh
                   --samples: as often as it takes to have so many"""
import argparse
import collections
import json
import os
import signal
import sys

from lib.calls import add_interpreters, calls, run, told_by
from lib.result import check_figures
from lib.wait import spread
from lib import ROOT
from lib.recording import kind_of, record, samples

TARGET = os.path.join(ROOT, "tests/targets/polymorphic.py")
FEW, RUNS = 300, 20  # on a machine with other work
SHARES_SECONDS = 15  # the target takes some seconds for each round


def edges(path):
    """(site, C functions between, what it called), of each site of a stack; innermost first."""
    return (call for call in calls(path) if call.caller.startswith("site_") and call.inner is not None)


def leaf_of(path):
    """(site, the C functions that it called, innermost first), where no Python function is below it."""
    call = next(calls(path), None)
    return (call.caller, call.between) if call and call.caller.startswith("site_") else (None, [])


def recording(python, seconds, rate):
    """What the target says, the events, and the CPU time of its C functions meanwhile."""
    with told_by(python, TARGET, seconds + 60) as (target, known):
        def spent():
            target.send_signal(signal.SIGUSR1)
            return json.loads(target.stdout.readline())
        while not (before := spent()):
            pass
        events = record(target.pid, seconds, rate)
        return known, events, {key: value - before.get(key, 0) for key, value in spent().items()}


def native(path):
    """What is inside of the innermost Python function."""
    return " < ".join(f[0] for f, _ in path[:next(i for i, (f, _) in enumerate(path) if not kind_of(f))])


class Seen:
    def __init__(self):
        self.false, self.leaves = collections.Counter(), collections.Counter()
        self.n = self.n_edges = self.n_leaves = self.n_named = 0
        self.told, self.true = collections.Counter(), collections.Counter()


def count(seen, known, events, spent):
    legal, false = known["between"], seen.false
    for key, value in spent.items():
        seen.true[int(key)] += value
    for sample in samples(events):
        seen.n += 1
        at, names = leaf_of(sample.frames)
        if at in known["leaf"]:
            seen.n_leaves += 1
            seen.n_named += bool(names)
            if names and names[-1] not in known["leaf"][at]:
                false["%s -> %s (leaf; may call %s; native: %s)" % (at.rsplit("_", 1)[0], " > ".join(reversed(names)), known["leaf"][at], native(sample.frames))] += 1
            elif names and at in known["sure"]:
                seen.told[known["sure"][at]] += sample.cpu
        for site, between, inner in edges(sample.frames):
            seen.n_edges += 1
            seen.leaves[inner] += 1
            allowed = legal.get(inner)
            wrong = [name for name in between if allowed is None or not any(name == a or name.startswith(a + ".") for a in allowed)]
            wrong += [name for name in between[-1:] if name != known["first"].get(inner, name)]
            if wrong:
                false["%s -> %s -> %s" % (site.rsplit("_", 1)[0], "/".join(wrong), inner)] += 1


def judge(python, seconds, rate, show, n):
    seen, runs = Seen(), 0
    while not runs or seen.n < n or (runs < RUNS and min(seen.n_edges, seen.n_named) <= FEW):
        count(seen, *recording(python, seconds, rate))
        runs += 1
    name = os.path.basename(python)
    print("%s: %d samples, %d edges through polymorphic sites, %d calls that end in C, of which %d have a name: %d false" % (
        name, seen.n, seen.n_edges, seen.n_leaves, seen.n_named, sum(seen.false.values())))
    for what, number in seen.false.most_common(show):
        print("    %6d %s" % (number, what))
    check_figures(min(seen.n_edges, seen.n_named) > FEW and not seen.false, "%s: edges" % name)
    check_figures(len(seen.leaves) >= 5, "%s: kinds of calls that were met" % name, dict(seen.leaves))
    if seconds * runs >= SHARES_SECONDS:
        # A call that no name leads to may be told without one (max and min are one function), but nothing has more time than it took.
        all_true = sum(seen.true.values())
        over = {key: (round(told / 1e9, 3), round(seen.true[key], 3)) for key, told in seen.told.items()
                if told / 1e9 > 1.02 * seen.true[key] + spread(seen.true[key] / all_true, seen.n_leaves) * all_true}
        check_figures(not over, "%s: no C function has more time than its calls took, told and true" % name, over)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--rate", type=int, default=1999)
    parser.add_argument("--show", type=int, default=10)
    add_interpreters(parser)
    arguments = parser.parse_args()
    return run(lambda python: judge(python, arguments.seconds, arguments.rate, arguments.show, arguments.samples), arguments)


if __name__ == "__main__":
    sys.exit(main())
