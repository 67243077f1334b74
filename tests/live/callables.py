#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Objects that are callable because of their type: a call of a ufunc is named by the ufunc, other calls by the type or by what they call,
never by a method of the type that was not called. Against a target that logs what it calls and for how long. Needs root.

    callables.py [--seconds N] [--rate HZ] [PYTHON ...]"""
import argparse
import collections
import fnmatch
import json
import os
import subprocess
import sys

from lib.wait import few, spread
from lib import ROOT
from lib.recording import kind_of, record, samples
from lib.result import check_figures, finish, skip

TARGET = os.path.join(ROOT, "tests/targets/callables.py")
CALLEE = 6
SHARE = 0.99


def recording(python, seconds, rate):
    target = subprocess.Popen([python, TARGET, str(seconds + 3)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        known = json.loads(target.stdout.readline())
        return known, record(target.pid, seconds, rate), json.loads(target.stdout.readline())
    finally:
        target.kill()
        target.wait()


def is_right(name, right):
    return any(name == r or (r[0] == "*" and fnmatch.fnmatchcase(name, r)) or (r[-1] == "*" and fnmatch.fnmatchcase(name, r)) for r in right)


def judge(python, seconds, rate, show, skip):
    known, events, spent = recording(python, seconds + skip, rate)
    told = collections.defaultdict(collections.Counter)
    false, right, n_of, cpu = (collections.Counter() for _ in range(4))
    for sample in samples(events):
        at = [i for i, (f, _) in enumerate(sample.frames) if f[0].split(".")[-1] in known]
        if not at:
            continue
        caller, inner = sample.frames[at[0]][0][0].split(".")[-1], sample.frames[:at[0]]
        cpu[caller] += sample.cpu
        if sample.time < skip * 1e9 or not any(first <= sample.frames[at[0]][1] < end for first, end in known[caller]["calls"]):
            continue
        if not inner or not all(kind_of(f) for f, _ in inner) or sample.kind in ("kernel", "GC", "interpreter", "JIT code"):
            continue
        names = [f[0] for f, _ in inner if kind_of(f) == CALLEE and f[0] != "(GC)"]
        n_of[caller] += 1
        good = is_right(names[-1] if names else sample.name, known[caller]["right"])
        right[caller] += good
        if not good:
            told[caller]["%s %s" % (sample.kind, " < ".join(names) or sample.name)] += 1
        for name in names:
            if any(name.endswith(w) for w in known[caller]["wrong"]):
                false["%s in %s" % (name, known[caller]["expression"])] += 1
    n = sum(n_of.values())
    name = os.path.basename(os.path.dirname(os.path.dirname(python))) if "venv" in python else os.path.basename(python)
    print("%s: %d samples of %d callables, right %.2f %%, %d by an unrelated method" % (
        name, n, len(known), 100.0 * sum(right.values()) / max(n, 1), sum(false.values())))
    for caller in sorted(n_of, key=lambda c: right[c] - n_of[c])[:show]:
        if right[caller] < n_of[caller]:
            print("    %5d of %5d right: %s: %s" % (right[caller], n_of[caller], known[caller]["expression"], dict(told[caller])))
    check_figures(n > 300 and not false, "%s: no unrelated method" % name, dict(false))
    check_figures(n - sum(right.values()) <= few(n, 1 - SHARE), "%s: names" % name)
    total, told_total = sum(spent.values()), sum(cpu.values())
    off = {known[c]["expression"]: (round(cpu[c] / told_total, 4), round(s / total, 4)) for c, s in spent.items()
           if abs(cpu[c] / told_total - s / total) > 0.005 + spread(s / total, sum(n_of.values()))}
    check_figures(not off, "%s: shares" % name, off)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--rate", type=int, default=3999)
    parser.add_argument("--skip", type=int, default=1, help="seconds: symbols of large modules are read meanwhile")
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("pythons", nargs="*", default=["/usr/bin/python3"])
    arguments = parser.parse_args()
    if os.geteuid():
        skip("needs root")
    else:
        for python in arguments.pythons:
            judge(python, arguments.seconds, arguments.rate, arguments.show, arguments.skip)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
