#!/usr/bin/python3
"""The callee of C calls: which builtin or extension function a sample is in, against a target that says of each of its functions
what that calls and by which instruction. Of the samples at such an instruction whose leaf is above the eval loop, 99.5 % must
name the right callee. Needs root.

    callees.py [--all] [--seconds N] [--rate HZ] [PYTHON ...]     --all: every interpreter of pythons.sh"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CPROFD = os.environ.get("CPROFD", os.path.join(ROOT, "build", "cprofd"))
TARGET = os.path.join(ROOT, "tests/targets/callees.py")
SHARE = 0.995
EACH = 0.9      # of each callee by itself, if it was met often
FEW = 30
passed = failed = skipped = 0


def check(good, name, *details):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok" if good else "FAILED", name, *details, flush=True)


def events(python, seconds, rate):
    """What the target said, and the recording's events."""
    with tempfile.TemporaryDirectory() as folder:
        target = subprocess.Popen([python, TARGET, str(seconds + 20)], stdout=subprocess.PIPE)
        try:
            known = json.loads(target.stdout.readline())
            out = os.path.join(folder, "x.cprof")
            done = subprocess.run([CPROFD, "attach", str(target.pid), "-d", str(seconds), "-r", str(rate), "--native=full", "-f", "events",
                                   "-o", out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=seconds + 60)
            if done.returncode:
                raise RuntimeError(done.stderr.decode())
        finally:
            target.kill()
            target.wait()
        lines = subprocess.run(["zstdcat", out], stdout=subprocess.PIPE, check=True).stdout.splitlines()
    return known, [json.loads(line) for line in lines]


def samples(rows, skip):
    """(class, detail, frames out to the innermost Python one) of each sample."""
    begin = 0
    for e in rows:
        kind = e["ev"]
        if kind == "epoch":
            classes, functions, frames, stacks = [("", "")], [], [], [None]
        elif kind == "classes":
            classes += [tuple(r) for r in e["rows"]]
        elif kind == "functions":
            functions += e["rows"]
        elif kind == "frames":
            frames += e["rows"]
        elif kind == "stacks":
            stacks += e["rows"]
        elif kind == "samples":
            begin = begin or e["t"][0]
            time = 0
            for i, stack in enumerate(e["stack"]):
                time += e["t"][i]
                if time < begin + skip * 1e9:
                    continue
                path = []
                while stack:
                    stack, frame = stacks[stack]
                    row = frames[frame]
                    function = functions[row[0]]
                    path.append((function, row[1]))
                    if len(function) < 5 or function[4] == 0:
                        break
                yield classes[e.get("class", [0] * len(e["stack"]))[i]], path


def judge(python, seconds, rate, show, skip):
    known, rows = events(python, seconds + skip, rate)
    right, wrong = collections.Counter(), collections.defaultdict(collections.Counter)
    for (kind, detail), path in samples(rows, skip):
        if len(path) < 2 or path[-1][0][0].split(".")[-1] not in known or kind in ("kernel", "GC"):
            continue
        if any(len(f) > 4 and f[4] == 3 for f, _ in path):
            continue  # a cut stack says so
        expected, ways, spans, text = known[path[-1][0][0].split(".")[-1]]
        if not any(first <= path[-1][1] < end for first, end in spans):
            continue
        if kind != "C call" if not expected else kind == "C call" and (detail == expected or detail in ways):
            right[text] += 1
        else:
            wrong[text]["%s %s: %s" % (kind, detail, " < ".join(f[0] for f, _ in path[:6]))] += 1
    n_wrong = sum(sum(c.values()) for c in wrong.values())
    total = sum(right.values()) + n_wrong
    name = os.path.basename(python)
    print("%s: %d samples of %d calls, right %.3f %%" % (name, total, len(known), 100.0 * sum(right.values()) / max(total, 1)))
    for text, c in sorted(wrong.items(), key=lambda row: -sum(row[1].values()))[:show]:
        print("    %5d of %5d  %s" % (sum(c.values()), sum(c.values()) + right[text], text))
        for what, n in c.most_common(2):
            print("          %5d %s" % (n, what))
    check(total and sum(right.values()) >= SHARE * total, "%s: callees" % name)
    bad = [t for t, c in wrong.items() if sum(c.values()) + right[t] >= FEW and right[t] < EACH * (sum(c.values()) + right[t])]
    check(not bad, "%s: each callee" % name, *bad[:8])


def main():
    global skipped
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=int, default=7)
    parser.add_argument("--rate", type=int, default=4999)
    parser.add_argument("--show", type=int, default=12)
    parser.add_argument("--skip", type=int, default=1, help="seconds: symbols of large debug information are read meanwhile")
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
            judge(python, arguments.seconds, arguments.rate, arguments.show, arguments.skip)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
