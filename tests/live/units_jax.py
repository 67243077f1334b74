#!/usr/bin/env python3
"""Functions that JAX traces, lowers and compiles, as cprofd tells them, against jax.monitoring's durations inside of the target.

    tests/live/units_jax.py --python FILE [--functions N] [--show]     an interpreter that has jax

Each duration longer than three periods must be told with its name, and none that JAX does not tell; the shares of tracing,
lowering and XLA's compiling in their sum are within a point. In wall mode: XLA compiles in threads of its own, while the caller's
waits, and of those threads' samples 95 % are credited to a call. Needs root; without --python nothing is done.
"""
import argparse
import collections
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from units_told import PERIOD, SLACK, finish, told_of, verdict  # noqa: E402

KINDS = {"jaxpr_trace_duration": "trace", "jaxpr_to_mlir_module_duration": "lower", "backend_compile_duration": "XLA compile"}


def plain(name):
    """work0 of jit(work0), jit_work0."""
    return name[4:].rstrip(")") if name[:4] in ("jit(", "jit_") else name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python")
    parser.add_argument("--functions", default="30")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    if not options.python:
        print("skipped: --python says which interpreter has jax\n0 passed, 0 failed, 1 skipped")
        return 0
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


sys.exit(main())
