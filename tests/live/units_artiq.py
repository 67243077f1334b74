#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kernels that a package with the names of ARTIQ's compiler compiles, as cprofd reports them, against the package's own log.

    tests/live/units_artiq.py [--python FILE] [--kernels N]

Each kernel by name, in their order; each phase's share of all compiles within two points, in CPU mode the link's within one: one that is over before it was read, some
20 ms late, has no name, or that of the one before it if that looks the same (docs/rules.md). In both modes: the linker is a process of its
own, and a wait for it is part of the compile, of its phase, in CPU mode too. Needs root.
"""
import argparse
import collections
import os
import sys

from units_told import finish, told_of, verdict


def compare(options, mode, tries=8):
    truth, told = told_of(options.python, options.kernels, "compile_artiq_units.py", mode=mode)
    if not truth:
        return
    start = truth["kernels"][0][1]
    new = [u for u in told.units[1:] if u["last"] and u["last"] > start]
    names, units = [name for name, _, _ in truth["kernels"]], [u for u in new if u["kind"] == 0]
    sums = collections.Counter()
    for unit in new:
        if unit["kind"] == 1:
            sums[unit["name"]] += unit["last"] - unit["begin"]
    whole, all_told = sum(end - begin for _, begin, end in truth["kernels"]), sum(u["last"] - u["begin"] for u in units)
    rows = sorted(((100 * truth["phases"].get(name, 0) / whole, 100 * sums[name] / max(1, all_told), name)
                   for name in set(truth["phases"]) | set(sums)), reverse=True)
    bar = 2
    if mode == "cpu":  # where a thread could run and had no CPU, which a busy machine makes, nobody sees there
        rows, bar = [row for row in rows if row[2] == "link"], 1
    # A thousand samples: a share of 12 % has a deviation of one point. On a busy machine a wait is read late, and then without its name.
    if tries > 1 and any(abs(true - share) > bar for true, share, _ in rows):
        compare(options, mode, tries - 1)
        return
    verdict("ARTIQ, mode " + mode + ": kernels by name", None if [u["name"] for u in units] == names else "%s told %s" % (names, [u["name"] for u in units]),
            ", ".join(names))
    where = {(os.path.basename(u["file"]), u["line"] > 0) for u in units}
    verdict("ARTIQ, mode " + mode + ": where they are defined: the function's own file", None if where == {("compile_artiq_units.py", True)} else str(where))
    for row in rows:
        print("   %6.2f %% %6.2f %%  %s" % row)
    verdict("ARTIQ, mode " + mode + ": %d phases of %.1f s within %d points" % (len(rows), whole / 1e9, bar),
            "; ".join("%s %.2f %% told %.2f %%" % (n, a, b) for a, b, n in rows if abs(a - b) > bar))
    covered = sum(u["ticks"] for u in new if u["kind"] == 1 and told.units[u["parent"]]["kind"] == 0)
    of = sum(u["ticks"] for u in units)
    verdict("ARTIQ, mode " + mode + ": 98 % of the samples of compiles are in a phase", None if covered >= 0.98 * of else "%d of %d" % (covered, of),
            "%d of %d" % (covered, of))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--kernels", default="2")
    options = parser.parse_args()
    for mode in "wall", "cpu":
        compare(options, mode)
    return finish()


sys.exit(main())
