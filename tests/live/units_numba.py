#!/usr/bin/env python3
"""What Numba compiled, as cprofd tells it from outside, against what the target itself counted (compile_units.py).

    tests/live/units_numba.py [--python FILE] [--show] [--shares SECONDS] [WORK...]     svd (without), kinds, parallel, module,
                                                                jitclass, lifted, stencil, cached, threads; all

Each unit that cprofd tells must be one that the target counted, by function, signature and path of parents, and each
counted one that got more than three periods of CPU must be told; one that no tick met at all is none. A unit's begin lies
between its first sample and the one before, and at most two samples are between its last one and its end: what the machine does
meanwhile does not matter.

--shares: again and again, until SECONDS of CPU were compiled; then the shares of each pass of Numba's pipeline and of LLVM's lock
in the CPU time of all compiles must be within a point of what Numba's events say. Durations are told in samples: what the machine
does between two is no matter of the profiler's. Needs root.
"""
import argparse
import collections
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from units_told import LOCK, PERIOD, ROOT, SLACK, Told, run, tally, verdict  # noqa: E402

WORKS = ["svd", "kinds", "parallel", "module", "jitclass", "lifted", "stencil", "cached", "threads"]


def identity(name, signature, path):
    return json.dumps([name, signature, path])


def match(truth, told):
    """Pairs of the same identity, in order of time; what is left of either."""
    left = collections.defaultdict(list)
    pairs, invented = [], []
    for unit in truth:
        left[identity(unit["name"], unit["signature"], unit["path"])].append(unit)
    for unit in told.units[1:]:
        if unit["kind"] != 0:
            continue
        same = left[identity(unit["name"], unit["signature"], told.path(unit))]
        found = next((u for u in same if u["begin"] < unit["last"] + SLACK and unit["first"] < u["end"] + SLACK), None)
        if found:
            same.remove(found)
            pairs.append((found, unit))
        else:
            invented.append(unit)
    return pairs, invented, [unit for units in left.values() for unit in units]


def short(unit):
    return "%s(%s)" % (unit["name"], unit["signature"][:60])


def check(work, truth, told):
    units = truth["units"]
    pairs, invented, missed = match(units, told)
    met = [u for u in missed if u["cpu"] > 3 * PERIOD and told.any_between(u["tid"], u["begin"] + PERIOD, u["end"] - PERIOD)]
    label = "numba %s, %s: " % (truth["numba"], work)
    note = "%d compiles, %d events of Numba; %d told, %d of the others shorter than 3 periods" % (
        len(units), truth["events"], len(pairs), len(missed) - len(met))
    verdict(label + "each compile that was told is one", "; ".join(short(u) for u in invented[:5]), note)
    verdict(label + "each compile above 3 periods was told", "; ".join("%s %.1f ms" % (short(u), u["cpu"] / 1e6) for u in met[:5]))
    early, late, off = [], [], []
    for true, unit in pairs:
        if not told.before(unit) - SLACK <= true["begin"] <= unit["first"] + SLACK:
            early.append("%s begins %.2f ms off" % (short(unit), (unit["begin"] - true["begin"]) / 1e6))
        # Ticks between the last sample and the end: a frame that is left is unlinked before what it held is destroyed.
        after = told.any_between(true["tid"], unit["last"] + 1, true["end"] - SLACK)
        if not unit["last"] - SLACK <= true["end"] or after > 2:
            late.append("%s ends %.2f ms off, %d samples" % (short(unit), (unit["last"] - true["end"]) / 1e6, after))
        off.append(abs(unit["ticks"] - told.any_between(true["tid"], true["begin"], true["end"])))
    verdict(label + "each begins in the span of its first sample", "; ".join(early[:5]), "%d" % len(pairs))
    verdict(label + "each ends with its last sample, but for two", "; ".join(late[:5]))
    # What is left is the way from the last sample before to the begin, and from the last one in it to the end: a period.
    off.sort()
    within = sum(o <= 1 for o in off) / max(1, len(off))
    verdict(label + "duration of each: 99 % within 2 periods, all within 4",
            None if within >= 0.99 and off[-1] <= 3 else "%.1f %%, up to %d samples off" % (100 * within, off[-1] if off else 0),
            "%.1f %% within 2, up to %d samples off" % (100 * within, off[-1] if off else 0))
    triggers = {u["trigger"] for u in told.units[1:] if u["kind"] == 0 and not u["parent"] and u["trigger"]}
    verdict(label + "what caused it is a line of the target's", None if triggers == {"compile_units.py"} else str(triggers))
    return pairs


def shares(python, works, seconds, folder):
    """Fresh processes, merged."""
    true, told, compiled, version, rounds = collections.Counter(), collections.Counter(), 0, "", 0
    while compiled < seconds * 1e9:
        for work in works:
            truth, events, _ = run(python, work, folder, True)
            if not truth:
                verdict("%s: the target compiles" % work, "it ended")
                return
            version = truth["numba"]
            compiled += sum(u["cpu"] for u in truth["units"] if not u["path"])
            true.update({name: cpu for name, (cpu, _) in truth["spans"].items()})
            told.update(Told(events).spans())
        rounds += 1
    rows = sorted(((100 * true[name] / compiled, 100 * told[name] / max(1, told["compile"]), name) for name in true
                   if name != "numba:compiler_lock"), reverse=True)
    for of, share, name in rows[:12]:
        print("   %6.2f %% %6.2f %%  %s" % (of, share, name))
    far = ["%s %.2f %% told %.2f %%" % (name, of, share) for of, share, name in rows if abs(of - share) > 1]
    verdict("numba %s, shares over %.0f s of compiles: %d passes and LLVM's lock within a point" % (version, compiled / 1e9, len(rows) - 1),
            "; ".join(far), "compiles themselves: %.2f s, told %.2f s" % (compiled / 1e9, told["compile"] / 1e9))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--show", action="store_true", help="what cprofd printed")
    parser.add_argument("--shares", type=float, metavar="SECONDS")
    parser.add_argument("work", nargs="*")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        works = WORKS if options.work == ["all"] else options.work or ["svd"]
        if options.shares:
            shares(options.python, works, options.shares, folder)
            works = []
        for work in works:
            truth, events, words = run(options.python, work, folder)
            if not truth:
                verdict("%s: the target compiles" % work, "it ended")
                continue
            if options.show:
                print(words)
            check(work, truth, Told(events))
    print("%d passed, %d failed, %d skipped" % (tally["passed"], tally["failed"], tally["skipped"]))
    return 1 if tally["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
