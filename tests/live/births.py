#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Threads and processes that live about one sampling period: the recording has all of their CPU time, and the shares of their
functions are right; if there are too few stacks for that, the summary says so first.

    births.py [--all | --sweep] [--seconds SECONDS] [--python FILE] [KIND,MS,MODE,AT_ONCE[,alone] ...]

The oracle is what the target says (tests/targets/births.py). What its cgroup ran: the recording's CPU time is that within 1 % (its rusage, which lacks the
last 6 us of each thread, where there is no cgroup v2 or children are left out). Its threads' own clocks:
`alpha`, the begin of each life, and `beta` have the share that these say within 2 points, and 2.5 standard errors of so many samples; in wall mode
their shares of wall time, too, by the clock that all have. --sweep: lives of 0.1 to 10 periods, 1 to 2,000 at once, threads, forks, forks that execute a small
program, or an interpreter. alone: children are not followed. Needs root.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

from lib import CPROFD, ROOT, cgroup as cgroups
from lib.recording import read

TARGET = os.path.join(ROOT, "tests", "targets", "births.py")
OUTSIDE = 0.015  # seconds: how the target begins and ends
AFTER = 8e-6     # ... and what a thread runs once its rusage is taken, until it has left its CPU: 6 us by the cgroup
DISTRUST = "do not trust the shares"
MODES = ("cpu", "wall")
QUICK = [("threads", 0.2, "cpu", 1), ("mixed-threads", 1, "wall", 1), ("fork", 1, "cpu", 1), ("threads", 1, "cpu", 300), ("small", 1, "wall", 8)]
ALL = ([(kind, ms, mode, 1) for kind in ("threads", "fork", "mixed-threads", "mixed-fork") for ms in (0.1, 0.3, 1, 3, 10)
        for mode in MODES] +
       [("threads", ms, mode, at_once) for at_once in (10, 2000) for ms in (0.3, 1, 10) for mode in MODES] +
       [("fork", 1, "cpu", 50), ("exec", 1, "cpu", 1), ("exec", 30, "cpu", 1), ("fork", 1, "cpu", 1, "alone"), ("exec", 1, "wall", 8, "alone")])
LIVES = (0.1, 0.2, 0.5, 1, 2, 5, 10)  # periods
AT_ONCE = (1, 8, 64, 300, 2000)
SWEEP = [(kind, lives / 0.999, mode, at_once) for at_once in AT_ONCE for lives in LIVES for kind in ("threads", "fork", "small", "exec") for mode in MODES
         if lives * at_once <= 6000 and (kind != "exec" or at_once < 300)]


def told(recording):
    """CPU seconds, samples, and how many of the seconds no sample has."""
    cpu = ends = samples = 0
    for event in read(recording):
        if event["ev"] == "samples":
            cpu += sum(event.get("cpu", []))
            samples += event.get("cause", [0] * len(event["t"])).count(0)
        elif event["ev"] == "thread_end":
            ends += event.get("cpu", 0)
    return (cpu + ends) / 1e9, samples, ends / 1e9


def compare_shares(recording, time, clocks, samples, parts):
    """Adds what is told and what is true to `parts`; which are wrong: by more than two points and 2.5 standard errors."""
    wrong = []
    whole, parted = shares(recording, time)
    for name, share, true in zip(("alpha", "beta"), parted, [clock / whole for clock in clocks]):
        parts.append("%s %s %.1f %% told, %.1f true" % (name, time, 100 * share, 100 * true))
        if abs(share - true) > 0.02 + 2.5 * (true * (1 - true) / samples) ** 0.5:
            wrong.append("%s is wrong" % name)
    return wrong


def shares(recording, time):
    """Of all CPU (or wall) time, inclusive: alpha's and beta's."""
    report = subprocess.run([CPROFD, "report", "--json", "--by=function", recording], capture_output=True, check=True).stdout
    report = json.loads(report)
    rows = report["tables"][0]["rows"]
    whole = report["recordings"][0][time + "_ns"]
    return whole / 1e9, [sum(row["each"][0]["inclusive_%s_ns" % time] for row in rows if row["name"] == name) / whole for name in ("alpha", "beta")]


def run(kind, ms, mode, at_once, *more, folder, seconds, python):
    recording = os.path.join(folder, "births.events")
    alone = "alone" in more
    cgroup = None if alone else cgroups.make()
    follow = ["-s"] if "threads" not in kind and not alone else []
    done = subprocess.run([CPROFD, "record", "--mode", mode, *follow, "-f", "events", "-o", recording, "--",
                           python, TARGET, kind, str(ms), str(seconds), str(at_once), os.path.join(folder, "births"), *[cgroup] * bool(cgroup)],
                          capture_output=True, text=True, timeout=300)
    cgroups.end(cgroup)
    own, children, made, *clocked, in_cgroup = map(float, done.stdout.split())
    used = in_cgroup or own + children * (not alone)
    after = 0 if in_cgroup else AFTER * made
    cpu, samples, ends = told(recording)
    problems = []
    if not 0.99 * used <= cpu <= 1.01 * used + OUTSIDE + after:
        problems.append("%.3f s of CPU told, it used %.3f" % (cpu, used))
    words = [line for line in done.stderr.splitlines() if DISTRUST in line]
    if (samples < 0.94 * cpu * 999) and not words:
        problems.append("%.0f %% of the samples, and no word of it" % (100 * samples / (cpu * 999)))
    if samples > 0.96 * cpu * 999 and words and kind not in ("small", "exec"): # of which it may not be known in time what they run
        problems.append("distrusted, with %d samples in %.3f s" % (samples, cpu))
    whole = re.search(r"whole stacks: ([\d.]+)", done.stderr)
    if kind in ("small", "exec") and made >= 100 and whole and float(whole[1]) < 75 and not words:
        problems.append("%s %% whole, and no word of it" % whole[1])
    parts = []
    for time, clocks in (("cpu", clocked[:2]), ("wall", clocked[2:])):
        if alone or (time == "wall" and mode == "cpu"):
            continue
        wrong = compare_shares(recording, time, clocks, samples, parts)
        if not words:
            problems += wrong
    print("%s %s %.1f ms, %d at once, %s%s: %d made, %.3f s of CPU for %.3f, %d samples (%.0f %%), %s%s%s" %
          ("FAIL" if problems else "ok", kind, ms, at_once, mode, ", alone" * alone, made, cpu, used, samples, 100 * samples / (cpu * 999), ", ".join(parts),
           "".join("; " + problem for problem in problems), ", distrusted" if words else ""), flush=True)
    return not problems


def main():
    if os.geteuid():
        print("0 passed, 0 failed, 1 skipped")
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--sweep", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("some", nargs="*")
    options = parser.parse_args()
    some = [(kind, float(ms), mode, int(at_once), *more) for kind, ms, mode, at_once, *more in (word.split(",") for word in options.some)]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["gcc", "-O1", "-o", os.path.join(folder, "births"), TARGET[:-2] + "c"], check=True)
        seconds = options.seconds or (6 if options.all else 2)
        results = [run(*one, folder=folder, seconds=seconds, python=options.python)
                   for one in some or (ALL if options.all else SWEEP if options.sweep else QUICK)]
    print("%d passed, %d failed, 0 skipped" % (sum(results), len(results) - sum(results)))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
