#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# run-live: beside
"""Short-lived children: none is missed, or it is counted as a loss.

A target (tests/targets/children.py) makes children in every way that Python has, and each
writes what it did to a log of its own. The recording must hold each of them: its process with the right
parent, its threads, its own function in its stacks and no other child's, and its CPU time.

    children.py [--count N] [--ms N] [--rate HZ] [--attach] [--native full|off] [--only KIND]... [--all | NAME ...]

NAME is a version of pythons.sh (3.11.2; 3.11 takes its last); without one: /usr/bin/python3; --all: each.
Needs root.

How near its CPU time can be. The scheduler brings a thread's clock (sum_exec_runtime, which samples and
exits tell) up to date at its own ticks and at switches: at a thread's exit it may be one tick old. So the
least is what the process knew of itself in its last line, less a tick for each thread. The most is that and
all the time from then to its end, when one thread was left; a sampler's period more for each thread, which
may have been put on account. Of a child that cannot tell itself, both come from the kernel (wait4).

A function's time may lack or have more: samples between two updates of the clock share what it advanced by,
so at either end of the function a tick's worth may belong to its neighbours, and a period in which nothing
was sampled. What came before the process was identified is told as such, and counts as named.
"""
import argparse
import collections
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

from lib import CPROFD, LIVE, ROOT
from lib.recording import Tables
from lib.wait import until

TARGET = os.path.join(ROOT, "tests", "targets", "children.py")
KINDS = ["fork", "double", "mp-fork", "mp-forkserver", "mp-spawn", "exec", "version", "again", "foreign"]
FORMS = ["full", "off"]
OFTEN = {"fork", "mp-fork", "mp-forkserver", "mp-spawn", "exec"}
OWN = re.compile(r"^(child|thread|before)_(\d+)$")
# Kinds whose Python begins in the child: it cannot be known in its first milliseconds.
STARTING = {"mp-spawn", "exec", "version", "again"}
CUT = "(cut: the process was not identified yet)"
# How far behind the scheduler's clock of a thread may be: a tick (1/HZ), and 1 ms as ticks are late.
LEAVING = 0.005  # what a process runs after its exit is told: its memory is released then (kernel 6.16)
CLOCK_MONOTONIC_COARSE = 6  # linux/time.h; Python has no name for it
TICK = time.clock_getres(CLOCK_MONOTONIC_COARSE) + 0.001


class Told:
    """One line of the log."""

    def __init__(self, line):
        words = line.split()
        self.kind = words[0]
        self.number, self.pid, self.parent = map(int, words[1:4])
        self.own, self.thread, self.cpu = map(float, words[4:7])
        self.time, self.used = int(words[7]), float(words[8])


class ByPid(Tables):
    """What the stream says of each pid, over all epochs."""

    def __init__(self):
        self.rows = collections.defaultdict(dict)     # pid -> (start, exec) -> process
        self.tids = collections.defaultdict(set)
        self.spent = collections.defaultdict(lambda: collections.Counter())  # pid -> function -> ns
        self.names = collections.defaultdict(lambda: collections.Counter())  # pid -> before, after -> ns
        self.cpu = collections.Counter()
        self.unknown = collections.Counter()          # ns without a stack of functions
        self.cut = collections.Counter()              # ns before it was identified
        self.numbers = collections.defaultdict(set)
        self.ended = {}                               # pid -> monotonic ns
        self.ledger, self.end, self.words_of = {}, None, {}
        super().__init__()

    def clear(self):
        super().clear()
        self.words_of = {}

    def feed(self, line):
        event = super().feed(line)
        if event["ev"] == "process":
            self.rows[event["pid"]][event.get("start", 0), event.get("exec", 0)] = event
        elif event["ev"] == "thread":
            self.tids[self.processes[event["process"]]["pid"]].add(event["tid"])
        elif event["ev"] == "thread_end":
            self.cpu[self.pid(event["id"])] += event.get("cpu", 0)
        elif event["ev"] == "process_end":
            pid = self.processes[event["id"]]["pid"]
            self.ended[pid] = max(event["time"], self.ended.get(pid, 0))

    def pid(self, thread):
        return self.processes[self.threads[thread]["process"]]["pid"]

    def batch(self, event):
        n = len(event["t"])
        zeros = [0] * n
        for thread, stack, cpu in zip(event.get("thread", zeros), event.get("stack", zeros), event.get("cpu", zeros)):
            pid = self.pid(thread)
            if stack not in self.words_of:
                self.words_of[stack] = {name for name, _ in self.words(stack)}
            self.cpu[pid] += cpu
            known = False
            if CUT in self.words_of[stack]:
                self.cut[pid] += cpu
            for name in self.words_of[stack]:
                own = OWN.match(name)
                if own:
                    self.spent[pid][name] += cpu
                    self.numbers[pid].add(int(own.group(2)))
                elif name in ("before", "after"):
                    self.names[pid][name] += cpu
                known = known or not name.startswith("(")
            if not known:
                self.unknown[pid] += cpu


