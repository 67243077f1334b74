#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs whose rounds take as long as the sampler's period, or a simple part or multiple of it: the samples must not be in step with them.

    stepping.py [--all] [--seconds SECONDS] [--python FILE] [KIND,PERIODS,MODE,RATE ...]

The oracle is what the target says (tests/targets/stepping.py): `alpha` and `beta` have the share of the CPU time that the threads' own clocks say,
within 2 points and 2.5 standard errors of so many samples; the CPU time is its rusage within 1 %; 95 % of the samples are there that the rate asks for.
The sampler's periods are drawn at random, and about one draw in a thousand is in step with a program for as short as this: what is off is run once more. Needs root.
"""
import argparse
import os
import subprocess
import sys
import tempfile

from births import CPROFD, ROOT, compare_shares, told

TARGET = os.path.join(ROOT, "tests", "targets", "stepping.py")
LONG = {99: 8}  # at this rate: for some hundred samples
OUTSIDE = 0.015  # seconds: how the target begins and ends
LONGER = {"threads": 2.5, "forks": 3.5} # for a second after births clocks of CPUs tick, and not those of threads
QUICK = [("one", 1, "cpu", 999), ("one", 1, "wall", 999), ("one", 0.5, "cpu", 999), ("threads", 1, "cpu", 999), ("born", 1, "cpu", 999),
         ("forks", 1, "wall", 999), ("one", 1, "cpu", 9999)]
ALL = [(kind, periods, mode, 999) for kind in ("one", "threads", "born", "forks") for periods in (0.5, 1, 2, 3) for mode in ("cpu", "wall")]
ALL += [("one", periods, "cpu", rate) for rate in (99, 9999) for periods in (0.5, 0.87, 1, 1.5, 2, 3, 4)]


def look(kind, periods, mode, rate, folder, seconds, python):
    recording = os.path.join(folder, "stepping.events")
    done = subprocess.run([CPROFD, "record", "-r", str(rate), "--mode", mode, *["-s"] * (kind == "forks"), "-f", "events", "-o", recording, "--",
                           python, TARGET, kind, str(periods * 1e6 / rate), str(seconds * LONGER.get(kind, 1) * LONG.get(rate, 1))],
                          capture_output=True, text=True, timeout=300)
    own, children, *clocked = map(float, done.stdout.split())
    cpu, samples, _ = told(recording)
    problems, parts = [], []
    if not 0.99 * (own + children) <= cpu <= 1.01 * (own + children) + OUTSIDE:
        problems.append("%.3f s of CPU told, it used %.3f" % (cpu, own + children))
    if samples < 0.95 * cpu * rate:
        problems.append("%.0f %% of the samples" % (100 * samples / (cpu * rate)))
    problems += compare_shares(recording, "cpu", clocked, samples, parts)
    print("%s %s, rounds of %s periods, %s, %d Hz: %.3f s of CPU for %.3f, %d samples, %s%s" %
          ("off" if problems else "ok", kind, periods, mode, rate, cpu, own + children, samples, ", ".join(parts), "".join("; " + problem for problem in problems)),
          flush=True)
    return not problems


def main():
    if os.geteuid():
        print("0 passed, 0 failed, 1 skipped")
        return 0
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("some", nargs="*")
    options = parser.parse_args()
    some = [(kind, float(periods), mode, int(rate)) for kind, periods, mode, rate in (word.split(",") for word in options.some)]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for one in some or (ALL if options.all else QUICK):
            results.append(any(look(*one, folder, options.seconds, options.python) for _ in (1, 2)))
            if not results[-1]:
                print("FAIL %s %s %s %s" % one)
    print("%d passed, %d failed, 0 skipped" % (sum(results), len(results) - sum(results)))
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
