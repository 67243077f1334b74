#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How often `cprofd diff` says that recordings of one program differ, whether it finds what takes 5 % longer, and whether
its intervals hold the ratio of CPU clocks that a program takes itself.

    diff.py same [--pairs 20] [--compiles N] [--rate HZ] [--keep DIR]
    diff.py power [--pairs 10] [--each 8] [--compiles 55] [--rate HZ] [--slower 0.05] [--part NAME] [--keep DIR]
    diff.py gate [--pairs 40] [--planted 10] [--each 3] [--compiles 100] [--rate HZ] [--slower 0.05] [--part NAME] [--for SECS] [--keep DIR]
    diff.py slower [--pairs 3] [--seconds SECS] [--rate HZ] [--slower 0.05] [--keep DIR]
    diff.py clocks --cython DIRECTORY BEFORE AFTER [--each N] [--seconds SECS] [--rate HZ] [--keep DIR]

same: each process compiles one function N times; pairs are neighbours. (A process that goes on is not the same later: Numba
keeps what it made, and looks through it.) slower: pairs of two
processes, of which the second spends a 20th more in Numba's phase `Finalize object`. power: each experiment has several
processes a side, one of each at the same time, so that both meet the same neighbours; those of the second spend a 20th more
in one pass of Numba's pipeline. How often it is found, how often other sides that are the same differ (neighbouring experiments,
halves of one), and what the processes' own clocks say. gate: how often `--fail-on` alarms where nothing changed, and how often it finds
a 20th more in one pass, with three recordings a side (those of the one side and of the other at the same time; the pairs without a change
share recordings). With --keep it goes on where it ended: --for ends it after so long. clocks: BEFORE and AFTER are
interpreters; N processes of each translate one module again and again with a Cython of Python code alone (see
tests/live/units_cython.py). Needs root."""
import argparse
import json
import math
import os
import subprocess
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CPROFD = os.environ.get("CPROFD", os.path.join(ROOT, "build", "cprofd"))
TARGETS = os.path.join(ROOT, "tests", "targets")
TABLES = "class,unit,phase,pass,function,line,module"


def record(path, slower, options, compiles=None):
    if os.path.exists(path):
        return
    target = subprocess.Popen(["/usr/bin/python3", os.path.join(TARGETS, "compile_slower.py"), str(slower), "100000"] + [str(compiles)] * bool(compiles),
                              stdout=subprocess.PIPE)
    try:
        target.stdout.readline()
        subprocess.run([CPROFD, "attach", str(target.pid), "--native", "-r", str(options.rate), "-o", path]
                       + ([] if compiles else ["-d", str(options.seconds)]), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    finally:
        target.kill()
        target.wait()


def diff(*args):
    run = subprocess.run([CPROFD, "diff", "--json", *args], check=True, stdout=subprocess.PIPE)
    return json.loads(run.stdout)


def row_of(result, name):
    return next(row for table in result["tables"] for row in table["rows"] if row["name"] == name)


def tally(results, known="margin", differs="differs"):
    compared, flagged, names = 0, 0, {}
    for result in results:
        for table in result["tables"]:
            for row in table["rows"]:
                if known in row:
                    compared += 1
                    flagged += row[differs]
                    if row[differs]:
                        names.setdefault((table["by"], row["name"]), []).append("%.4f -> %.4f" % (row["before"], row["after"]))
    return compared, flagged, names


def show(what, results, *key):
    compared, flagged, names = tally(results, *key)
    print("%s: %d of %d comparisons flagged (%.3f %%)" % (what, flagged, compared, 100 * flagged / max(1, compared)))
    for name, found in sorted(names.items(), key=lambda item: -len(item[1]))[:12]:
        print("    %s: %s" % (" ".join(name), "; ".join(found[:3])), flush=True)


def same(folder, options):
    pairs = options.pairs or 20
    paths = [os.path.join(folder, "same%d.cprof" % i) for i in range(pairs + 1)]
    for path in paths:
        record(path, 0, options, options.compiles)
    for sort in ("exclusive", "inclusive"):
        args = ["--by", TABLES, "--sort", sort]
        show("%d pairs of the same program, %s times" % (pairs, sort), [diff(a, b, *args) for a, b in zip(paths, paths[1:])])
        sides = [paths[i:i + 3] + ["vs"] + paths[i + 3:i + 6] for i in range(0, len(paths) - 5, 3)]
        show("%d times three against three, %s times" % (len(sides), sort), [diff(*side, *args) for side in sides])
    show("the same, per compile", [diff(a, b, "--by", TABLES, "--per=compile") for a, b in zip(paths, paths[1:])])


def slower(folder, options):
    pairs = options.pairs or 3
    before = [os.path.join(folder, "fast%d.cprof" % i) for i in range(pairs)]
    after = [os.path.join(folder, "slow%d.cprof" % i) for i in range(pairs)]
    for i in range(pairs):
        record(before[i], 0, options)
        record(after[i], options.slower, options)
    sides = [(a, b) for a, b in zip(before, after)] + ([(*before, "vs", *after)] if pairs > 1 else [])
    for side in sides:
        for per in ("share", "compile"):
            result = diff(*side, "--by=class,phase,pass", "--sort=inclusive", "--per", per)
            row = row_of(result, "Finalize object")
            print("%.0f %% slower, %d a side, per %s: x%.4f, %+.3f to %+.3f %%, %d samples: %s; surely differ: %s" % (
                100 * options.slower, len(side) // 2, per, row["ratio"], 100 * row["low"] / row["before"], 100 * row["high"] / row["before"],
                row["samples"], "found" if row["differs"] else "not found",
                ", ".join(r["name"] for t in result["tables"] for r in t["rows"] if r["differs"])), flush=True)


def clock_of(path):
    """The slowed pass beside the rest, by the process's own clock: the logarithm."""
    with open(path + ".clocks") as file:
        own, all_of_it = map(float, file.read().split())
    return math.log(own / (all_of_it - own))