class Verdict:
    """Of the children of one kind. `missed`: those whose function or interpreter nobody saw; `named`: the
    ones among them of which the recording says so."""

    def __init__(self, rate):
        self.period = 1.0 / rate
        self.found = self.missed = self.named = 0
        self.wrong, self.unidentified = [], []
        self.late, self.cut, self.shares, self.totals = [], [], [], []

    def problem_of_cpu(self, told, stream):
        cpu = stream.cpu[told.pid] / 1e9
        threads = 2 if told.thread else 1
        least = told.cpu - threads * TICK
        after = (stream.ended.get(told.pid, 0) - told.time) / 1e9
        most = (told.used or told.cpu + after + LEAVING) + threads * self.period
        self.totals.append(cpu / (told.used or told.cpu))
        if not least <= cpu <= most:
            return ["%.1f ms CPU, but it used %.1f to %.1f" % (cpu * 1e3, least * 1e3, most * 1e3)]
        return []

    def problems_of_function(self, name, spent, own, cut):
        """Its function's time; None when all of it may have come before the process was identified."""
        blur = 2 * (TICK + self.period)
        if own - blur - cut <= spent <= own + blur and spent:
            return []
        if not spent:
            return None if cut and cut >= own - blur else ["%s is in no stack" % name]
        return ["%s has %.1f ms, but it worked %.1f" % (name, spent * 1e3, own * 1e3)]

    def problems_of_python(self, told, stream, row):
        pid, cut = told.pid, stream.cut[told.pid] / 1e9
        if told.kind in STARTING:
            self.late.append(stream.unknown[pid] / 1e6)
            self.cut.append(cut * 1e3)
        if not row.get("python"):
            self.missed += 1
            self.unidentified.append(told)
            return []  # the ledger has to have it
        problems = []
        for name, own in ("child_%d" % told.number, told.own), ("thread_%d" % told.number, told.thread):
            if not own:
                continue
            spent = stream.spent[pid][name] / 1e9
            found = self.problems_of_function(name, spent, own, cut)
            if found is None:
                self.named += 1
            if found is None or not spent:
                self.missed += 1
            problems += found or []
        self.shares.append(stream.spent[pid]["child_%d" % told.number] / 1e9 / told.own)
        if told.thread and len(stream.tids[pid]) < 2:
            problems.append("its thread is not listed")
        return problems

    def add(self, told, stream):
        pid = told.pid
        if pid not in stream.rows:
            self.missed += 1
            return self.wrong.append("%s %d (pid %d): no process" % (told.kind, told.number, pid))
        row = max(stream.rows[pid].values(), key=lambda r: (r.get("start", 0), r.get("exec", 0)))
        problems = self.problem_of_cpu(told, stream)
        if row.get("parent") != told.parent:
            problems.append("its parent is %s, not %d" % (row.get("parent"), told.parent))
        if not stream.tids[pid]:
            problems.append("no thread")
        if stream.numbers[pid] - {told.number}:
            problems.append("functions of %s" % sorted(stream.numbers[pid] - {told.number}))
        if not row.get("name"):
            problems.append("no name")
        if told.kind != "foreign":
            problems += self.problems_of_python(told, stream, row)
        elif row.get("python"):
            problems.append("a shell that is Python %s" % row["python"])
        if problems:
            self.wrong.append("%s %d (pid %d): %s" % (told.kind, told.number, pid, "; ".join(problems)))
        else:
            self.found += 1

    def named_by(self, ledger):
        """Children without an interpreter are what `child_missed` counts; true if it has all of them."""
        named = min(len(self.unidentified), ledger)
        self.named += named
        for told in self.unidentified[named:]:
            self.wrong.append("%s %d (pid %d): no Python, and not in the ledger" % (told.kind, told.number, told.pid))
        return ledger - named


# A target that becomes another, or leaves: what it was before and what came after, in functions so named.
MIDWAY_HEAD = """
import os, sys, threading, time
def work(name, cpu=0.15):
    space = {}
    exec("def %s(clock):\\n    end = clock() + %r\\n    while clock() < end:\\n        pass" % (name, cpu), space)
    space[name](time.thread_time)
AFTER = [sys.executable, "-c", open(sys.argv[1]).read().split("#" + " END")[0] + "\\nwork('after')"] if len(sys.argv) > 1 else []
# END
if "wait" in sys.argv:
    print("up", flush=True)
    sys.stdin.readline()
work("before")
"""
FORK = "if os.fork() == 0:\n    %swork('after')\nos._exit(0)"
# name -> what it does, whether `after` belongs to the process that was attached to; None: there is none
MIDWAY = {
    "exits": ("sys.exit(3)", None),
    "is killed": ("os.kill(os.getpid(), 9)", None),
    "executes": ("os.execv(AFTER[0], AFTER)", True),
    "executes in a thread": ("t = threading.Thread(target=lambda: os.execv(AFTER[0], AFTER))\nt.start()\ntime.sleep(9)", True),
    "executes a shell": ("os.execv('/bin/sh', ['sh', '-c', 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'])", None),
    "forks": (FORK % "", False),
    "double-forks": (FORK % "if os.fork(): os._exit(0)\n    os.setsid()\n    ", False),
}


