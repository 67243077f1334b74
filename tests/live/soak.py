#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Recorded for long, of a target where nothing comes twice (tests/targets/never_the_same.py): the memory of cprofd's processes and of its BPF maps stays
as it was. 8.6 million samples are those of 24 hours at 99 Hz. Needs root.

    soak.py [--samples N] [--rate HZ] [--hours N] [--show]

--hours: that long, whatever the samples are, and the target rests most of the time: beside other work (`--hours 6 --rate 99`).
Memory is PSS of each process, without the maps' pages, and memlock of each map, every 5 s. After the first third of the time, when
tables have the sizes that they keep, a line through these may rise by at most 2 MB to the end."""
import argparse
import collections
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from lib import CPROFD, ROOT
from lib.command import PYTHON
from lib.memory import family, maps_of, pss_of
from lib.result import check, check_figures, finish

TARGET = os.path.join(ROOT, "tests", "targets", "never_the_same.py")
JIT = os.path.join(ROOT, "build", "tests", "tools", "jit_churn")
RISE = 2.0  # MB
PAUSE = 5.0  # s


def name_of(pid):
    try:
        with open("/proc/%d/comm" % pid) as file:
            return file.read().strip()
    except OSError:
        return ""


def memory(pid):
    """MB: of the processes together by name, and of the maps."""
    found, maps = collections.Counter(), {}
    for of in family(pid):
        found[name_of(of)] += pss_of(of) / 1e6
        maps.update(maps_of(of))
    found["maps"] = sum(maps.values()) / 1e6
    return found


class Samples:
    """How many are in the files that are whole, by their ledgers."""

    def __init__(self, folder):
        self.folder, self.counts, self.reasons = folder, {}, collections.Counter()

    def count(self):
        for path in glob.glob(self.folder + "/*.cprof"):
            if path in self.counts:
                continue
            unpacked = subprocess.Popen(["zstd", "-dcqf", path], stdout=subprocess.PIPE)
            tail = subprocess.run(["tail", "-n", "50"], stdin=unpacked.stdout, stdout=subprocess.PIPE).stdout
            unpacked.stdout.close()
            unpacked.wait()
            events = [json.loads(line) for line in tail.splitlines()]
            ledgers = [event["samples"] for event in events if event["ev"] == "ledger"]
            if ledgers:
                self.counts[path] = ledgers[-1]
                self.reasons[events[-1].get("reason")] += 1
        return sum(self.counts.values())


def rise(points):
    """MB from the first to the last, on the line that fits best."""
    n = len(points)
    x = [at for at, _ in points]
    y = [value for _, value in points]
    mean_x, mean_y = sum(x) / n, sum(y) / n
    spread = sum((a - mean_x) ** 2 for a in x)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y)) / max(spread, 1e-9) * (x[-1] - x[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=float, default=8.6e6)
    parser.add_argument("--rate", default="19999")
    parser.add_argument("--hours", type=float)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(dir=os.path.join(ROOT, "build"), prefix="soak-")
    hours, pause = options.hours, "0.5" if options.hours else "0"
    target = subprocess.Popen([PYTHON, TARGET, JIT, pause], stdin=subprocess.PIPE)
    recorder = subprocess.Popen([CPROFD, "attach", str(target.pid), "-s", "--continuous", folder, "-r", options.rate, "--rotate-age", "20s", "--keep", "100M", "-q"], env=dict(os.environ, CPROFD_SOCKET="none"))
    samples, seen, begin = Samples(folder), [], time.monotonic()

    def more():
        return time.monotonic() - begin < hours * 3600 if hours else samples.count() < options.samples

    try:
        while recorder.poll() is None and target.poll() is None and more():
            time.sleep(PAUSE)
            seen.append((time.monotonic() - begin, samples.count(), memory(recorder.pid)))
            if options.show:
                print("%6.0f s %9d samples  %s" % (seen[-1][0], seen[-1][1], ", ".join("%s %.1f" % pair for pair in sorted(seen[-1][2].items()))), flush=True)
        check(recorder.poll() is None and target.poll() is None, "both run until the end", recorder.poll(), target.poll())
    finally:
        target.stdin.close()
        target.wait()
        recorder.send_signal(signal.SIGINT)
        status = recorder.wait()
    taken = samples.count()
    check(not status, "cprofd ends well", status)
    check_figures(hours or taken >= options.samples, "samples", taken, "in %d files, %.0f s" % (len(samples.counts), time.monotonic() - begin))
    later = [row for row in seen if row[0] >= seen[-1][0] / 3]
    for name in sorted({name for row in later for name in row[2] if name}):
        values = [row[2][name] for row in later]
        rises = rise([(row[0], row[2][name]) for row in later])
        check_figures(rises <= RISE, "%s, MB: rises by %.2f, from %.1f to %.1f" % (name, rises, min(values), max(values)))
    total = rise([(row[0], sum(row[2].values())) for row in later])
    check_figures(total <= RISE, "all together, MB: rises by %.2f" % total)
    shutil.rmtree(folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
