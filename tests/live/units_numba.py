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
import bisect
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


WORKS = ["svd", "kinds", "parallel", "module", "jitclass", "lifted", "stencil", "cached", "threads"]
LOCK = "numba:llvm_lock"
WITHIN = "in LLVM (lock held)"


def await_session(client, out):
    """It is told when all threads have their events."""
    until = time.monotonic() + 20
    while time.monotonic() < until and client.poll() is None:
        with open(out) as stream:
            if '"ev":"thread"' in stream.read(100000):
                break
        time.sleep(0.05)
    time.sleep(0.5)


def run(python, work, folder, spans=False, target="compile_units.py"):
    """The target's own account, and the events."""
    out = os.path.join(folder, work + ".events")
    target = subprocess.Popen([python, os.path.join(ROOT, "tests/targets", target), work] + ["spans"] * spans, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, universal_newlines=True)
    try:
        if target.stdout.readline().strip() != "ready":
            return None, None, None
        with open(out, "w") as stream:
            client = subprocess.Popen([CPROFD, "attach", str(target.pid), "--native", "-r", str(RATE), "--stream"],
                                      stdout=stream, stderr=subprocess.PIPE, universal_newlines=True)
        await_session(client, out)
        target.stdin.write("\n")
        target.stdin.flush()
        truth = json.loads(target.stdout.readline())
        target.wait(20)
        words = client.communicate(timeout=60)[1]
    finally:
        target.kill()
        target.wait()
    with open(out) as stream:
        return truth, [json.loads(line) for line in stream], words


class Told:
    """The units of a recording of one epoch."""

    def __init__(self, events):
        self.units, self.samples, self.tids = [None], collections.defaultdict(list), []
        self.functions, self.frames, self.stacks = [], [], [None]
        self.leaves = collections.Counter()  # ticks by innermost unit
        self.cpu = 0
        for event in events:
            kind = event["ev"]
            if kind == "units":
                for row in event["rows"]:
                    self.units.append({"parent": row[0], "thread": row[1], "kind": row[2], "name": row[4],
                                       "signature": row[5], "begin": row[6], "end": None, "trigger": row[7], "file": row[8],
                                       "line": row[9], "first": None, "last": None, "ticks": 0})
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
            self.leaves[at] += 1
            self.cpu += event.get("cpu", [0] * (i + 1))[i]
            while at:
                unit = self.units[at]
                unit["first"] = unit["first"] or when
                unit["last"] = when
                unit["ticks"] += 1
                at = unit["parent"]

    def path(self, unit):
        path = []
        while unit["parent"]:
            unit = self.units[unit["parent"]]
            if unit["kind"] == 0:
                path.insert(0, [unit["name"], unit["signature"]])
        return path

    def tick(self):
        """CPU from sample to sample: of a single one the scheduler tells it in steps of its own tick."""
        return self.cpu / max(1, sum(map(len, self.samples.values())))

    def spans(self):
        """CPU by name, as the target sums it: of what is inside of itself once."""
        sums = collections.Counter()
        for at, ticks in self.leaves.items():
            names = []
            while at:
                unit = self.units[at]
                names.append("compile" if unit["kind"] == 0 else unit["name"])
                at = unit["parent"]
            if WITHIN in names and "enter, leave LLVM lock" not in names[:names.index(WITHIN)]:
                names.append(LOCK)
            for name in set(names):
                sums[name] += ticks * self.tick()
        return sums

    def before(self, unit):
        """The last sample of its thread before it."""
        times = self.samples[unit["thread"]]
        at = bisect.bisect_left(times, unit["first"])
        return times[at - 1] if at else 0

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
    triggers = {told.functions[told.frames[told.stacks[u["trigger"]][1]][0]][1].rsplit("/", 1)[-1]
                for u in told.units[1:] if u["kind"] == 0 and not u["parent"] and u["trigger"]}
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
