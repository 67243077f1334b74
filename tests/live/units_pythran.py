#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Modules that Pythran compiles, as cprofd reports them, against clocks of the target around its passes.

    tests/live/units_pythran.py --python FILE [--modules N]     an interpreter that has pythran, and a C++ compiler

Each module by name, in their order; the share of each pass without those inside of it, within a point. In wall mode: the C++ compiler is a process of
its own. Needs root; without --python nothing is done.
"""
import argparse
import collections
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from units_told import finish, told_of, verdict  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python")
    parser.add_argument("--modules", default="30")
    options = parser.parse_args()
    if not options.python:
        print("skipped: --python says which interpreter has pythran\n0 passed, 0 failed, 1 skipped")
        return 0
    truth, told = told_of(options.python, options.modules, "compile_pythran_units.py")
    if not truth:
        return finish()
    start, label = truth["modules"][0][1], "Pythran %s: " % truth["version"]
    numbers = [i for i, u in enumerate(told.units) if u and u["last"] and u["last"] > start]
    names, seen = [row[0] for row in truth["modules"]], [told.units[i]["name"] for i in numbers if told.units[i]["kind"] == 0]
    verdict(label + "%d modules by name" % len(names), None if seen == names else "%s told %s" % (names[:5], seen[:5]))
    spans = collections.Counter()
    for i in numbers:
        unit = told.units[i]
        for name in [unit["name"]] if unit["kind"] else ["", "whole"]:
            spans[name] += unit["last"] - unit["begin"]
        if unit["parent"] in numbers and unit["kind"]:
            parent = told.units[unit["parent"]]
            spans[parent["name"] if parent["kind"] else ""] -= unit["last"] - unit["begin"]
    whole, all_told = sum(end - begin for _, begin, end in truth["modules"]), spans.pop("whole")
    spans.pop("")
    rows = sorted(((100 * truth["phases"].get(name, 0) / whole, 100 * spans[name] / all_told, name) for name in set(truth["phases"]) | set(spans)), reverse=True)
    for row in rows[:12]:
        print("   %6.2f %% %6.2f %%  %s" % row)
    far = ["%s %.2f %% told %.2f %%" % (name, a, b) for a, b, name in rows if abs(a - b) > 1]
    verdict(label + "%d passes of %.1f s within a point" % (len(truth["phases"]), whole / 1e9), "; ".join(far[:8]), "%d told" % len(spans))
    return finish()


sys.exit(main())
