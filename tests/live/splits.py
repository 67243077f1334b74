#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Classes of time against a target that spends known shares of its time and measures them itself, with the clock of its
thread. Each class within a percentage point (of a short run: what chance
allows). Needs root.

    splits.py [--mode cpu|wall] [--samples N] [--seconds N] [--rate HZ] [PYTHON ...]

Mode wall: of wall time, with the time without a CPU; the sum of each thread's classes is its wall time to a thousandth.
--samples 60000 takes 80 s or more, and the bars as they are."""
import argparse
import collections
import json
import os
import subprocess
import sys

from lib.wait import few, spread
from lib import ROOT
from lib.recording import record, samples
from lib.result import check_figures, finish, skip

TARGET = os.path.join(ROOT, "tests/targets/splits.py")
POINTS = 1.0
FULL = 60000    # samples
# What the kernel does in two of the ways.
KERNEL = {"fault": ("page fault", "munmap", "mmap"), "syscall": ("pread64", "pread")}
NAMED = 0.98
# Memory that was used once is kept: page faults are for the function that makes them.
KEEP = dict(os.environ, PYTHONMALLOC="malloc", MALLOC_TRIM_THRESHOLD_="1000000000", MALLOC_MMAP_THRESHOLD_="1000000000",
            MALLOC_TOP_PAD_="200000000")
WAYS = ("bytecode", "builtin", "extension", "collector", "import", "fault", "syscall")
KEEP.pop("PYTHONDONTWRITEBYTECODE", None)


def recording(python, seconds, rate, wall):
    """What the target spent meanwhile, by its own account (wall: its marks), and the recording."""
    def ask(what):
        target.stdin.write(what)
        target.stdin.flush()
        return json.loads(target.stdout.readline())

    target = subprocess.Popen([python, TARGET, str(seconds + 60)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=KEEP)
    try:
        target.stdout.readline()
        before = ask(b"?\n")
        events = record(target.pid, seconds, rate, "--kernel", *(["--mode=wall"] if wall else []))
        after = ask(b"?\n")
        marks = ask(b"marks\n") if wall else None
    finally:
        target.kill()
        target.wait()
    return {name: after[name] - before[name] for name in after}, marks, events


def way_of(path):
    """Which of the target's ways of spending time this is in."""
    ways = ("bytecode", "builtin", "extension", "collector", "importing", "fault", "syscall")
    own = next((f for f in path if f in ways), None)
    return {"importing": "import"}.get(own, own)


def measured_as(kind, detail, way):
    """What a sample's class says; what the kernel does for a way is that way's; an interrupt takes its time from whatever runs."""
    if kind in ("waiting", "ready"):
        return kind
    if kind == "kernel":
        return way or "kernel elsewhere"
    if kind == "C call" and ("zlib" in detail or "binascii.crc32" in detail):
        return "extension"
    if kind == "C call" and detail == "list.count":
        return "builtin"
    return {"import": "import", "GC": "collector", "interpreter": "bytecode"}.get(kind, "%s %s" % (kind, detail))


def walls(events, main):
    """Of each thread: when it began and ended, and the sum of what was told of it; and the main thread's id."""
    begin, end, told, ids = {}, {}, collections.Counter(), {}
    for e in events:
        if e["ev"] == "thread":
            ids[e["id"]] = e["tid"]
            begin.setdefault(e["id"], e["time"])
        elif e["ev"] == "samples":
            for thread, wall in zip(e.get("thread", [0] * len(e["t"])), e["wall"]):
                told[thread] += wall
        elif e["ev"] == "thread_end":
            end[e["id"]] = e["time"]
            told[e["id"]] += e["wall"]
    return {ids[i]: (begin[i], end[i], told[i]) for i in end}, next(i for i in ids if ids[i] == main)


def window(marks, begin, end):
    """What the target spent between its first mark after begin and its last before end."""
    rows = [row for row in marks if begin <= row[0] <= end]
    first, last = rows[0], rows[-1]
    truth = dict(zip(WAYS, (b - a for a, b in zip(first[2:], last[2:]))))
    truth["ready"] = last[1] - first[1]
    truth["waiting"] = max(0, last[0] - first[0] - sum(truth.values()))
    return truth, first[0], last[0]


