#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What Numba compiled, as cprofd reports it from outside, against what the target itself counted (compile_units.py).

    tests/live/units_numba.py [--python FILE] [--show] [--shares SECONDS] [--llvm SECONDS] [WORK...]     svd (without), kinds, parallel, module,
                                                                jitclass, lifted, stencil, cached, threads; all

Each unit that cprofd reports must be one that the target counted, by function, signature and path of parents, and each
counted one with more than three periods of CPU must be reported; one without any sample need not be. A unit's begin lies
between its first sample and the one before, and at most two samples are between its last one and its end: what the machine does
meanwhile does not matter.

--shares: again and again, until SECONDS of CPU were compiled; then the shares of each pass of Numba's pipeline and of LLVM's lock
in the CPU time of all compiles must be within a point of what Numba's events say. Durations are told in samples: what the machine
does between two is no matter of the profiler's. --llvm: the same with SECONDS of LLVM's passes, against LLVM's own timers: passes,
bundles and compiles in the time of passes within two points, the same ten passes, and LLVM's lock outside of passes within a
point of the compiles' time. Needs root.
"""
import argparse
import collections
import json
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from units_told import LOCK, PERIOD, ROOT, SLACK, Told, finish, run, verdict  # noqa: E402

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
        off.append(abs(unit["own_ticks"] - told.any_between(true["tid"], true["begin"], true["end"])))
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
            truth, events, _ = run(python, work, folder, "spans")
            if not truth:
                verdict("%s: the target compiles" % work, "it ended")
                return
            version = truth["numba"]
            compiled += sum(u["cpu"] for u in truth["units"] if not u["path"])
            true.update({name: cpu for name, (cpu, _, _) in truth["spans"].items()})
            told.update(Told(events).spans())
        rounds += 1
    rows = sorted(((100 * true[name] / compiled, 100 * told[name] / max(1, told["compile"]), name) for name in true),
                  reverse=True)
    for of, share, name in rows[:12]:
        print("   %6.2f %% %6.2f %%  %s" % (of, share, name))
    far = ["%s %.2f %% told %.2f %%" % (name, of, share) for of, share, name in rows if abs(of - share) > 1]
    verdict("numba %s, shares over %.0f s of compiles: %d passes, Numba's and LLVM's lock within a point" % (version, compiled / 1e9, len(rows) - 2),
            "; ".join(far), "compiles themselves: %.2f s, told %.2f s" % (compiled / 1e9, told["compile"] / 1e9))


REPORT = "Pass execution timing report"
BUNDLES = ["Function passes", "Module passes (cheap optimization for refprune)", "Module passes (full optimization)", "Finalize object"]
TIMER = "(timer)"
LEGACY = BUNDLES[-1]  # its passes are told by LLVM in words, and not by the names of their classes


def timed_passes(report):
    """{name: s of CPU} of LLVM's first table; time of analyses is in that of the passes that asked for them. The new pass manager has
    each row twice."""
    rows = collections.defaultdict(list)
    for line in report.partition(REPORT)[2].partition("timing report")[0].splitlines():
        row = re.match(r"((?:\s*(?:\d+\.\d+ \(\s*[\d.]+%\)|-{5,}))+)\s+(\S.*)", line)
        if row:
            # User, system, both, wall; a column of nothing is left out.
            numbers = re.findall(r"(\d+\.\d+) \(", row[1])
            rows[row[2]].append(float(numbers[-2 if len(numbers) > 1 else -1]))
    rows.pop("Total", None)
    twice = rows and all(len(times) % 2 == 0 for times in rows.values())
    return {name[:-4] if name.endswith("Pass") else name: sum(times) / (1 + bool(twice)) for name, times in rows.items()}


def ticks_by_pass(told):
    """By (bundle, innermost pass), and by (name, signature) of the compile. A timer asks the kernel for the time, most of what it does: by LLVM's
    count half of it is in the pass, but outside of its frame."""
    sums, compiles = collections.Counter(), collections.Counter()
    for innermost, ticks in told.leaves.items():
        at, name, bundle = innermost, None, None
        while at and told.units[at]["kind"] != 0:
            unit = told.units[at]
            name = unit["name"] if unit["kind"] == 2 and not name else name
            bundle = unit["name"] if unit["kind"] == 1 and unit["name"] in BUNDLES and not bundle else bundle
            at = unit["parent"]
        if bundle:
            ticks = ticks if name else told.timers[innermost] / 2
            sums[bundle, name or TIMER] += ticks
            compiles[(told.units[at]["name"], told.units[at]["signature"]) if at else None] += ticks
    return sums, compiles


def llvm(python, works, seconds, folder):
    """Passes and bundles in the time of all passes, as LLVM's own timers have them: they make LLVM slower, for both the same."""
    true, told, version = collections.Counter(), collections.Counter(), ""
    units, lock, compiled = [collections.Counter(), collections.Counter()], [0, 0], [0, 0]
    while sum(true.values()) < seconds:
        for work in works:
            truth, events, _ = run(python, work, folder, "llvm")
            if not truth:
                verdict("%s: the target compiles" % work, "it ended")
                return
            version = truth["numba"]
            for name, report, unit in truth["llvm"]:
                bundle = name.partition(" on ")[0]
                for what, cpu in timed_passes(report).items():
                    true[bundle, what] += cpu
                    units[0][tuple(unit) if unit else None] += cpu
            of = Told(events)
            passes, compiles = ticks_by_pass(of)
            told.update(passes)
            units[1].update(compiles)
            spans = of.spans()
            lock[0] += truth["spans"][LOCK][0] / 1e9
            lock[1] += (spans[LOCK] - of.tick() * sum(passes.values())) / 1e9
            compiled[0] += sum(u["cpu"] for u in truth["units"] if not u["path"]) / 1e9
            compiled[1] += spans["compile"] / 1e9
    lock[0] -= sum(true.values())
    named = any(name == "InstCombine" for _, name in true)
    rows = []
    for label, key in ("bundle", lambda row: row[0]), ("pass", lambda row: row[1] if named and row[0] != LEGACY and row[1] != TIMER else None):
        sums = [collections.Counter(), collections.Counter()]
        for one, counts in zip(sums, (true, told)):
            for row, value in counts.items():
                if key(row):
                    one[key(row)] += value
        rows += [(100 * sums[0][name] / sum(sums[0].values()), 100 * sums[1][name] / max(1, sum(sums[1].values())), label, name)
                 for name in set(sums[0]) | set(sums[1])]
        if label == "pass" and named:
            shares = {name: (of, share) for of, share, kind, name in rows if kind == label}
            tenth = [sorted(column, reverse=True)[:10][-1] for column in zip(*shares.values())]
            # What LLVM itself has within half a point of the tenth may be on either side of it.
            other = [name for name, (of, share) in shares.items() if (of >= tenth[0]) != (share >= tenth[1]) and abs(of - tenth[0]) > 0.5]
            verdict("numba %s: the same ten passes" % version, ", ".join(other))
    for row in sorted(rows, reverse=True)[:20]:
        print("   %6.2f %% %6.2f %%  %s %s" % row)
    verdict("numba %s, LLVM's timers over %.0f s: %d bundles and passes within two points" % (version, sum(true.values()), len(rows)),
            "; ".join("%s %.2f %% told %.2f %%" % (name, of, share) for of, share, _, name in rows if abs(of - share) > 2))
    rows = [(100 * units[0][unit] / sum(units[0].values()), 100 * units[1][unit] / max(1, sum(units[1].values())), "%s(%s)" % (unit or ("outside", "")))
            for unit in set(units[0]) | set(units[1])]
    for of, share, name in sorted(rows, reverse=True)[:5]:
        print("   %6.2f %% %6.2f %%  %s" % (of, share, name[:100]))
    verdict("numba %s, each compile's share of the time of passes within two points: %d compiles" % (version, len(rows)),
            "; ".join("%s %.2f %% told %.2f %%" % (name, of, share) for of, share, name in rows if abs(of - share) > 2),
            "%.2f at most" % max(abs(of - share) for of, share, _ in rows))
    of, share = [100 * inside / max(1e-9, whole) for inside, whole in zip(lock, compiled)]
    verdict("numba %s, LLVM's lock outside of its passes within a point of %.0f s of compiles" % (version, compiled[0]),
            "%.2f %% told %.2f %%" % (of, share) if abs(of - share) > 1 else None, "%.2f %% told %.2f %%" % (of, share))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--show", action="store_true", help="what cprofd printed")
    parser.add_argument("--shares", type=float, metavar="SECONDS")
    parser.add_argument("--llvm", type=float, metavar="SECONDS")
    parser.add_argument("work", nargs="*")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        works = WORKS if options.work == ["all"] else options.work or ["svd"]
        if options.shares:
            shares(options.python, works, options.shares, folder)
            works = []
        if options.llvm:
            llvm(options.python, works, options.llvm, folder)
            works = []
        for work in works:
            truth, events, words = run(options.python, work, folder)
            if not truth:
                verdict("%s: the target compiles" % work, "it ended")
                continue
            if options.show:
                print(words)
            check(work, truth, Told(events))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
