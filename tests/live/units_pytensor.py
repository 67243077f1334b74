#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Functions that PyTensor compiles, as cprofd reports them, against clocks of the target around its rewriters.

    tests/live/units_pytensor.py --python FILE [--linker numba|cvm]     an interpreter that has pytensor 3; cvm: a C++ compiler

Each function by name, in their order; the share of each phase and node rewriter without those inside of it within a point. In wall mode: the C++ compiler
is a process of its own. Needs root; without --python nothing is done.
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
    parser.add_argument("--linker", default="numba", choices=("numba", "cvm"))
    options = parser.parse_args()
    if not options.python:
        print("skipped: --python says which interpreter has PyTensor\n0 passed, 0 failed, 1 skipped")
        return 0
    truth, told = told_of(options.python, options.linker, "compile_pytensor_units.py")
    if not truth:
        return finish()
    start, label = truth["functions"][0][1], "PyTensor %s, %s: " % (truth["version"], options.linker)
    numbers = [i for i, u in enumerate(told.units) if u and u["last"] and u["last"] > start]
    names, seen = [row[0] for row in truth["functions"]], [told.units[i]["name"] for i in numbers if told.units[i]["kind"] == 0 and told.units[i]["parent"] == 0]
    verdict(label + "%d functions by name" % len(names), None if seen == names else "%s told %s" % (names[:5], seen[:5]))
    whole = sum(end - begin for _, begin, end in truth["functions"])
    for kind, what in ((1, "phases"), (2, "passes")):
        spans = collections.Counter()
        for i in numbers:
            unit, parent = told.units[i], told.units[i]["parent"]
            if unit["kind"] != kind:
                continue
            spans[unit["name"]] += unit["last"] - unit["begin"]
            while parent and told.units[parent]["kind"] not in (kind, 0):
                parent = told.units[parent]["parent"]
            if parent and told.units[parent]["kind"] == kind:
                spans[told.units[parent]["name"]] -= unit["last"] - unit["begin"]
        rows = sorted(((100 * truth[what].get(name, 0) / whole, 100 * spans[name] / whole, name) for name in set(truth[what]) | set(spans)), reverse=True)
        for row in rows[:8]:
            print("   %6.2f %% %6.2f %%  %s" % row)
        missed = [name for name, ns in truth[what].items() if ns > 0.005 * whole and not spans[name]]
        far = ["%s %.2f %% told %.2f %%" % (name, a, b) for a, b, name in rows if abs(a - b) > 1]
        verdict(label + "%d %s of %.1f s within a point" % (len(truth[what]), what, whole / 1e9), "; ".join(far[:8] + missed),
                "%d told, the furthest is %.2f off" % (len(spans), max(abs(a - b) for a, b, _ in rows)))
    return finish()


sys.exit(main())
