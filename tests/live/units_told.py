# SPDX-License-Identifier: MIT
"""Reads what cprofd reported about a target's compiles from its stream: for the tests named units_*.py.

run() starts a target of tests/targets, attaches, and lets it go; Told holds the units of the events. A target prints "ready", waits for a line,
compiles, and prints what it counted itself as one line of JSON.
"""
import bisect
import collections
import itertools
import json
import os
import subprocess
import tempfile
import time

from lib import CPROFD, ROOT
from lib.recording import Batches, rows

RATE = 999
PERIOD = 1e9 / RATE
SLACK = 300e3  # ns: from the target's clock to the frame, and what one call of Python takes
tally = collections.Counter()
LOCK = "numba:llvm_lock"
WITHIN = "in LLVM (lock held)"


def verdict(what, why=None, note=""):
    tally["failed" if why else "passed"] += 1
    print("%s %s%s" % ("FAILED" if why else "ok", what, ": %s" % why if why else " (%s)" % note if note else ""), flush=True)


def finish():
    """The last line, and the status of the test."""
    print("%d passed, %d failed, %d skipped" % (tally["passed"], tally["failed"], tally["skipped"]))
    return 1 if tally["failed"] else 0


def await_session(client, out):
    """It is told when all threads have their events."""
    until = time.monotonic() + 60
    while time.monotonic() < until and client.poll() is None:
        with open(out) as stream:
            if '"ev":"thread"' in stream.read(100000):
                break
        time.sleep(0.05)
    time.sleep(0.5)


def run(python, work, folder, option=None, target="compile_units.py", mode="cpu"):
    """The target's own account, the events, and what cprofd said."""
    out = os.path.join(folder, work + ".events")
    target = subprocess.Popen([python, os.path.join(ROOT, "tests/targets", target), work] + [option] * bool(option), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, universal_newlines=True)
    try:
        if target.stdout.readline().strip() != "ready":
            return None, None, None
        with open(out, "w") as stream:
            client = subprocess.Popen([CPROFD, "attach", str(target.pid), "--native", "-r", str(RATE), "--mode", mode, "--stream"],
                                      stdout=stream, stderr=subprocess.PIPE, universal_newlines=True)
        await_session(client, out)
        target.stdin.write("\n")
        target.stdin.flush()
        truth = json.loads(target.stdout.readline())
        target.wait(60)
        words = client.communicate(timeout=120)[1]
    finally:
        target.kill()
        target.wait()
    with open(out) as stream:
        return truth, [json.loads(line) for line in stream], words


def told_of(python, work, target, option=None, kind=None, mode="wall"):
    """The target's own account, and Told (or of another kind of it); None, None: it ended, which is a failed verdict."""
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        truth, events, _ = run(python, work, folder, option, target=target, mode=mode)
    if truth:
        return truth, (kind or Told)(events)
    verdict("the target runs", "it ended")
    return None, None


def takes_lock(name, file):
    return name.split(".")[-1] in ("_acquire_compile_lock", "compile") and "/numba/core/" in file


def is_timer(name, _):
    return name.startswith(("llvm::Timer::startTimer()", "llvm::Timer::stopTimer()"))