def record_compiles(path, slower, options):
    if os.path.exists(path):
        return
    target = subprocess.Popen(["/usr/bin/python3", os.path.join(TARGETS, "compile_slower.py"), str(slower), "100000", str(options.compiles), options.part],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    attach = None
    try:
        target.stdout.readline()
        attach = subprocess.Popen([CPROFD, "attach", str(target.pid), "--native", "-r", str(options.rate), "-o", path],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1.5)
        clocks, _ = target.communicate(b"go\n", timeout=600)
        attach.wait(60)
        with open(path + ".clocks", "wb") as file:
            file.write(clocks)
    finally:
        for process in (target, attach):
            if process and process.poll() is None:
                process.kill()
                process.wait()


def record_at_once(paths, slower, options):
    at_once = [threading.Thread(target=record_compiles, args=(path, share, options)) for path, share in zip(paths, slower)]
    for thread in at_once:
        thread.start()
    for thread in at_once:
        thread.join()


def power(folder, options):
    sides, found = [], {"share": 0, "compile": 0, "rest": 0}
    for experiment in range(options.pairs or 10):
        paths = [[os.path.join(folder, "%d%s%02d.cprof" % (experiment, side, i)) for i in range(options.each)] for side in "ab"]
        for pair in zip(*paths):
            record_at_once(pair, (0, options.slower), options)
        sides.append(paths)
        share, ns = (row_of(diff(*paths[0], "vs", *paths[1], "--by=phase", "--sort=inclusive", "--per", per), options.part) for per in ("share", "compile"))
        rest = {key: ns.get("rest_" + key, 0) for key in ("ratio", "low", "high", "differs")}
        clock = math.exp(sum(map(clock_of, paths[1])) / options.each - sum(map(clock_of, paths[0])) / options.each)
        for per, differs in (("share", share["differs"]), ("compile", ns["differs"]), ("rest", rest["differs"])):
            found[per] += differs
        print("%d: %d samples of both sides; by their clocks x%.3f to the rest. share x%.4f (%+.2f to %+.2f %%): %s; per compile x%.3f: %s; "
              "to the rest x%.3f (x%.3f to x%.3f): %s" % (
                  experiment, share["samples"], clock, share["ratio"], 100 * share["low"] / share["before"], 100 * share["high"] / share["before"],
                  "found" if share["differs"] else "not found", ns["ratio"], "found" if ns["differs"] else "not found",
                  rest["ratio"], rest["low"], rest["high"], "found" if rest["differs"] else "not found"), flush=True)
    print("of %d found:" % len(sides), ", ".join("%s %d" % pair for pair in found.items()), flush=True)
    same_sides = [(one[k], two[k]) for k in (0, 1) for one, two in zip(sides, sides[1:])] + [(side[::2], side[1::2]) for pair in sides for side in pair]
    for sort in ("exclusive", "inclusive"):
        results = {per: [diff(*a, "vs", *b, "--by", TABLES, "--sort", sort, "--per", per) for a, b in same_sides] for per in ("share", "compile")}
        show("%d pairs of sides that are the same, %s, shares" % (len(same_sides), sort), results["share"])
        show("... per compile", results["compile"])
        show("... to the rest", results["compile"], "rest_ratio", "rest_differs")


GATES = (("total>3%,unit>5%",), ("total>3%,unit>5%,phase>5%", "--per=compile"), ("total>0%,unit>0%,phase>0%,pass>0%",),
         ("total>0%,unit>0%,phase>0%,pass>0%", "--per=compile"))


def judged(a, b, limits, *args):
    """What grew, as the gate says it: nothing, if it was not closed."""
    run = subprocess.run([CPROFD, "diff", *a, "vs", *b, "--fail-on", limits, "--min-growth", "0" if ">0%" in limits else "0.2%", "--json", *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if run.returncode not in (0, 3):
        raise SystemExit("diff could not: " + run.stderr)
    return [line.split("grew: ")[1] for line in run.stderr.splitlines() if "grew: " in line] if run.returncode else []


def gate(folder, options):
    each, pairs, planted = options.each, options.pairs or 40, options.planted
    base = [os.path.join(folder, "gate-a%02d.cprof" % i) for i in range(max(pairs + 2 * each - 1, planted * each))]
    more = [os.path.join(folder, "gate-b%02d.cprof" % i) for i in range(planted * each)]
    alone = base[len(more):]
    rounds = [(pair, (0, options.slower)) for pair in zip(base, more)] + [(alone[i:i + 2], (0, 0)) for i in range(0, len(alone), 2)]
    end = time.monotonic() + options.lasting
    for done, (paths, slower) in enumerate(rounds):
        if time.monotonic() > end:
            print("%d of %d rounds are recorded; load %.1f" % (done, len(rounds), os.getloadavg()[0]))
            return
        record_at_once(paths, slower, options)
    same_sides = [(base[i:i + each], base[i + each:i + 2 * each]) for i in range(pairs)]
    for limits in GATES:
        grew = [judged(a, b, *limits) for a, b in same_sides]
        print("%s: %d of %d pairs without a change fail" % (" ".join(limits), sum(map(bool, grew)), pairs))
        for line in sum(grew, [])[:12]:
            print("    " + line)
    same = [diff(*a, "vs", *b, "--by", TABLES) for a, b in same_sides]
    show("all rows of these pairs, shares", same)
    print("    in %d of %d pairs none is marked" % (sum(not tally([one])[1] for one in same), pairs), flush=True)
    for limits in GATES[2:]:
        found = []
        for k in range(planted):
            a, b = (side[k * each:(k + 1) * each] for side in (base, more))
            grew = judged(a, b, *limits)
            clock = math.exp(sum(map(clock_of, b)) / each - sum(map(clock_of, a)) / each)
            found.append(any(options.part in line for line in grew))
            row = row_of(diff(*a, "vs", *b, "--by=phase", *limits[1:]), options.part)
            print("    by the clocks x%.3f to the rest; x%.4f (%+.2f to %+.2f %%) of %d samples: %s" % (
                clock, row["ratio"], 100 * row["low"] / row["before"], 100 * row["high"] / row["before"], row["samples"], "; ".join(grew) or "not found"))
        print("%s: %.0f %% more of %s, found in %d of %d" % (" ".join(limits), 100 * options.slower, options.part, sum(found), planted), flush=True)


def clocked(python, path, options):
    """A recording, and the CPU time (ns) of each compile."""
    told = path + ".clocks"
    if not os.path.exists(path):
        with open(told, "w") as out:
            target = subprocess.Popen([python, os.path.join(TARGETS, "compile_clocked.py"), options.cython, "100000"], stdout=subprocess.PIPE, text=True)
            attach = None
            try:
                target.stdout.readline()
                attach = subprocess.Popen([CPROFD, "attach", str(target.pid), "--native", "-d", str(options.seconds), "-r", str(options.rate), "-o", path],
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                while attach.poll() is None:
                    out.write(target.stdout.readline())
            finally:
                target.kill()
                target.wait()
                if attach and attach.poll() is None:
                    attach.kill()
                    attach.wait()
    with open(told) as lines:
        return [int(line) for line in lines]


def clocks(folder, options):
    if not options.cython or not options.before or not options.after:
        raise SystemExit("clocks needs --cython DIRECTORY BEFORE AFTER")
    pythons = [os.path.abspath(options.before), os.path.abspath(options.after)]
    paths, took = ([], []), ([], [])
    for i in range(options.each):
        for side, python in enumerate(pythons):
            paths[side].append(os.path.join(folder, "clock%d%s.cprof" % (i, "ab"[side])))
            took[side].append(clocked(python, paths[side][-1], options))
            if not took[side][-1]:
                raise SystemExit("no compile of %s told its time: does this Cython run on it?" % python)
    for number in [[i] for i in range(options.each)] + [list(range(options.each))] * (options.each > 1):
        a, b = [[ns for i in number for ns in took[side][i]] for side in (0, 1)]
        before, after = sum(a) / len(a), sum(b) / len(b)
        sides = [[paths[side][i] for i in number] for side in (0, 1)]
        row = row_of(diff(*sides[0], "vs", *sides[1], "--by=unit", "--sort=inclusive", "--per=compile"), "clocked")
        known = "low" in row
        low, high = (1 + row["low"] / row["before"], 1 + row["high"] / row["before"]) if known else (0, 0)
        print("%d a side, %d and %d compiles: clocks %.2f -> %.2f ms, x%.4f; diff %.2f -> %.2f ms, x%.4f, surely x%.4f to x%.4f: %s, %s" % (
            len(number), len(a), len(b), before / 1e6, after / 1e6, after / before, row["before"] / 1e6, row["after"] / 1e6, row["ratio"], low, high,
            "holds it" if low <= after / before <= high else "does not hold it", "differs" if row["differs"] else "nothing sure"), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("same", "power", "gate", "slower", "clocks"))
    parser.add_argument("before", nargs="?")
    parser.add_argument("after", nargs="?")
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--compiles", type=int)
    parser.add_argument("--rate", type=int)
    parser.add_argument("--slower", type=float, default=0.05)
    parser.add_argument("--each", type=int)
    parser.add_argument("--cython")
    parser.add_argument("--part", default="native_lowering")
    parser.add_argument("--planted", type=int, default=10)
    parser.add_argument("--for", type=float, dest="lasting", default=math.inf)
    parser.add_argument("--keep")
    options = parser.parse_intermixed_args()
    strong = options.what == "power"
    options.compiles = options.compiles or {"power": 55, "gate": 100}.get(options.what, 150)
    options.rate = options.rate or (999 if options.what in ("power", "gate") else 9999)
    options.each = options.each or (8 if strong else 3)
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        folder = options.keep or folder
        os.makedirs(folder, exist_ok=True)
        {"same": same, "power": power, "gate": gate, "slower": slower, "clocks": clocks}[options.what](folder, options)


main()
