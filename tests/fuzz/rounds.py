#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Fuzzes all targets in turn, for as long as it is let run, and keeps what it gathers: one process at a time, when no other needs the CPU.

    make fuzz FUZZ_SECONDS=1; tests/fuzz/rounds.py KEPT [--build DIR] [--seconds 240] [--rounds N] [TARGET...]
    tests/fuzz/rounds.py KEPT --table

KEPT/TARGET/ is the corpus, with as few inputs as cover the same code; KEPT/found/TARGET-crash-... are findings; KEPT/ledger has one row for each
turn. The table sums these up. A target whose input was found begins anew in the next round."""
import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROW = ("begun", "target", "seconds", "cpu", "executions", "covered", "inputs", "bytes", "found")
GROWTH = 1.5  # a corpus that has grown so much is made small again
IDLE = ["chrt", "-i", "0", "nice", "-n", "19"]


def size(folder):
    sizes = [entry.stat().st_size for entry in os.scandir(folder)]
    return len(sizes), sum(sizes)


class Kept:
    def __init__(self, folder, build):
        self.folder, self.build = folder, build
        self.least = {}  # inputs after the last merge
        os.makedirs(os.path.join(folder, "found"), exist_ok=True)

    def corpus(self, target):
        folder = os.path.join(self.folder, target)
        os.makedirs(folder, exist_ok=True)
        seeds = os.path.join(HERE, "corpus", target)
        return [folder] + ([seeds] if os.path.isdir(seeds) else [])

    def run(self, target, *words):
        """(output, CPU seconds)"""
        before = os.times()
        done = subprocess.run([*IDLE, os.path.join(self.build, target), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              cwd=self.folder)
        after = os.times()
        cpu = after.children_user + after.children_system - before.children_user - before.children_system
        return done.stdout.decode(errors="replace"), cpu

    def findings(self, target):
        return sum(name.startswith(target + "-") for name in os.listdir(os.path.join(self.folder, "found")))

    def turn(self, target, seconds):
        begun, found = time.time(), self.findings(target)
        # Others have the CPU: what takes seconds may have run for none.
        output, cpu = self.run(target, "-max_total_time=%d" % seconds, "-print_final_stats=1", "-rss_limit_mb=2048", "-timeout=200",
                               "-report_slow_units=200", "-artifact_prefix=%s/found/%s-" % (self.folder, target), *self.corpus(target))
        runs = re.search(r"stat::number_of_executed_units: *(\d+)", output)
        covered = re.findall(r" cov: (\d+) ", output)
        found = self.findings(target) - found
        if found:
            with open(os.path.join(self.folder, "found", "log-%s-%d" % (target, begun)), "w") as file:
                file.write(output)
        self.shrink(target)
        inputs, size_bytes = size(self.corpus(target)[0])
        return dict(zip(ROW, (int(begun), target, int(time.time() - begun), "%.1f" % cpu, runs.group(1) if runs else 0,
                              covered[-1] if covered else 0, inputs, size_bytes, found)))

    def shrink(self, target):
        own, *seeds = self.corpus(target)
        inputs = size(own)[0]
        if inputs < GROWTH * self.least.get(target, 20):
            return
        with tempfile.TemporaryDirectory(dir=self.folder) as new:
            self.run(target, "-set_cover_merge=1", new, own, *seeds)
            if size(new)[0]:
                shutil.rmtree(own)
                shutil.copytree(new, own)
        self.least[target] = size(own)[0]

    def write(self, row):
        path = os.path.join(self.folder, "ledger")
        begins = not os.path.exists(path)
        with open(path, "a") as file:
            if begins:
                file.write("\t".join(ROW) + "\n")
            file.write("\t".join(str(row[name]) for name in ROW) + "\n")


def table(folder):
    sums = collections.defaultdict(collections.Counter)
    last = {}
    with open(os.path.join(folder, "ledger")) as file:
        next(file)
        for line in file:
            row = dict(zip(ROW, line.split("\t")))
            sums[row["target"]].update({"turns": 1, "cpu": float(row["cpu"]), "executions": int(row["executions"]), "found": int(row["found"])})
            last[row["target"]] = row
    print("%-22s %5s %8s %12s %9s %8s %7s %9s %5s" % ("target", "turns", "CPU s", "executions", "/CPU s", "covered", "inputs", "bytes", "found"))
    for target, sum_ in sorted(sums.items()):
        row = last[target]
        print("%-22s %5d %8.0f %12d %9.0f %8s %7s %9s %5d" % (target, sum_["turns"], sum_["cpu"], sum_["executions"], sum_["executions"] / max(sum_["cpu"], 0.1),
                                                          row["covered"], row["inputs"], row["bytes"], sum_["found"]))
    print("%-22s %5d %8.0f %12d" % ("all", sum(s["turns"] for s in sums.values()), sum(s["cpu"] for s in sums.values()), sum(s["executions"] for s in sums.values())))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kept")
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--build", default=os.path.join(HERE, "../../build/tests/fuzz"))
    parser.add_argument("--seconds", type=int, default=240)
    parser.add_argument("--rounds", type=int, default=1 << 30)
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_args()
    if arguments.table:
        table(arguments.kept)
        return 0
    kept = Kept(os.path.abspath(arguments.kept), os.path.abspath(arguments.build))
    targets = arguments.targets or sorted(name[:-2] for name in os.listdir(HERE) if name.startswith("fuzz_") and name.endswith(".c"))
    for _ in range(arguments.rounds):
        for target in targets:
            if os.access(os.path.join(kept.build, target), os.X_OK):
                kept.write(kept.turn(target, arguments.seconds))
    return 0


if __name__ == "__main__":
    sys.exit(main())