def judge(python, seconds, rate, wall, at_least):
    while True:
        truth, marks, events = recording(python, seconds, rate, wall)
        n = sum(len(e["t"]) for e in events if e["ev"] == "samples")
        if n >= at_least:
            break
        # Where others work, too, it takes longer.
        seconds = int(seconds * 1.2 * at_least / max(n, at_least / 4)) + 1
    name = os.path.basename(os.path.realpath(python)) + (", wall" if wall else "")
    since, until, main = 0, 1 << 63, None
    if wall:
        threads, main = walls(events, marks["tid"])
        for tid, (begin, end, told) in threads.items():
            check_figures(abs(told - (end - begin)) <= (end - begin) / 1000, "%s: the classes of %s add up to its wall time" % (
                name, "the main thread" if tid == marks["tid"] else "another thread"), told, end - begin)
        truth, since, until = window(marks["marks"], *threads[marks["tid"]][:2])
    measured, within = collections.Counter(), collections.defaultdict(collections.Counter)
    n, collected = 0, collections.Counter()
    for sample in samples(events):
        n += 1
        if wall and sample.thread != main:
            continue
        ns = min(sample.at, until) - max(sample.at - sample.wall, since) if wall else sample.cpu
        if ns > 0:
            way = way_of([f[0] for f, _ in sample.frames])
            measured[measured_as(sample.kind, sample.name, way)] += ns
            within[way][sample.kind, sample.name] += ns
            if sample.kind == "GC":
                collected["(GC)" in [f[0] for f, _ in sample.frames]] += ns
    total, all_truth = sum(measured.values()), sum(truth.values())
    print("%s: %d samples in %d s" % (name, n, seconds))
    print("    %-12s %8s %8s" % ("", "truth", "measured"))
    for way in truth:
        share, got = 100.0 * truth[way] / all_truth, 100.0 * measured[way] / total
        print("    %-12s %7.2f%% %7.2f%%   %s" % (way, share, got, ", ".join(
            "%s %s %.1f%%" % (k, d, 100.0 * c / max(1, sum(within[way].values()))) for (k, d), c in within[way].most_common(4))))
    check_figures(collected[False] <= 0.01 * collected[True], "%s: the collector has a frame of its own" % name, *([collected] if collected[False] else []))
    rest = {k: 100.0 * v / total for k, v in measured.items() if k not in truth}
    print("    others:", ", ".join("%s %.2f%%" % row for row in sorted(rest.items(), key=lambda r: -r[1])[:8]))
    for way in truth:
        share = truth[way] / all_truth
        # Of a short run, what chance does.
        allowed = POINTS if n >= FULL else max(POINTS, 100 * spread(share, n))
        check_figures(abs(100.0 * share - 100.0 * measured[way] / total) <= allowed, "%s: %s" % (name, way))
    for way, names in KERNEL.items():
        kernel = {d: cpu for (kind, d), cpu in within[way].items() if kind == "kernel" and d != "interrupt"}
        named = sum(cpu for d, cpu in kernel.items() if d in names)
        period = 1e9 / rate
        check_figures(sum(kernel.values()) - named <= few(sum(kernel.values()) / period, 1 - NAMED) * period and named > 0, "%s: the kernel's work in %s has its name" % (name, way),
              "%.1f %%" % (100.0 * named / max(1, sum(kernel.values()))))
    check_figures(sum(v for k, v in rest.items() if str(k).startswith("unknown")) < 100 * few(n, 0.001) / n, "%s: unknown" % name)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rate", type=int, default=1999)
    parser.add_argument("--mode", choices=("cpu", "wall"), default="cpu")
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("pythons", nargs="*", default=["/usr/bin/python3"])
    arguments = parser.parse_args()
    if os.geteuid():
        skip("needs root")
    else:
        for python in arguments.pythons:
            seconds = max(arguments.seconds, arguments.samples // 750)
            judge(python, seconds, arguments.rate, arguments.mode == "wall", arguments.samples)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
