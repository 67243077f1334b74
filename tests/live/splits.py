#!/usr/bin/python3
"""Classes of time against a target that spends known shares of its CPU time and measures them itself, with the clock of its
thread. Each class within a percentage point (of a short run: what chance
allows). Needs root.

    splits.py [--seconds N] [--rate HZ] [PYTHON ...]     60,000 samples: --seconds 70"""
import argparse
import collections
import json
import os
import subprocess
import sys

from samples import ROOT, record, samples

TARGET = os.path.join(ROOT, "tests/targets/splits.py")
POINTS = 1.0
FULL = 60000    # samples
# What the kernel does in two of the ways.
KERNEL = {"fault": ("page fault", "munmap", "mmap"), "syscall": ("pread64", "pread")}
NAMED = 0.98
# Memory that was used once is kept: page faults are for the function that makes them.
KEEP = dict(os.environ, PYTHONMALLOC="malloc", MALLOC_TRIM_THRESHOLD_="1000000000", MALLOC_MMAP_THRESHOLD_="1000000000",
            MALLOC_TOP_PAD_="200000000")
KEEP.pop("PYTHONDONTWRITEBYTECODE", None)
passed = failed = skipped = 0


def check(good, name, *details):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok" if good else "FAILED", name, *details, flush=True)


def recording(python, seconds, rate):
    """What the target spent meanwhile, by its own account, and the recording."""
    def used():
        target.stdin.write(b"?\n")
        target.stdin.flush()
        return json.loads(target.stdout.readline())

    target = subprocess.Popen([python, TARGET, str(seconds + 60)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=KEEP)
    try:
        target.stdout.readline()
        before = used()
        events = record(target.pid, seconds, rate, "--kernel")
        after = used()
    finally:
        target.kill()
        target.wait()
    return {name: after[name] - before[name] for name in after}, events


def way_of(kind, detail, path):
    """Which of the target's ways of spending time a class is; the kernel's work for a way is that way's."""
    ways = ("bytecode", "builtin", "extension", "collector", "importing", "fault", "syscall")
    own = next((f for f in path if f in ways), None)
    return {"importing": "import"}.get(own, own)


def judge(python, seconds, rate):
    truth, events = recording(python, seconds, rate)
    spent, within = collections.Counter(), collections.defaultdict(collections.Counter)
    n = 0
    for sample in samples(events):
        n += 1
        klass = sample.kind, sample.name
        spent[klass] += sample.cpu
        within[way_of(*klass, [f[0] for f, _ in sample.frames])][klass] += sample.cpu
    total, all_truth = sum(spent.values()), sum(truth.values())
    measured = collections.Counter()
    for (kind, detail), cpu in spent.items():
        if kind == "kernel":
            continue
        if kind == "import":
            measured["import"] += cpu
        elif kind == "GC":
            measured["collector"] += cpu
        elif kind == "interpreter":
            measured["bytecode"] += cpu
        elif kind == "C call" and ("zlib" in detail or "binascii.crc32" in detail):
            measured["extension"] += cpu
        elif kind == "C call" and detail == "list.count":
            measured["builtin"] += cpu
        else:
            measured["%s %s" % (kind, detail)] += cpu
    # What the kernel does for a way is that way's; an interrupt takes its time from whatever runs.
    within.pop(None, None)
    for way, classes_of in within.items():
        measured[way] += sum(cpu for (kind, _), cpu in classes_of.items() if kind == "kernel")
    name = os.path.basename(os.path.realpath(python))
    print("%s: %d samples" % (name, n))
    print("    %-12s %8s %8s" % ("", "truth", "measured"))
    for way in truth:
        share, got = 100.0 * truth[way] / all_truth, 100.0 * measured[way] / total
        print("    %-12s %7.2f%% %7.2f%%   %s" % (way, share, got, ", ".join(
            "%s %s %.1f%%" % (k, d, 100.0 * c / max(1, sum(within[way].values()))) for (k, d), c in within[way].most_common(4))))
    rest = {k: 100.0 * v / total for k, v in measured.items() if k not in truth}
    print("    others:", ", ".join("%s %.2f%%" % row for row in sorted(rest.items(), key=lambda r: -r[1])[:8]))
    for way in truth:
        share = truth[way] / all_truth
        # Of a short run, three standard deviations.
        allowed = POINTS if n >= FULL else max(POINTS, 300.0 * (share * (1 - share) / max(n, 1)) ** 0.5)
        check(abs(100.0 * share - 100.0 * measured[way] / total) <= allowed, "%s: %s" % (name, way))
    for way, names in KERNEL.items():
        kernel = {d: cpu for (kind, d), cpu in within[way].items() if kind == "kernel" and d != "interrupt"}
        named = sum(cpu for d, cpu in kernel.items() if d in names)
        check(named >= NAMED * sum(kernel.values()) > 0, "%s: the kernel's work in %s has its name" % (name, way),
              "%.1f %%" % (100.0 * named / max(1, sum(kernel.values()))))
    check(sum(v for k, v in rest.items() if str(k).startswith("unknown")) < 0.1, "%s: unknown" % name)


def main():
    global skipped
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rate", type=int, default=1999)
    parser.add_argument("pythons", nargs="*", default=["/usr/bin/python3"])
    arguments = parser.parse_args()
    if os.geteuid():
        skipped += 1
    else:
        for python in arguments.pythons:
            judge(python, arguments.seconds, arguments.rate)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
