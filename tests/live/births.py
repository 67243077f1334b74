#!/usr/bin/env python3
"""Threads and processes that live about a period of the sampler: all that they ran is in the recording, and where
their stacks are too few the summary says so first.

    births.py [--all]

The oracle is the target's rusage (tests/targets/births.py): the recording's CPU time is that within 1 %, and what
the interpreter runs before and after the target reads it. Needs root.
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
QUICK = [("threads", 0.2, "cpu"), ("threads", 2, "wall"), ("fork", 1, "cpu"), ("fork", 5, "wall")]
ALL = [(kind, ms, mode) for kind in ("threads", "fork") for ms in (0.1, 0.2, 0.5, 1, 2, 5, 10) for mode in ("cpu", "wall")]


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


def run(kind, ms, mode, folder, seconds=3):
    recording = os.path.join(folder, "births.events")
    follow = ["-s"] if kind == "fork" else []
    done = subprocess.run([CPROFD, "record", "--mode", mode, *follow, "-f", "events", "-o", recording, "--",
                           sys.executable, TARGET, kind, str(ms), str(seconds)],
                          capture_output=True, text=True, timeout=120)
    own, children, made, alpha, beta = map(float, done.stdout.split())
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
    print("%s %s %.1f ms, %s: %d made, %.3f s of CPU for %.3f, %d samples, not sampled at ends %.3f s%s" %
          ("FAIL" if problems else "ok", kind, ms, mode, made, cpu, used, samples, ends,
           "".join("; " + problem for problem in problems)), flush=True)
    return not problems


def main():
    if os.geteuid():
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        results = [run(*one, folder) for one in (ALL if "--all" in sys.argv[1:] else QUICK)]
    print("%d passed, %d failed, 0 skipped" % (sum(results), len(results) - sum(results)))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