class Told:
    """The units of a recording, each once: one that went on into another epoch, where all ids start again, is the same."""

    def __init__(self, events):
        self.units, self.samples = [None], collections.defaultdict(list)  # by tid; a sample without a cause is a tick
        self.leaves = collections.Counter()  # ticks by innermost unit
        self.hows = collections.Counter()  # ticks of threads without Python, by how they were credited
        self.cpu = self.locked = 0  # locked: ticks in Numba's compiler lock, by the functions that take it
        self.elapsed = collections.Counter()  # (tid, innermost unit): ns by the clock, those without a unit left out
        self.timers = collections.Counter()  # ticks in LLVM's timers of passes by innermost unit
        self.tables = Batches()
        self.begin_epoch()
        for event in events:
            self.tables.feed(event)
            kind = event["ev"]
            if kind == "epoch":
                self.begin_epoch()
            elif kind == "units":
                for row in event["rows"]:
                    self.add(row)
            elif kind == "unit_end":
                unit = self.units[self.ids[event["id"]]]
                unit["end"] = event["time"]
                if event.get("name"):
                    unit.update(name=event["name"], signature=event.get("signature", ""), file=event.get("file", ""), line=event.get("line", 0))
            elif kind == "unit_ends":
                for id, time in zip(event["id"], itertools.accumulate(event["t"])):
                    self.units[self.ids[id]]["end"] = time
            elif kind == "samples":
                self.take(event)

    def begin_epoch(self):
        self.ids = [0]  # the epoch's -> a place in self.units
        self.before_epoch, self.gone_on = len(self.units), set()
        self.lock_of, self.timer_of = {0: False}, {0: False}

    def tid(self, thread):
        return self.tables.threads[thread]["tid"]

    def add(self, row):
        row = row + [0, "", 0, 0][len(row) - 7:]
        unit = {"parent": self.ids[row[0]], "thread": self.tid(row[1]), "kind": row[2], "name": row[4], "signature": row[5],
                "begin": row[6], "end": None, "trigger": self.file(row[7]), "file": row[8], "line": row[9], "first": None, "last": None,
                "ticks": 0, "own_ticks": 0}
        same = ("parent", "thread", "kind", "name", "signature")
        for i in range(self.before_epoch - 1, 0, -1):
            if not self.units[i]["end"] and i not in self.gone_on and all(unit[key] == self.units[i][key] for key in same):
                self.gone_on.add(i)
                self.ids.append(i)
                return
        self.ids.append(len(self.units))
        self.units.append(unit)

    def file(self, stack):
        """Of a stack's innermost frame."""
        return stack and next(self.tables.path(stack))[0][1].rsplit("/", 1)[-1]

    def is_below(self, stack, known, is_it):
        """A function of which is_it(name, file) holds is on the stack; known: of the stacks before."""
        path = []
        while stack not in known:
            path.append(stack)
            if is_it(*next(self.tables.path(stack))[0][:2]):
                known[stack] = True
            else:
                stack = self.tables.stacks[stack][0]
        for of in path:
            known[of] = known[stack]
        return known[stack]

    def take(self, event):
        for when, thread, number, cpu, wall, cause, stack, how in rows(event, "thread", "unit", "cpu", "wall", "cause", "stack", "how"):
            at = self.ids[number]
            self.cpu += cpu
            self.hows[how] += how != 0
            if at:
                self.elapsed[self.tid(thread), at] += wall
            if not cause:
                self.samples[self.tid(thread)].append(when)
                self.leaves[at] += 1
                self.locked += self.is_below(stack, self.lock_of, takes_lock)
                self.timers[at] += self.is_below(stack, self.timer_of, is_timer)
            while at:
                unit = self.units[at]
                unit["first"] = unit["first"] or when
                unit["last"] = when
                unit["ticks"] += not cause
                unit["own_ticks"] += not cause and unit["thread"] == self.tid(thread)
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
            if WITHIN in names:
                names.append(LOCK)
            for name in set(names):
                sums[name] += ticks * self.tick()
        sums["numba:compiler_lock"] = self.locked * self.tick()
        return sums

    def before(self, unit):
        """The last sample of its thread before it."""
        times = self.samples[unit["thread"]]
        at = bisect.bisect_left(times, unit["first"])
        return times[at - 1] if at else 0

    def any_between(self, tid, begin, end):
        return sum(begin <= t <= end for t in self.samples[tid])


def recorded(python, program, arguments, own_rules, folder, mode, kind=Told):
    """What the target printed of itself, and what was told by these rules, from its first line of input on: Told, or another kind of it."""
    out, rules = os.path.join(folder, "x.events"), os.path.join(folder, "mine.rules")
    with open(rules, "w") as file:
        file.write(own_rules)
    target = subprocess.Popen([python, program, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
    try:
        target.stdout.readline()
        with open(out, "w") as stream:
            client = subprocess.Popen([CPROFD, "attach", str(target.pid), "--native", "-r", str(RATE), "--mode", mode, "--rules", rules,
                                       "--stream"], stdout=stream, stderr=subprocess.DEVNULL)
        await_session(client, out)
        target.stdin.write("\n")
        target.stdin.flush()
        truth = json.loads(target.stdout.readline())
        client.wait(120)
    finally:
        target.kill()
        target.wait()
    with open(out) as stream:
        return truth, kind(map(json.loads, stream))
