#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Modules that Cython translates, and the phases of its pipeline, as cprofd reports them, against Cython's own clock.

    tests/live/units_cython.py --path DIRECTORY [--python FILE]     where Cython is, and an interpreter for it

One without extension modules, for any interpreter:

    pip install --no-deps --implementation py --platform any --abi none --only-binary=:all: --target DIRECTORY cython

Each module by name, each phase's share within a point; in wall mode, as that clock is. Needs root; without --path nothing is done.
"""
import argparse
import collections
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from units_told import finish, told_of, verdict  # noqa: E402


def inside_of_itself(told, unit):
    name, at = unit["name"], unit["parent"]
    while at and told.units[at]["name"] != name:
        at = told.units[at]["parent"]
    return at


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--path")
    parser.add_argument("--python", default="/usr/bin/python3")
    options = parser.parse_args()
    if not options.path:
        print("skipped: --path says where Cython is\n0 passed, 0 failed, 1 skipped")
        return 0
    truth, told = told_of(options.python, os.path.abspath(options.path), "compile_cython_units.py")
    if not truth:
        return finish()
    start = truth["modules"][0][1]
    names = [u["name"] for u in told.units[1:] if u["kind"] == 0 and u["last"] and u["last"] > start]
    true = [name for name, _, _ in truth["modules"]]
    verdict("Cython: modules by name", None if names == true else "%s told %s" % (true, names), ", ".join(true))
    sums = collections.Counter()
    for unit in told.units[1:]:
        if unit["last"] and unit["last"] > start and not (unit["kind"] == 1 and inside_of_itself(told, unit)):
            sums[unit["name"] if unit["kind"] == 1 else None] += unit["last"] - unit["begin"]
    whole = sum(end - begin for _, begin, end in truth["modules"]) / 1e9
    rows = sorted(((100 * seconds / whole, 100 * sums[name] / max(1, sums[None]), name) for name, seconds in truth["phases"].items()), reverse=True)
    for row in rows[:6]:
        print("   %6.2f %% %6.2f %%  %s" % row)
    verdict("Cython: %d phases of %.1f s within a point" % (len(rows), whole),
            "; ".join("%s %.2f %% told %.2f %%" % (n, a, b) for a, b, n in rows if abs(a - b) > 1))
    return finish()


sys.exit(main())
