#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kernels that Triton compiles for a GPU, as cprofd reports them, against what Triton's listener and the target's own clock say.

    tests/live/units_triton.py --python FILE [--kernels N] [--show]     an interpreter that has triton; no GPU is needed

Each kernel by name and signature, in their order, each phase's share of all compiles within a point. In wall mode: ptxas is a
process of its own, for which the compiler waits. Needs root; without --python nothing is done.
"""
import argparse
import collections
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from units_told import finish, told_of, verdict  # noqa: E402


def shares(sums, whole):
    return {name: 100 * value / max(1, whole) for name, value in sums.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python")
    parser.add_argument("--kernels", default="20")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if not options.python:
        print("skipped: --python says which interpreter has triton\n0 passed, 0 failed, 1 skipped")
        return 0
    truth, told = told_of(options.python, options.kernels, "compile_triton_units.py")
    if not truth:
        return finish()
    start = truth["kernels"][0][2]
    units = [u for u in told.units[1:] if u["kind"] == 0 and u["last"] and u["last"] > start]
    true = ["%s(%s)" % (name, signature) for name, signature, _, _ in truth["kernels"]]
    seen = ["%s(%s)" % (u["name"], u["signature"]) for u in units]
    label = "Triton %s: " % truth["version"]
    verdict(label + "%d kernels by name and signature" % len(true), None if seen == true else "; ".join(
        ["missing " + name for name in (collections.Counter(true) - collections.Counter(seen))][:5] +
        ["told " + name for name in (collections.Counter(seen) - collections.Counter(true))][:5]) or "in another order")
    sums = {"true": collections.Counter(), "told": collections.Counter()}
    for name, begin, end in truth["phases"]:
        sums["true"][name] += end - begin
    passes = collections.Counter()
    for unit in told.units[1:]:
        if unit["kind"] == 1 and unit["last"] and unit["last"] > start:
            sums["told"][unit["name"]] += unit["last"] - unit["begin"]
        if unit["kind"] == 2 and unit["last"] and unit["last"] > start:
            passes[unit["name"]] += unit["ticks"]
    whole = sum(end - begin for _, _, begin, end in truth["kernels"])
    real, other = shares(sums["true"], whole), shares(sums["told"], sum(u["last"] - u["begin"] for u in units))
    for name in sorted(set(real) | set(other), key=lambda name: -real.get(name, 0)):
        print("   %6.2f %% %6.2f %%  %s" % (real.get(name, 0), other.get(name, 0), name))
    if options.show:
        print(passes.most_common(20))
    verdict(label + "%d phases of %.1f s within a point" % (len(real), whole / 1e9), "; ".join(
        "%s %.2f %% told %.2f %%" % (name, real.get(name, 0), other.get(name, 0)) for name in sorted(set(real) | set(other))
        if abs(real.get(name, 0) - other.get(name, 0)) > 1))
    return finish()


sys.exit(main())
