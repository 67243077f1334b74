#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Functions that JAX traces, lowers and compiles, as cprofd reports them, against jax.monitoring's durations inside of the target.

    tests/live/units_jax.py --python FILE [--functions N] [--trace N] [--show]     an interpreter that has jax
    tests/live/units_jax.py --python FILE --kinds N [--mode cpu|wall]

Each duration longer than three periods must be reported with its name, and none that JAX does not report; the shares of tracing,
lowering and XLA's compiling in their sum are within a point. In wall mode: XLA compiles in threads of its own, while the caller's
waits, and of those threads' samples 95 % are credited to a call. --trace: instead, N that jax.profiler.trace looks at, too: XLA's phases and
passes are within two points of what it has, those of the thread that calls of the time of its compiles, those of XLA's threads
of the time that these had work. --kinds: instead, N rounds of what programs have (compile_jax_kinds.py): each
compile of 20 ms is told, nothing has a name that JAX does not have, and their time is within 2 %. Needs root; without --python nothing is done.
"""
import argparse
import collections
import glob
import gzip
import json
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from units_told import PERIOD, ROOT, SLACK, Told, finish, told_of, verdict  # noqa: E402

KINDS = {"jaxpr_trace_duration": "trace", "jaxpr_to_mlir_module_duration": "lower", "backend_compile_duration": "XLA compile"}


def plain(name):
    """work0 of jit(work0), jit_work0."""
    return name[4:].rstrip(")") if name[:4] in ("jit(", "jit_") else name


COMPILE = "backend_compile_and_load"
HLO, CLEANUP = "HLO passes", "HloModule::Cleanup"
# In both by the same name.
CALLER = ["CpuCompiler::RunBackend", "ThunkEmitter::EmitEntryComputation", "ThunkEmitter::ConsumeKernels", "JitCompiler::Compile"]
WORKER = ["FusionCompiler::Compile", "TaskDispatcher::dispatch"]
# Passes whose class is not called as XLA's profiler calls them.
CLASSES = {"algsimp": "AlgebraicSimplifier", "dce": "HloDCE", "cse": "HloCSE", "constant_folding": "HloConstantFolding", "fusion": "InstructionFusion",
           "layout-assignment": "LayoutAssignment", "simplify-conditional": "ConditionalSimplifier"}


def letters(name):
    name = re.sub(r" \(.*|.*::", "", name)
    name = re.sub(r"[^a-z0-9]", "", CLASSES.get(name, name).lower())
    return name[:-4] if name.endswith("pass") else name


class Stays(Told):
    """... and ns by (instant, worker's phase) that XLA's threads waited within it: in no unit, since the caller has that time, but in XLA's spans."""

    def __init__(self, events):
        self.stays = collections.Counter()
        super().__init__(events)

    def begin_epoch(self):
        super().begin_epoch()
        self.phase_of = {name: {0: False} for name in WORKER}

    def take(self, event):
        super().take(event)
        when, none = 0, [0] * len(event["t"])
        for delta, cause, unit, wall, stack in zip(event["t"], *[event.get(key, none) for key in ("cause", "unit", "wall", "stack")]):
            when += delta
            for name, known in self.phase_of.items() if cause and not unit else ():
                if self.is_below(stack, known, lambda function, _: "xla::cpu::" in function and name + "(" in function):
                    self.stays[when, name] += wall


def traced(folder):
    """Of jax.profiler's file ns by (of a thread that calls, name): phases inclusive, passes exclusive. HLO passes: what is in the compile, but not in
    the back end."""
    with gzip.open(glob.glob(folder + "/plugins/profile/*/*.trace.json.gz")[0]) as file:
        rows = [dict(row, name=row["name"].split("#")[0]) for row in json.load(file)["traceEvents"] if row.get("ph") == "X"]
    callers = {row["tid"] for row in rows if row["name"] == COMPILE}
    whole, own, around = collections.Counter(), collections.Counter(), []
    for row in sorted(rows, key=lambda row: (row["tid"], row["ts"], -row["dur"])):
        while around and (around[-1]["tid"] != row["tid"] or around[-1]["ts"] + around[-1]["dur"] <= row["ts"]):
            around.pop()
        caller, time, names = row["tid"] in callers, row["dur"] * 1e3, [of["name"] for of in around]
        in_hlo = "CompileCpuExecutable" in names and CALLER[0] not in names and row["name"] != CALLER[0]
        if row["name"] not in names:
            whole[caller, row["name"]] += time
        if in_hlo and names[-1] == "CompileCpuExecutable":
            whole[caller, HLO] += time
        if in_hlo or WORKER[0] in names:
            own[caller, letters(row["name"])] += time
            if names[-1] not in ("CompileCpuExecutable", WORKER[0]):
                own[caller, letters(names[-1])] -= time
        around.append(row)
    return whole, own


def phases(told):
    """The same of what cprofd told. What a pass left to be deleted goes to that one, as it is for XLA's profiler, which has no names for LLVM's passes."""
    whole, own, callers = collections.Counter(), collections.Counter(), {unit["thread"] for unit in told.units[1:] if unit["kind"] == 0}
    passes, before = {}, {}
    for at, unit in sorted(enumerate(told.units[1:], 1), key=lambda row: row[1]["begin"]):
        if unit["kind"] == 2:
            passes[at] = before.get(unit["thread"], "") if unit["name"] == CLEANUP else unit["name"]
            before[unit["thread"]] = passes[at]
    for (tid, innermost), time in told.elapsed.items():
        at, names = innermost, set()
        while at:
            unit = told.units[at]
            names |= {COMPILE if unit["name"] == "XLA" else unit["name"]} if unit["kind"] == 1 else set()
            at = unit["parent"]
        for name in names:
            whole[tid in callers, name] += time
        if innermost in passes and WORKER[1] not in names:
            own[tid in callers, letters(passes[innermost])] += time
    return whole, own


def trace(options):
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        truth, told = told_of(options.python, options.trace, "compile_jax_units.py", folder, Stays)
        if not truth:
            return
        true = traced(folder)
    start = min(begin for _, _, begin, _ in truth)
    told.elapsed = collections.Counter({key: time for key, time in told.elapsed.items() if told.units[key[1]]["begin"] >= start})
    ran = phases(told)
    elapsed = collections.Counter(ran[0])
    for (when, name), time in told.stays.items():
        elapsed[False, name] += time * (when >= start)
    rows = []

    def add(label, caller, names, tables, wholes, of):
        sums = [max(1, sum(whole[caller, name] for name in of)) for whole in wholes]
        rows.extend([100 * table[caller, name] / every for table, every in zip(tables, sums)] + [label + name] for name in names)

    for caller, names, of in (True, [HLO] + CALLER, [COMPILE]), (False, WORKER, WORKER):
        add("", caller, names, (true[0], elapsed), (true[0], elapsed), of)
        passes = {name for own in (true[1], ran[1]) for at, name in own if at == caller}
        add("pass ", caller, passes, (true[1], ran[1]), (true[0], ran[0]), of)
    for row in sorted(rows, reverse=True)[:60 if options.show else 16]:
        print("   %6.2f %% %6.2f %%  %s" % tuple(row))
    far = ["%s %.2f %% told %.2f %%" % (name, of, share) for of, share, name in rows if abs(of - share) > 2]
    verdict("JAX: %d phases and passes of %.1f s of XLA's compiles within two points of jax.profiler.trace" % (len(rows), true[0][True, COMPILE] / 1e9),
            "; ".join(far), "compiles %.2f s told %.2f s" % (true[0][True, COMPILE] / 1e9, elapsed[True, COMPILE] / 1e9))


LONG = 20e6  # ns


def kinds(options):
    """Which compiles there are, by name and time."""
    truth, told = told_of(options.python, options.kinds, "compile_jax_kinds.py", mode=options.mode)
    if not truth:
        return
    start = min(row[2] for row in truth)
    true = sorted([KINDS[event], plain(name), begin, end] for event, name, begin, end, _, _ in truth if event in KINDS)
    waits = {(begin, end): (ready, turns) for _, _, begin, end, ready, turns in truth}
    seen = [u for u in told.units[1:] if u["kind"] == 0 and not u["parent"] and u["last"] and u["begin"] > start - SLACK]
    missed, wrong, whole, all_told = [], [], 0, 0
    ends = sorted(end for _, _, _, end in true)
    for kind, name, begin, end in true:
        found = [u for u in seen if u["signature"] == kind and min(end, u["last"]) - max(begin, u["begin"]) > (end - begin) / 2]
        if kind == "XLA compile" and end - begin >= LONG:
            whole += end - begin
            all_told += sum(u["last"] - u["begin"] for u in found[:1])
            # The function that compiles is entered before JAX's clock starts, and may lose its CPU in between.
            entered = max([at for at in ends if at <= begin], default=begin)
            early = sum(max(0, begin - max(entered, u["begin"])) for u in found[:1])
            # In mode cpu a wait for a CPU at an edge counts for what was before it or comes after: a turn at each, of up to twice their mean.
            ready, turns = waits[begin, end]
            turn = min(ready, 4 * ready / max(1, turns)) if options.mode == "cpu" else 0
            if not found or abs(found[0]["last"] - found[0]["begin"] - early - end + begin) > 4 * PERIOD + (end - begin) / 50 + turn:
                missed.append("%s %.1f ms%s" % (name, (end - begin) / 1e6, found and " told %.1f" % ((found[0]["last"] - found[0]["begin"]) / 1e6) or ""))
        # Before 0.10 there is an event of a trace within another, too, which is part of that one.
        if not any(of == kind and b <= begin and end <= e and (b, e) != (begin, end) for of, _, b, e in true):
            wrong += ["%r for %s %s %.1f ms" % (u["name"], kind, name, (end - begin) / 1e6) for u in found[:1] if plain(u["name"]) != name]
    names = {name for _, name, _, _ in true}
    wrong += ["%r of none, %s %.1f ms" % (u["name"], u["signature"], (u["last"] - u["begin"]) / 1e6) for u in seen if plain(u["name"]) not in names]
    n = sum(kind == "XLA compile" and end - begin >= LONG for kind, _, begin, end in true)
    if options.show:
        for row in true:
            print("true %s %s %.1f .. %.1f" % (row[0], row[1], (row[2] - start) / 1e6, (row[3] - start) / 1e6))
        for u in seen:
            print("told %s %s %.1f .. %.1f" % (u["signature"], u["name"], (u["begin"] - start) / 1e6, (u["last"] - start) / 1e6))
    verdict("JAX, mode %s: %d compiles of 20 ms and more are told with their time" % (options.mode, n), missed and "%d: %s" % (len(missed), "; ".join(missed[:12])))
    verdict("JAX, mode %s: names of %d traces, lowerings and compiles" % (options.mode, len(seen)), wrong and "%d: %s" % (len(wrong), "; ".join(wrong[:12])))
    verdict("JAX, mode %s: their time is within 2 %%" % options.mode, abs(all_told - whole) > whole / 50 and "%.3f s told %.3f s" % (whole / 1e9, all_told / 1e9),
            "%.3f s told %.3f s" % (whole / 1e9, all_told / 1e9))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python")
    parser.add_argument("--functions", default="30")
    parser.add_argument("--trace", metavar="N")
    parser.add_argument("--kinds", metavar="N")
    parser.add_argument("--mode", default="cpu")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if not options.python:
        print("skipped: --python says which interpreter has jax\n0 passed, 0 failed, 1 skipped")
        return 0
    if options.kinds:
        kinds(options)
        return finish()
    if options.trace:
        trace(options)
        return finish()
    truth, told = told_of(options.python, options.functions, "compile_jax_units.py")
    if not truth:
        return finish()
    start = min(begin for _, _, begin, _ in truth)
    true = [(KINDS[event], plain(name), begin, end) for event, name, begin, end in truth if event in KINDS]
    seen = [(u["signature"], plain(u["name"]), u["begin"], u["last"]) for u in told.units[1:]
            if u["kind"] == 0 and not u["parent"] and u["last"] and u["last"] > start]
    left, invented, sums = list(seen), [], {"true": collections.Counter(), "told": collections.Counter()}
    missed = []
    for kind, name, begin, end in true:
        found = next((s for s in left if s[:2] == (kind, name) and s[2] < end + SLACK and begin < s[3] + SLACK), None)
        if found:
            left.remove(found)
            sums["told"][kind] += found[3] - found[2]
        elif end - begin > 3 * PERIOD and any(begin + PERIOD <= t <= end - PERIOD for times in told.samples.values() for t in times):
            missed.append("%s %s %.1f ms" % (kind, name, (end - begin) / 1e6))
        sums["true"][kind] += end - begin
    invented = ["%s %s %.1f ms" % (s[0], s[1], (s[3] - s[2]) / 1e6) for s in left]
    if options.show:
        for s in sorted(true) + sorted(seen):
            print(s[0], s[1], "%.2f %.2f" % ((s[2] - start) / 1e6, (s[3] - start) / 1e6))
    verdict("JAX: %d traces, lowerings and compiles: each above 3 periods was told by name" % len(true), "; ".join(missed[:8]))
    verdict("JAX: each that was told is one", "; ".join(invented[:8]))
    far, notes = [], []
    for kind in KINDS.values():
        shares = [100 * s[kind] / max(1, sum(s.values())) for s in (sums["true"], sums["told"])]
        notes.append("%s %.2f %% told %.2f %%" % (kind, shares[0], shares[1]))
        if abs(shares[0] - shares[1]) > 1:
            far.append(notes[-1])
    verdict("JAX: shares of %.1f s within a point" % (sum(sums["true"].values()) / 1e9), "; ".join(far), "; ".join(notes))
    hows = {name: told.hows[how] for how, name in enumerate(["", "woken", "child", "only", "likely", "not known"]) if how}
    share = 100 * (1 - hows["not known"] / max(1, sum(hows.values())))
    verdict("JAX: at least 95 % of the samples of XLA's threads are credited", "" if share >= 95 else "%.1f %%: %s" % (share, hows),
            "%.1f %%: %s" % (share, hows))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
