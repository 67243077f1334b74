#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Deep recursions: of a target that says which way it went, each stack has every call of it, and hardly one is cut or lost. Needs root.

    deep.py [--all] [--seconds N] [PYTHON ...]     --all: every interpreter of pythons.sh; else the oldest, and Debian's"""
import argparse
import collections
import json
import os
import subprocess
import sys

from samples import HERE, ROOT, kind_of, record, samples

TARGET = os.path.join(ROOT, "tests/targets/deep.py")
KINDS = (("calls", 5000), ("eval", 900), ("mixed", 1200))
NOTE = 3         # kind of a frame that says that something is missing
NAMELESS = "(name unknown)" # code that was gone when it was read
SHARE = 0.005    # may be cut or lost
ENOUGH = 150     # samples at the way's end
RUNS = 10
# A walk of before the tables were made is done again over a copy of the stack, which is short (docs/unwinding.md).
EARLY = "still being built", "in no code that is known"
passed = failed = skipped = 0


def check(good, name, *details):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok" if good else "FAILED", name, *details, flush=True)


def judge(python, kind, depth, seconds):
    target = subprocess.Popen([python, TARGET, kind, str(depth)], stdout=subprocess.PIPE, text=True)
    n = lost = runs = 0
    other, losses, cuts = collections.Counter(), collections.Counter(), collections.Counter()
    try:
        way = json.loads(target.stdout.readline())
        while n < ENOUGH and runs < RUNS:
            runs += 1
            events = record(target.pid, seconds, 499)
            found = [event for event in events if event["ev"] == "ledger"][-1]["losses"]
            losses.update(found)
            lost += found.get("ring_full", 0)
            for sample in samples(events):
                notes = [function[0] for function, _ in sample.frames if kind_of(function) == NOTE and function[0].startswith("(cut:")]
                names = [function[0].split(".")[-1] for function, _ in reversed(sample.frames) if not kind_of(function) or function[0] == NAMELESS]
                if "bottom" not in names or any(word in note for note in notes for word in EARLY):
                    continue
                n += 1
                cuts.update(notes[:1])
                between = names[-1 - len(way):-1] if names[-1] == "bottom" else names
                if not notes and (len(between) != len(way) or any(name not in (right, NAMELESS) for name, right in zip(between, way))):
                    other["%d calls, not %d" % (len(between), len(way))] += 1
    finally:
        target.kill()
        target.wait()
    name = "%s, %s, %d calls" % (os.path.basename(python), kind, len(way))
    check(n >= ENOUGH, name + ": samples", n)
    check(not other, name + ": each stack has every call", dict(other.most_common(3)))
    check(sum(cuts.values()) <= 1 + SHARE * n, name + ": cut", "%d of %d" % (sum(cuts.values()), n), dict(cuts), dict(losses))
    if kind != "eval": # makes code without end, and what was read of that is lost in such a ring, too
        check(lost <= 1 + SHARE * n, name + ": lost in a full ring", "%d of %d" % (lost, n))


def main():
    global skipped
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("pythons", nargs="*")
    arguments = parser.parse_args()
    pythons = arguments.pythons
    if not pythons:
        rows = subprocess.run([os.path.join(HERE, "pythons.sh")], stdout=subprocess.PIPE, text=True).stdout
        pythons = [row.split()[1] for row in rows.splitlines()]
        if not arguments.all and len(pythons) > 1:
            pythons = [pythons[0], "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else pythons[-1]]
    if os.geteuid():
        skipped += 1
    else:
        for python in pythons:
            for kind, depth in KINDS:
                judge(python, kind, depth, arguments.seconds)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
