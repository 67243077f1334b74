#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The first compile of a session that waits from its begin on: the sampler meets its code as the thread falls asleep, or finds the thread asleep,
and was not told yet which locals name a compile. It is a unit of its own all the same, and so is each one that directly follows it
(tests/targets/first_waits.py): told once, by its name, and not together with the next one. Needs root.

    first_waits.py [--compiles N] [--runs N] [PYTHON ...]"""
import argparse
import collections
import concurrent.futures
import os
import subprocess
import sys
import tempfile

from lib import LIVE, ROOT
from lib.result import check_figures, finish
from units_told import recorded

TARGET = os.path.join(ROOT, "tests/targets/first_waits.py")
UNIT = "unit\n    file */targets/first_waits.py\n    function %s\n    has wait\n    name %s\n"
NAMES = {"by_name": "name", "by_attribute": "job.name", "by_cell": "name", "by_later_local": "name", "Compiler.by_self": "self.name",
         "by_generator": "name", "by_symbol": "text.@symbol", "by_depth": "name"}
RULES = "compiler mine\n" + "".join(UNIT % (function, name) for function, name in NAMES.items())


def run(python, compiles, ahead):
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        return recorded(python, TARGET, (compiles, 50, ahead), RULES, folder, "wall")


def judge(python, ahead, truth, told):
    units, missing, twice, long, unnamed = collections.defaultdict(list), [], [], [], []
    for unit in told.units[1:]:
        units[unit["thread"], unit["name"]].append(unit)
    for tid, name, begin, end in sorted(truth, key=lambda row: row[2]):
        found = units.pop((tid, name), [])
        # The way through attributes is not known yet. It is read while the thread waits, for 50 ms; a busy machine may be later.
        if not found and name in ("by_attribute_0", "by_self_0") and len(units[tid, ""]) == 1:
            found = units.pop((tid, ""))
            unnamed.append(name)
        if not found:
            missing.append(name)
        elif len(found) > 1:
            twice.append(name)
        elif found[0]["end"] - found[0]["begin"] > 1.6 * (end - begin):  # it goes on over the next one
            long.append("%s %.1f of %.1f ms" % (name, (found[0]["end"] - found[0]["begin"]) / 1e6, (end - begin) / 1e6))
    others = [name for (_, name), of in units.items() if of]
    of = "%s, %s, %d compiles:" % (os.path.basename(os.path.realpath(python)), "begun before" if ahead else "begun after", len(truth))
    check_figures(not missing, of + " not told", len(missing), "without a name %d" % len(unnamed), *missing[:8])
    check_figures(not twice and not others, of + " none twice, none by another name", len(twice), len(others), *(twice + others)[:8])
    check_figures(not long, of + " none with the next one", len(long), *long[:8])


def pythons():
    lines = subprocess.run([os.path.join(LIVE, "pythons.sh")], stdout=subprocess.PIPE, universal_newlines=True).stdout.splitlines()
    return [line.split(None, 1)[1] for line in lines]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiles", type=int, default=3)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("python", nargs="*")
    arguments = parser.parse_args()
    cases = [(python, ahead) for python in arguments.python or pythons() for ahead in (0, 1) for _ in range(arguments.runs)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # they only sleep
        for case, result in zip(cases, pool.map(lambda case: run(case[0], arguments.compiles, case[1]), cases)):
            judge(*case, *result)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
