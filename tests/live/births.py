#!/usr/bin/env python3
"""Threads and processes that live about a period of the sampler: all that they ran is in the recording, and the shares of what
they ran are right; where their stacks are too few the summary says so first.

    births.py [--all] [--seconds SECONDS] [KIND,MS,MODE,AT_ONCE ...]

The oracle is what the target says (tests/targets/births.py). Its rusage: the recording's CPU time is that within 1 %, and what
the interpreter runs before and after the target reads it. Its threads' own clocks: `alpha`, the begin of each life, and `beta`
have the share that these say within 2 points, and 2.5 standard errors of so many samples. Needs root.
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CPROFD = os.environ.get("CPROFD", os.path.join(ROOT, "build", "cprofd"))
TARGET = os.path.join(ROOT, "tests", "targets", "births.py")
OUTSIDE = 0.06  # seconds: how the target begins and ends
DISTRUST = "do not trust the shares"
QUICK = [("threads", 0.2, "cpu", 1), ("mixed-threads", 1, "wall", 1), ("fork", 1, "cpu", 1), ("threads", 1, "cpu", 300)]
ALL = ([(kind, ms, mode, 1) for kind in ("threads", "fork", "mixed-threads", "mixed-fork") for ms in (0.1, 0.3, 1, 3, 10)
        for mode in ("cpu", "wall")] +
       [("threads", ms, mode, at_once) for at_once in (10, 2000) for ms in (0.3, 1, 10) for mode in ("cpu", "wall")] +
       [("fork", 1, "cpu", 50), ("exec", 1, "cpu", 1), ("exec", 30, "cpu", 1)])


def told(recording):
    """CPU seconds, samples, and how many of the seconds no sample has."""
    cpu = ends = samples = 0
    lines = subprocess.run(["zstd", "-dcq", recording], capture_output=True, check=True).stdout.splitlines()
    for line in lines:
        event = json.loads(line)
        if event["ev"] == "samples":
            cpu += sum(event.get("cpu", []))
            samples += event.get("cause", [0] * len(event["t"])).count(0)
        elif event["ev"] == "thread_end":
            ends += event.get("cpu", 0)
    return (cpu + ends) / 1e9, samples, ends / 1e9


def shares(recording):
    """Of all CPU time, inclusive: alpha's and beta's."""
    report = subprocess.run([CPROFD, "report", "--json", "--by=function", recording], capture_output=True, check=True).stdout
    report = json.loads(report)
    rows = report["tables"][0]["rows"]
    return [sum(row["each"][0]["inclusive_cpu_ns"] for row in rows if row["name"] == name) / report["recordings"][0]["cpu_ns"]
            for name in ("alpha", "beta")]


def run(kind, ms, mode, at_once, folder, seconds):
    recording = os.path.join(folder, "births.events")
    follow = ["-s"] if "threads" not in kind else []
    done = subprocess.run([CPROFD, "record", "--mode", mode, *follow, "-f", "events", "-o", recording, "--",
                           sys.executable, TARGET, kind, str(ms), str(seconds), str(at_once)],
                          capture_output=True, text=True, timeout=120)
    own, children, made, *clocked = map(float, done.stdout.split())
    used = own + children
    cpu, samples, ends = told(recording)
    problems = []
    if not 0.99 * used <= cpu <= 1.01 * used + OUTSIDE:
        problems.append("%.3f s of CPU told, it used %.3f" % (cpu, used))
    words = [line for line in done.stderr.splitlines() if DISTRUST in line]
    if (samples < 0.94 * cpu * 999) and not words:
        problems.append("%.0f %% of the samples, and no word of it" % (100 * samples / (cpu * 999)))
    if samples > 0.96 * cpu * 999 and words:
        problems.append("distrusted, with %d samples in %.3f s" % (samples, cpu))
    parts = []
    for name, share, true in zip(("alpha", "beta"), shares(recording), [clock / cpu for clock in clocked]):
        error = (true * (1 - true) / samples) ** 0.5
        parts.append("%s %.1f %% told, %.1f true" % (name, 100 * share, 100 * true))
        if abs(share - true) > 0.02 + 2.5 * error and not words:
            problems.append("%s is wrong" % name)
    print("%s %s %.1f ms, %d at once, %s: %d made, %.3f s of CPU for %.3f, %d samples, %s%s%s" %
          ("FAIL" if problems else "ok", kind, ms, at_once, mode, made, cpu, used, samples, ", ".join(parts),
           "".join("; " + problem for problem in problems), ", distrusted" if words else ""), flush=True)
    return not problems


def main():
    if os.geteuid():
        print("0 passed, 0 failed, 1 skipped")
        return 0
    words = sys.argv[1:]
    seconds = float(words[words.index("--seconds") + 1]) if "--seconds" in words else 10 if "--all" in words else 4
    some = [(kind, float(ms), mode, int(at_once)) for kind, ms, mode, at_once in
            (word.split(",") for word in words if "," in word)]
    with tempfile.TemporaryDirectory() as folder:
        results = [run(*one, folder, seconds) for one in some or (ALL if "--all" in words else QUICK)]
    print("%d passed, %d failed, 0 skipped" % (sum(results), len(results) - sum(results)))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
