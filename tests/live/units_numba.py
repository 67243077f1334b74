#!/usr/bin/env python3
"""What Numba compiled, as cprofd tells it from outside, against what the target itself counted (compile_units.py).

    tests/live/units_numba.py [--python FILE] [--show] [WORK...]     svd (without), kinds, parallel

Each unit that cprofd tells must be one that the target counted, by function, signature and path of parents, and each
counted one that got more than three periods of CPU must be told; one that no tick met at all is none. A unit's begin lies
in the span of its first sample, and at most two samples are between its last one and its end: what the machine does
meanwhile does not matter. Needs root.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CPROFD = os.environ.get("CPROFD", os.path.join(ROOT, "build/cprofd"))
RATE = 999
PERIOD = 1e9 / RATE
SLACK = 300e3  # ns: from the target's clock to the frame, and what one call of Python takes
tally = collections.Counter()


def verdict(what, why=None, note=""):
    tally["failed" if why else "passed"] += 1
    print("%s %s%s" % ("FAILED" if why else "ok", what, ": %s" % why if why else " (%s)" % note if note else ""), flush=True)


def run(python, work, folder):
    """The target's own account, and the events."""
    out = os.path.join(folder, work + ".cprof")
    target = subprocess.Popen([python, os.path.join(ROOT, "tests/targets/compile_units.py"), work], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, universal_newlines=True)
    try:
        if target.stdout.readline().strip() != "ready":
            return None, None, None
        client = subprocess.Popen([CPROFD, "attach", str(target.pid), "--native", "-r", str(RATE), "-o", out],
                                  stderr=subprocess.PIPE, universal_newlines=True)
        time.sleep(1.5)
        target.stdin.write("\n")
        target.stdin.flush()
        truth = json.loads(target.stdout.readline())
        target.wait(20)
        words = client.communicate(timeout=60)[1]
    finally:
        target.kill()
        target.wait()
    lines = subprocess.run(["zstdcat", out], stdout=subprocess.PIPE, check=True).stdout.splitlines()
    return truth, [json.loads(line) for line in lines], words


class Told:
    """The units of a recording of one epoch."""

    def __init__(self, events):
        self.units, self.samples, self.tids = [None], collections.defaultdict(list), []
        self.functions, self.frames, self.stacks = [], [], [None]
        for event in events:
            kind = event["ev"]
            if kind == "units":
                for row in event["rows"]:
                    self.units.append({"parent": row[0], "thread": row[1], "kind": row[2], "name": row[4],
                                       "signature": row[5], "begin": row[6], "end": None, "trigger": row[7], "file": row[8],
                                       "line": row[9], "first": None, "last": None})
            elif kind == "unit_end":
                unit = self.units[event["id"]]
                unit["end"] = event["time"]
                if event["name"]:
                    unit.update(name=event["name"], signature=event["signature"], file=event["file"], line=event["line"])
            elif kind == "thread":
                self.tids[event["id"]:] = [event["tid"]]
            elif kind in ("functions", "frames", "stacks"):
                getattr(self, kind).extend(event["rows"])
            elif kind == "samples":
                self.take(event)

    def take(self, event):
        when = 0
        for i, delta in enumerate(event["t"]):
            when += delta
            thread = event.get("thread", [0] * (i + 1))[i]
            at = event.get("unit", [0] * (i + 1))[i]
            self.samples[thread].append(when)
            while at:
                unit = self.units[at]
                unit["first"] = unit["first"] or when
                unit["last"] = when
                at = unit["parent"]

    def path(self, unit):
        path = []
        while unit["parent"]:
            unit = self.units[unit["parent"]]
            if unit["kind"] == 0:
                path.insert(0, [unit["name"], unit["signature"]])
        return path

    def next_sample(self, thread, when):
        return min((t for t in self.samples[thread] if t > when), default=float("inf"))

    def any_between(self, tid, begin, end):
        return sum(begin <= t <= end for thread, times in self.samples.items() if self.tids[thread] == tid for t in times)


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
        if not unit["begin"] - SLACK <= true["begin"] <= unit["first"] + SLACK:
            early.append("%s begins %.2f ms off" % (short(unit), (unit["begin"] - true["begin"]) / 1e6))
        # Ticks between the last sample and the end: a frame that is left is unlinked before what it held is destroyed.
        after = told.any_between(true["tid"], unit["last"] + 1, true["end"] - SLACK)
        if not unit["last"] - SLACK <= true["end"] or after > 2:
            late.append("%s ends %.2f ms off, %d samples" % (short(unit), (unit["last"] - true["end"]) / 1e6, after))
        off.append(abs((unit["last"] - unit["begin"]) - (true["end"] - true["begin"])) / PERIOD)
    verdict(label + "each begins in the span of its first sample", "; ".join(early[:5]), "%d" % len(pairs))
    verdict(label + "each ends with its last sample, but for two", "; ".join(late[:5]))
    off.sort()
    within = sum(o <= 2 for o in off) / max(1, len(off))
    print("   durations: %.1f %% within 2 periods, the farthest %.1f periods off (waiting for a CPU counts)" % (
        100 * within, off[-1] if off else 0))
    triggers = {told.functions[told.frames[told.stacks[u["trigger"]][1]][0]][1].rsplit("/", 1)[-1]
                for u in told.units[1:] if u["kind"] == 0 and not u["parent"] and u["trigger"]}
    verdict(label + "what caused it is a line of the target's", None if triggers == {"compile_units.py"} else str(triggers))
    return pairs


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--show", action="store_true", help="what cprofd printed")
    parser.add_argument("work", nargs="*")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        for work in options.work or ["svd"]:
            truth, events, words = run(options.python, work, folder)
            if not truth:
                verdict("%s: the target compiles" % work, "it ended")
                continue
            if options.show:
                print(words)
            check(work, truth, Told(events))
    print("%d passed, %d failed, %d skipped" % (tally["passed"], tally["failed"], tally["skipped"]))
    return 1 if tally["failed"] else 0


sys.exit(main())
