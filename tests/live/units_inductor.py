#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Functions that torch.compile compiles for the CPU, as cprofd reports them, against torch's own records, logs and timed events.

    tests/live/units_inductor.py --python FILE [--functions N] [--threads N] [--show]     an interpreter that has torch and a C++ compiler

Each frame by its function and torch's compile id, each graph by its number and way, each phase's share of all compiles within a
point. In wall mode: the C++ compiler is a process of its own, for which the compile waits. --threads 1: without torch's pool of
threads. Needs root; without --python nothing is done.
"""
import argparse
import collections
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from units_told import finish, told_of, verdict  # noqa: E402

# Timed by torch around what has a name already, or of no length.
NOT_NAMED = {"_compile.compile_inner", "compile_fx.<locals>.fw_compiler_base", "compile_fx.<locals>.bw_compiler", "GraphLowering.compile_to_fn",
             "dynamo", "backward._backward_impl", "TritonBundler.collect", "inductor_codecache_torch_key", "gc"}


def outermost(spans):
    """Those that are in no other."""
    found = []
    for begin, end in sorted(spans):
        if not found or begin >= found[-1][1]:
            found.append([begin, end])
    return found


def same(what, true, seen):
    missing = collections.Counter(true) - collections.Counter(seen)
    more = collections.Counter(seen) - collections.Counter(true)
    verdict(what % len(true), "; ".join(["missing " + name for name in list(missing)[:5]] + ["told " + name for name in list(more)[:5]]) or
            (None if seen == true else "in another order"))


def apart(spans, waits):
    """The sum of those less what of them is in one of `waits`, none of which is inside of another."""
    return sum(end - begin - sum(max(0, min(end, stop) - max(begin, start)) for start, stop in waits) for begin, end in spans)


def compare(label, true, told):
    """Shares in all of it, and in what is left without the C++ compiler, which is most of it. `true`, `told`: spans by name, "" for all."""
    for label, wait in ((label, ()), (label + "without the C++ compiler, ", ("async_compile.wait", "compile_file"))):
        waits = [outermost(span for name in wait for span in spans.get(name, ())) for spans in (true, told)]
        sums = [{name: apart(spans[name], waits[i]) for name in spans} for i, spans in enumerate((true, told))]
        far, shares = [], {}
        for name in set(true) | set(told):
            shares[name] = [100 * s.get(name, 0) / s[""] for s in sums]
            if name not in NOT_NAMED and name in true and abs(shares[name][0] - shares[name][1]) > 1:
                far.append("%s %.2f %% told %.2f %%" % (name, *shares[name]))
        for name in sorted(shares, key=lambda name: -max(shares[name])):
            if name and name not in NOT_NAMED:
                print("   %6.2f %% %6.2f %%  %s%s" % (*shares[name], name, "" if name in true else "  (torch does not time it)"))
        verdict(label + "%d phases of %.1f s within a point" % (len(set(true) - NOT_NAMED - {""}), sums[0][""] / 1e9), "; ".join(far),
                "all: %.1f s told" % (sums[1][""] / 1e9))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python")
    parser.add_argument("--functions", default="8")
    parser.add_argument("--threads")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if not options.python:
        print("skipped: --python says which interpreter has torch\n0 passed, 0 failed, 1 skipped")
        return 0
    if options.threads:
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = options.threads
    truth, told = told_of(options.python, options.functions, "compile_inductor_units.py")
    if not truth:
        return finish()
    start = truth["frames"][0][2]
    units = [u for u in told.units[1:] if u["last"] and u["last"] > start]
    if options.show:
        for u in units:
            print(u["kind"], u["name"], u["signature"], "%.1f %.1f" % ((u["begin"] - start) / 1e6, (u["last"] - start) / 1e6), u["trigger"])
    label = "torch %s: " % truth["version"]
    named = {way: [u for u in units if u["kind"] == 0 and u["name"].startswith("graph ") == (way == "graphs")] for way in ("frames", "graphs")}
    same(label + "%d frames by function and compile id", ["%s [%s]" % tuple(row[:2]) for row in truth["frames"]],
         ["%s [%s]" % (u["name"], u["signature"].replace(", ", "/")) for u in named["frames"]])
    same(label + "%d graphs by number and way", ["%s %s" % tuple(row[:2]) for row in sorted(truth["graphs"], key=lambda row: row[2])],
         ["%s %s" % (u["name"], u["signature"]) for u in named["graphs"]])
    triggers = collections.Counter(u["trigger"] for u in units if u["kind"] == 0 and not u["parent"])
    verdict(label + "each was caused by the target's own file", None if set(triggers) == {"compile_inductor_units.py"} else str(triggers))
    spans = collections.defaultdict(list, {"": outermost([row[-2:] for row in truth["frames"] + truth["graphs"]])})
    seen = collections.defaultdict(list, {"": outermost([(u["begin"], u["last"]) for u in units if u["kind"] == 0])})
    for name, begin, end in truth["phases"]:
        spans[name].append((begin, end))
    for unit in units:
        if unit["kind"] == 1:
            seen[unit["name"]].append((unit["begin"], unit["last"]))
    compare(label, spans, seen)
    return finish()


sys.exit(main())