def await_threads(recorder, out):
    """It is told of them when they all have their events."""
    def begun():
        with open(out) as stream:
            return recorder.poll() is not None or '"ev":"thread"' in stream.read(100000)
    until(begun)
    time.sleep(0.1)


def midway(name, python, what, attach, children, native):
    """A target that changes under the recording; whether all that was recorded is written."""
    act, own = MIDWAY[what]
    with tempfile.TemporaryDirectory() as folder:
        script, out, file = (os.path.join(folder, n) for n in ("target.py", "events", "out.speedscope.json"))
        with open(script, "w") as f:
            f.write(MIDWAY_HEAD + act + "\n")
        options = ["--native=" + native, "--stream", "-o", file] + (["-s"] if children else [])
        with open(out, "wb") as stream:
            if attach:
                target = subprocess.Popen([python, script, script, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                target.stdout.readline()
                recorder = subprocess.Popen([CPROFD, "attach", str(target.pid)] + options, stdout=stream,
                                            stderr=subprocess.PIPE)
                await_threads(recorder, out)
                target.stdin.write(b"go\n")
                target.stdin.close()
            else:
                recorder = subprocess.Popen([CPROFD, "record"] + options + ["--", python, script, script],
                                            stdout=stream, stderr=subprocess.PIPE)
            try:
                words = recorder.communicate(timeout=120)[1].decode()
            except subprocess.TimeoutExpired:
                recorder.kill()
                words = "it did not end"
            if attach:
                target.wait()
        stream = ByPid()
        with open(out, "rb") as events:
            for line in events:
                if line.startswith(b"{"):
                    stream.feed(line)
        spent = collections.Counter()
        for of_pid in stream.names.values():
            spent.update(of_pid)
        problems = []
        if recorder.returncode:
            problems.append("status %s: %s" % (recorder.returncode, words[-300:]))
        if not stream.end or stream.end["reason"] != "exited":
            problems.append("its end: %s" % stream.end)
        wanted = {"before": True, "after": own or (own is False and children)}
        cut = sum(stream.cut.values())
        for function, there in wanted.items():
            least = (0.15 - 3 * TICK) * 1e9 - cut if there else 0
            if spent[function] < max(least, there) or (spent[function] and not there):
                problems.append("%s() has %.0f ms" % (function, spent[function] / 1e6))
        try:
            with open(file) as f:
                names = {frame["name"] for frame in json.load(f)["shared"]["frames"]}
            problems += ["%s is not in the file" % n for n, there in wanted.items() if there and n not in names]
        except (OSError, ValueError) as error:
            problems.append("the file: %s" % error)
    print("%-8s %-7s %-4s a target that %-21s %s%s" % (name, "attach" if attach else "record", native, what,
                                                      "(-s) " if children else "", "; ".join(problems) or "ok"), flush=True)
    return not problems


def other_python(python, pythons):
    """Another version than `python`, to be executed by its children."""
    for _, path in pythons:
        if path != python:
            return path
    return python


def record(options, argv, out, attach):
    """Runs the target under cprofd; exit status and words."""
    with open(out, "wb") as stream:
        if not attach:
            recorder = subprocess.Popen([CPROFD, "record"] + options + ["--"] + argv, stdout=stream,
                                        stderr=subprocess.PIPE)
        else:
            target = subprocess.Popen(argv + ["--wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            target.stdout.readline()
            recorder = subprocess.Popen([CPROFD, "attach", str(target.pid)] + options, stdout=stream,
                                        stderr=subprocess.PIPE)
            await_threads(recorder, out)
            target.communicate(b"go\n")
        try:
            words = recorder.communicate(timeout=300)[1].decode()
        except subprocess.TimeoutExpired:
            recorder.kill()
            words = recorder.communicate()[1].decode() + "it did not end"
    return recorder.returncode, words


def run(name, python, other, kinds, ms, attach, rate, native):
    """Samples one run of the target; whether all is well."""
    with tempfile.TemporaryDirectory() as folder:
        log, out = os.path.join(folder, "log"), os.path.join(folder, "events")
        open(log, "w").close()
        argv = [python, TARGET, log, str(ms), "--other", other] + ["%s=%d" % k for k in kinds]
        status, words = record(["-s", "-r", str(rate), "--native=" + native, "--stream"], argv, out, attach)
        stream = ByPid()
        with open(out, "rb") as file:
            for line in file:
                if line.startswith(b"{"):
                    stream.feed(line)
        with open(log) as file:
            told = [Told(line) for line in file]
    wanted = sum(n for _, n in kinds)
    losses = stream.ledger.get("losses", {})
    ok = len(told) == wanted and stream.end is not None and status == 0
    if not ok:
        print("%d of %d children told; status %s: %s" % (len(told), wanted, status, words[-300:]))
    in_ledger = losses.get("child_missed", 0)
    for kind, _ in kinds:
        verdict = Verdict(rate)
        of_kind = [t for t in told if t.kind == kind]
        for t in of_kind:
            verdict.add(t, stream)
        in_ledger = verdict.named_by(in_ledger)
        ok = ok and not verdict.wrong and verdict.missed == verdict.named and 2 * verdict.missed <= len(of_kind)
        print("%-8s %-7s %-4s %-13s %4d children %4d found %3d missed %3d named%s%s%s" % (
            name, "attach" if attach else "record", native, kind, len(of_kind), verdict.found, verdict.missed, verdict.named,
            "  CPU %.3f" % statistics.mean(verdict.totals) if verdict.totals else "",
            "  own function %.2f (least %.2f)" % (statistics.mean(verdict.shares), min(verdict.shares)) if verdict.shares else "",
            "  no Python yet %.1f ms (most %.1f), unidentified %.1f (most %.1f)" % (
                statistics.median(verdict.late), max(verdict.late), statistics.median(verdict.cut), max(verdict.cut)) if verdict.late else ""),
            flush=True)
        for wrong in verdict.wrong[:None if os.environ.get("V") else 3]:
            print("    " + wrong)
    print("    %s%s" % ({k: v for k, v in losses.items() if v}, "" if ok else "  FAILED"), flush=True)
    return ok


def chosen(pythons, names, every):
    """The interpreters to test with, and names that none has."""
    if every:
        return pythons, []
    if not names:
        return [(n, p) for n, p in pythons if p == os.path.realpath("/usr/bin/python3")] or pythons[:1], []
    fitting = {wanted: [p for p in pythons if p[0] == wanted or p[0].startswith(wanted + ".")] for wanted in names}
    return [found[-1] for found in fitting.values() if found], [n for n, found in fitting.items() if not found]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=40, help="children of each kind; half as many of kinds that "
                        "are no way of Python's")
    parser.add_argument("--ms", type=int, default=20)
    parser.add_argument("--native", choices=FORMS, help="all with native stacks, or without; else each kind has one form when "
                        "it is recorded, and the other when it is attached to, and with --all it has both")
    parser.add_argument("--rate", type=int, default=999)
    parser.add_argument("--attach", action="store_true", help="all kinds by attach, not by record")
    parser.add_argument("--only", action="append", choices=KINDS)
    parser.add_argument("--all", action="store_true", help="with every interpreter that pythons.sh finds")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if os.geteuid():
        print("skipped: children needs root\n0 passed, 0 failed, 1 skipped")
        return 0
    listed = subprocess.run([os.path.join(LIVE, "pythons.sh")], stdout=subprocess.PIPE, check=True,
                            universal_newlines=True).stdout.split("\n")
    pythons = [p.split(None, 1) for p in listed if p.strip()]
    results = []
    pairs, absent = chosen(pythons, args.names, args.all)
    for name in absent:
        print("skipped: no CPython %s was found" % name)
    for name, python in pairs:
        other = other_python(python, pythons)
        kinds = args.only or KINDS
        both = args.all and not args.native
        for turn in range(2 if both else 1):
            form = {kind: args.native or FORMS[(i + turn) % 2] for i, kind in enumerate(kinds)}
            other_form = {kind: args.native or FORMS[(i + turn + 1) % 2] for i, kind in enumerate(kinds)}
            runs = [(form[kind], [(kind, args.count if kind in OFTEN else args.count // 2 or 1)], args.attach) for kind in kinds]
            if not args.only:  # the other way too, all kinds at once, in the other form
                runs += [(native, [(kind, 5) for kind in kinds if other_form[kind] == native], not args.attach)
                         for native in sorted(set(other_form.values()))]
            results += [run(name, python, other, of_run, args.ms, attach, args.rate, native) for native, of_run, attach in runs]
            results += [midway(name, python, what, (i + children) % 2 == 1, children, args.native or FORMS[(i // 2 + children + turn) % 2])
                        for i, what in enumerate(() if args.only else MIDWAY) for children in (False, True)]
    print("%d passed, %d failed, %d skipped" % (results.count(True), results.count(False), len(absent)))
    return 1 if False in results or not results else 0


if __name__ == "__main__":
    sys.exit(main())
