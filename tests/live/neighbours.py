#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compiles that directly follow each other, of one function that a rule names: each is a unit of its own, with its name, begin and end as the
target's clock has them (tests/targets/neighbours.py). They sleep, wait for a process, hand locks on tens of thousands of times a second, and wait
for a CPU; one thread, 20 at once, 8 whose ids are equal modulo 16 and modulo 64, and 2 beside others that switch all the time. Needs root.

    neighbours.py [--compiles N] [--seed N] [--mode cpu|wall] [--threads N [--modulo N] [--kinds LIST] [--switchers N]] [--show N] [PYTHON ...]"""
import argparse
import collections
import os
import sys
import tempfile

from lib import ROOT
from lib.result import check_figures, finish
from lib.wait import few
from units_told import recorded

TARGET = os.path.join(ROOT, "tests/targets/neighbours.py")
RULES = "compiler mine\nunit\n    file */targets/neighbours.py\n    function build\n    has work\n    name name\n"
KINDS = "cpu,naps,sleep,mixed,locks,pipes"
SLEEPS = "sleep,mixed,naps"
GAPS = "none,nap,sleep,cpu"
FOLLOWED = 64  # BROKER_WATCHED_MAX
# Of compiles: none is told twice or by another's name, so many are not told. Of their time: so much is wrong at begins and ends. In mode
# cpu a wait for a CPU counts for what was before it or comes after.
BARS = {"wall": (0.005, 0.1), "cpu": (0.02, 0.3)}


def judge(python, mode, threads, compiles, seed, show, modulo=1, kinds=KINDS, untold=None, switchers=0):
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        truth, told = recorded(python, TARGET, (threads, compiles, seed, kinds, GAPS, modulo, switchers), RULES, folder, mode)
    units = collections.defaultdict(list)
    for unit in told.units[1:]:
        units[unit["thread"], unit["name"]].append(unit)
    missing, twice, off, time = [], [], [], 0
    for tid, name, kind, after, begin, end in truth:
        found = units.pop((tid, name), [])
        time += end - begin
        what = "%s, %s, then %s: %.1f ms" % (name, kind, after, (end - begin) / 1e6)
        if len(found) != 1:
            (twice if found else missing).append((what, *("%.1f to %.1f" % ((x["begin"] - begin) / 1e6, (x["end"] - begin) / 1e6) for x in found)))
            continue
        errors = found[0]["begin"] - begin, found[0]["end"] - end
        off.append((sum(map(abs, errors)), what, "begin %+.1f, end %+.1f" % tuple(x / 1e6 for x in errors)))
    off.sort(reverse=True)
    others = [name for _, name in units if name not in ("first", "") and not name.startswith("begin")]
    for row in (*twice, *missing, *others, *off)[:show]:
        print("   ", *row)
    of = "%s, %s, %d threads%s, %d compiles:" % (os.path.basename(os.path.realpath(python)), mode, threads,
                                                ", ids equal modulo %d" % modulo if modulo > 1 else ", %d more that switch" % switchers if switchers else "", len(truth))
    untold, wrong = untold or BARS[mode][0], BARS[mode][1]
    share = sum(row[0] for row in off) / time
    check_figures(not twice and not others, of + " none twice, none by another name", len(twice), len(others))
    check_figures(len(missing) <= few(len(truth), untold), of + " not told", len(missing))
    full = told.tables.ledger["losses"].get("watch_full", 0)
    check_figures(bool(full) == (mode == "cpu" and switchers > FOLLOWED), of + " samples of threads that are not followed as there is no room", full)
    check_figures(share < wrong, of + " wrong at begins and ends, %% of their time %.2f, the median %.2f ms" % (100 * share, off[len(off) // 2][0] / 1e6))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiles", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=list(BARS))
    parser.add_argument("--threads", type=int)
    parser.add_argument("--modulo", type=int, default=1)
    parser.add_argument("--switchers", type=int, default=0)
    parser.add_argument("--kinds", default=KINDS)
    parser.add_argument("--show", type=int, default=10)
    parser.add_argument("python", nargs="*", default=["/usr/bin/python3"])
    arguments = parser.parse_args()
    for python in arguments.python:
        for mode in [arguments.mode] if arguments.mode else BARS:
            for threads in [arguments.threads] if arguments.threads else (1, 20):
                judge(python, mode, threads, -(-arguments.compiles // threads), arguments.seed, arguments.show, arguments.modulo, arguments.kinds, None, arguments.switchers)
            if not arguments.threads:
                for modulo in (16, 64):  # sets of bpf/watched.h
                    judge(python, mode, 8, -(-arguments.compiles // 8), arguments.seed, arguments.show, modulo)
                # Places of their own: which one a thread is at may not depend on what a CPU keeps of it (hints[] of bpf/sampler.bpf.c).
                judge(python, mode, 8, -(-3 * arguments.compiles // 8), arguments.seed, arguments.show, 64, SLEEPS, 0.0005)
                for switchers in (4, 80):  # more than are followed (BROKER_WATCHED_MAX)
                    judge(python, mode, 2, -(-arguments.compiles // 2), arguments.seed, arguments.show, switchers=switchers)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
