#!/usr/bin/python3
"""Edges of the call graph at polymorphic call sites, against a target that says what may stand between a site and the Python function
that it calls: none other may. Needs root.

    polymorphic.py [--all] [--seconds N] [--rate HZ] [PYTHON ...]     --all: every interpreter of pythons.sh"""
import argparse
import collections
import json
import os
import subprocess
import sys

from samples import HERE, ROOT, kind_of, record, samples

TARGET = os.path.join(ROOT, "tests/targets/polymorphic.py")
CALLEE = 6       # kind of a frame that names what was called
COLLECTOR = "(GC)"
passed = failed = skipped = 0


def check(good, name, *details):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok" if good else "FAILED", name, *details, flush=True)


def edges(path):
    """(site, C functions between, what it called), of each site of a stack; innermost first."""
    between, inner = [], None
    for function, _ in path:
        kind, name = kind_of(function), function[0]
        if kind == CALLEE and name != COLLECTOR:
            between.append(name)
        elif not kind:
            name = name.split(".")[-1]
            if name.startswith("site_") and inner is not None:
                yield name, between, inner
            between, inner = [], name


def judge(python, seconds, rate, show):
    target = subprocess.Popen([python, TARGET, str(seconds + 4)], stdout=subprocess.PIPE, text=True)
    try:
        legal = json.loads(target.stdout.readline())["between"]
        events = record(target.pid, seconds, rate)
    finally:
        target.kill()
        target.wait()
    false, n, n_edges, python_leaves = collections.Counter(), 0, 0, collections.Counter()
    for sample in samples(events):
        n += 1
        for site, between, inner in edges(sample.frames):
            n_edges += 1
            python_leaves[inner] += 1
            allowed = legal.get(inner)
            wrong = [name for name in between if allowed is None or not any(name == a or name.startswith(a + ".") for a in allowed)]
            if wrong:
                false["%s -> %s -> %s" % (site.rsplit("_", 1)[0], "/".join(wrong), inner)] += 1
    name = os.path.basename(python)
    print("%s: %d samples, %d edges through polymorphic sites, %d false" % (name, n, n_edges, sum(false.values())))
    for what, count in false.most_common(show):
        print("    %6d %s" % (count, what))
    check(n_edges > 300 and not false, "%s: edges" % name)
    check(len(python_leaves) >= 5, "%s: kinds of calls that were met" % name, dict(python_leaves))


def main():
    global skipped
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rate", type=int, default=1999)
    parser.add_argument("--show", type=int, default=10)
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
            judge(python, arguments.seconds, arguments.rate, arguments.show)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
