#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Wall mode against a target whose threads wait in known ways and measure it themselves: the clock, their own CPU time, and the kernel's
count of what they waited for a CPU. Of each thread each class is within a percentage point, and all of them are its wall time to a
thousandth. Needs root.

    waits.py [--samples N] [--seconds N] [--rate HZ] [--only SCENARIO,...] [--show] [PYTHON ...]

--samples 60000 takes 60 s, and says how many of them each scenario has."""
import argparse
import bisect
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from lib import CPROFD, ROOT, result
from lib.recording import Tables, rows
from lib.wait import few

TARGET = os.path.join(ROOT, "tests/targets/waits.py")
POINTS = 1.0
VERBOSE = "--show" in sys.argv
# What a thread waits for while it does what its marks say.
CAUSES = {"sleep": "sleep", "pipe": "pipe I/O", "socket": "socket I/O", "lock": "lock", "gil": "GIL", "child": "child process",
          "stopped": "stopped", "calls": "lock", "long_call": "lock", "short_call": "lock"}
CALLS = ("long_call", "short_call")
results = {}  # name -> what was wrong


def check(good, name, *details):
    results.setdefault(name, [])
    if not good:
        results[name].append(details)


def tell():
    for name, wrong in results.items():
        result.check(not wrong, name, *wrong)
    results.clear()


class Recording(Tables):
    def __init__(self, lines):
        super().__init__()
        self.rows = collections.defaultdict(list)  # tid -> (from, to, class, stack)
        self.begin, self.end_of, self.told = {}, {}, collections.Counter()
        self.losses, self.mains, self.samples = {}, [], 0
        for e in lines:
            self.event(e)

    def batch(self, event):
        self.samples += len(event["t"])
        for time, thread, wall, cpu, klass, stack in rows(event, "thread", "wall", "cpu", "class", "stack"):
            tid, klass = self.threads[thread]["tid"], self.classes[klass]
            self.told[tid] += wall
            key = tuple(klass) if klass[0] == "waiting" else ("ready", "") if klass[0] == "ready" else "cpu"
            if key == "cpu" and wall > cpu:
                self.rows[tid].append((time - wall, time - cpu, "hole", 0))
                wall = cpu
            self.rows[tid].append((time - wall, time, key, stack))

    def event(self, e):
        self.feed(e)
        kind = e["ev"]
        if kind == "thread":
            self.begin.setdefault(e["tid"], e["time"])
            self.mains.append(e["tid"])
        elif kind == "thread_end":
            tid = self.threads[e["id"]]["tid"]
            self.end_of[tid] = e["time"]
            self.told[tid] += e["wall"]
            self.rows[tid] += [(e["time"] - e["wall"], e["time"] - e["cpu"], "hole", 0), (e["time"] - e["cpu"], e["time"], "cpu", 0)]
        elif kind == "ledger":
            self.losses = dict(e.get("losses", self.losses), cut=e["samples"] - e["whole"])

    def spent(self, tid, begin, end):
        """From begin to end: by class, and by stack."""
        classes, stacks = collections.Counter(), collections.Counter()
        for start, stop, key, stack in self.rows[tid]:
            ns = min(stop, end) - max(start, begin)
            if ns > 0:
                classes[key] += ns
                stacks[stack] += ns
        return classes, stacks

    def names(self, stack):
        return [function[0] for function, _ in self.path(stack)]


def stop_and_go(pid, over):
    while not over.wait(0.1):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.05)
        os.kill(pid, signal.SIGCONT)


def record(python, seconds, rate, only):
    with tempfile.TemporaryDirectory() as folder:
        target = subprocess.Popen([python, "-S", TARGET, folder, only + ","], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        over = threading.Event()
        try:
            pids = json.loads(target.stdout.readline())
            if "stopped" in pids:
                threading.Thread(target=stop_and_go, args=(pids["stopped"], over), daemon=True).start()
            out = os.path.join(folder, "x.events")
            with open(out, "w") as stream:
                done = subprocess.run([CPROFD, "attach", str(target.pid), "-s", "--mode=wall", "--native=full", "-d", str(seconds), "-r",
                                       str(rate), "--stream"], stdout=stream, stderr=subprocess.PIPE, timeout=seconds + 60)
            if done.returncode:
                raise RuntimeError(done.stderr.decode())
            over.set()
            time.sleep(0.1)
            target.stdin.close()
            target.wait(60)
            truth = {}
            for name in pids:
                with open(os.path.join(folder, name + ".json")) as f:
                    truth.update(json.load(f)["threads"])
        finally:
            over.set()
            target.kill()
            target.wait()
        return {int(tid): log for tid, log in truth.items()}, set(pids.values()), pids.get("stopped"), Recording(json.loads(line) for line in open(out)), done.stderr.decode()


def holders(tid, others, rows, path):
    """Of the waits for the GIL longer than 1 ms: how many name the thread that says itself that it kept the GIL then. A row may lie too
    early by what ran since the tick before it: two periods of the sampler, and what the thread had no CPU meanwhile."""
    right, wrong, found = 0, collections.Counter(), {}
    held = sorted((to, since, other) for other, times in others.items() if other != tid for since, to in times)
    times = [to for to, _, _ in held]
    for start, stop, key, stack in rows:
        if key != ("waiting", "GIL") or stop - start < 1000000:
            continue
        at = bisect.bisect(times, start + 4000000)
        if at == len(times) or held[at][1] > start:
            continue # nobody's word
        to, since, who = held[at]
        if stack not in found:
            match = re.search(r"^\(held by .*\((\d+)\)\)$", path(stack)[0])
            found[stack] = match and int(match[1])
        if found[stack] == who:
            right += 1
        else:
            wrong["another is named" if found[stack] else "nobody is named"] += 1
            if VERBOSE:
                print("       ", path(stack)[:5], "%d, since %.1f ms, for %.1f ms more; the wait %.1f ms" % (
                    who, (start - since) / 1e6, (to - start) / 1e6, (stop - start) / 1e6))
    return right, wrong


def truth_of(rows, begin, end):
    """What a thread did between its first mark after begin and its last one before end: those, and ns by what."""
    found = collections.Counter()
    rows = [row for row in rows if begin <= row[0] <= end]
    for (t0, cpu0, delay0, _), (t1, cpu1, delay1, what) in zip(rows, rows[1:]):
        cpu, delay, wall = cpu1 - cpu0, delay1 - delay0, t1 - t0
        found["cpu"] += cpu
        found[("ready", "")] += delay
        cause = CAUSES.get(what)
        found[("waiting", cause) if cause else "rest"] += wall - cpu - delay
    return (rows[0][0], rows[-1][0], found) if rows else (begin, begin, found)


def judge(python, seconds, rate, only, show, at_least=0):
    truth, truth_pids, stopped, recording, words = record(python, seconds, rate, only)
    name = os.path.basename(os.path.realpath(python))
    print("%s: %d samples, losses %s" % (name, recording.samples, recording.losses))
    if at_least:
        rows = collections.Counter()
        for tid, log in truth.items():
            rows[log["role"]] += len(recording.rows[tid])
        print("   ", ", ".join("%s %d" % row for row in rows.items()))
        check(recording.samples >= at_least, "%s: as many samples as were asked for" % name, recording.samples)
    right, wrong = collections.Counter(), collections.defaultdict(collections.Counter)
    for pid in recording.mains:
        if pid in truth_pids - {stopped}:
            spent, stacks = recording.spent(pid, recording.begin[pid], recording.end_of[pid])
            # Somebody may stop it.
            wall = recording.end_of[pid] - recording.begin[pid] - spent["waiting", "stopped"]
            paths = (recording.names(stack) for stack, _ in stacks.most_common())
            path = next((path for path in paths if path and path[0] != "(waiting: stopped)"), [])
            check(spent[("waiting", "pipe I/O")] >= 0.99 * wall and {"main", "<module>", "__libc_start_main"} <= {re.sub("_impl$|_34$|@.*", "", f) for f in path},
                  "%s: a thread that waits since before" % name, dict(spent), path[:8], path[-4:])
    for tid, log in truth.items():
        title = "%s: %s" % (name, log["role"])
        if tid not in recording.end_of:
            check(False, title + ": the thread is there")
            continue
        begin, end = recording.begin[tid], recording.end_of[tid]
        check(abs(recording.told[tid] - (end - begin)) <= (end - begin) / 1000, title + ": all classes are its wall time",
              recording.told[tid], end - begin)
        if log["held"]:
            others = {other: it["held"] for other, it in truth.items() if it["role"] == log["role"]}
            n, those = holders(tid, others, recording.rows[tid], recording.names)
            right[log["role"]] += n
            wrong[log["role"]] += those
            continue
        begin, end, known = truth_of(log["rows"], begin, end)
        spent, stacks = recording.spent(tid, begin, end)
        # Who comes back from a wait may find the GIL taken: for the marks that is one wait.
        own = ("waiting", CAUSES.get(log["role"], CAUSES["gil"] if "gil" in log["role"] else None))
        if own in known and own[1] != "GIL":
            spent[own] += spent.pop(("waiting", "GIL"), 0)
            known[own] += known.pop("rest", 0)
        # A child that is forked tells through a pipe that it execs.
        if own == ("waiting", "child process"):
            spent[own] += spent.pop(("waiting", "pipe I/O"), 0)
        # Until tables of native code are made, nobody sees that a futex is a lock.
        if own == ("waiting", "lock"):
            cut = sum(ns for stack, ns in stacks.items() if (recording.names(stack) or [""])[0] == "(waiting: futex)" and
                      (len(recording.names(stack)) == 1 or any(f.startswith("(cut") for f in recording.names(stack))))
            spent[own] += cut
            spent[("waiting", "futex")] -= cut
        wall, total, bad = max(1, end - begin), max(1, sum(known.values())), []
        for key in set(known) | set(spent):
            share, got = 100.0 * known[key] / total, 100.0 * spent[key] / wall
            words = "%s: %.2f %%, measured %.2f %%" % (" ".join(key) if isinstance(key, tuple) else key, share, got)
            if show:
                print("   ", words)
            # What the thread does between its marks is no wait of theirs.
            if abs(share - got) > POINTS and key not in ("rest",):
                bad.append(words)
        check(not bad, title + ": each class", *bad)
        if "gil" in log["role"]:
            paths = [recording.names(stack) for stack in stacks]
            check(any("(waiting: GIL)" in path for path in paths), title + ": waits are there")
            check(not [path for path in paths if "(waiting: GIL)" in path and {"sum", "range"} & set(path)],
                  title + ": no builtin waits for it that gives it to nobody")
        if log["role"] == "calls":
            marks, bad = [row for row in log["rows"] if begin <= row[0] <= end], []
            for call in CALLS:
                share = 100.0 * sum(row[0] - before[0] for before, row in zip(marks, marks[1:]) if row[3] == call) / wall
                got = 100.0 * sum(ns for stack, ns in stacks.items() if call in recording.names(stack)) / wall
                if abs(share - got) > POINTS:
                    bad.append("%s: %.2f %%, measured %.2f %%" % (call, share, got))
            check(not bad, title + ": the function that waited", *bad)
        if show:
            marks = collections.Counter(row[3] for row in log["rows"] if begin < row[0] <= end)
            print("      %.3f s, marks %s" % (wall / 1e9, dict(marks)))
            for stack, ns in stacks.most_common(3):
                print("      %5.1f %%  %s" % (100.0 * ns / wall, " < ".join(recording.names(stack)[:7])))


    for role in right:
        n = right[role] + sum(wrong[role].values())
        check(n - right[role] <= few(n, 0.01), "%s: %s: who held the GIL" % (name, role), wrong[role].most_common(4))
        print("    %s: the holder is right in %d of %d waits" % (role, right[role], n))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--samples", type=int, default=0)
    parser.add_argument("--rate", type=int, default=999)
    parser.add_argument("--only", default="sleep,pipe,socket,lock,calls,gil2,gil8,hold,child,ready,stopped")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("pythons", nargs="*", default=["/usr/bin/python3"])
    arguments = parser.parse_args()
    if os.geteuid():
        result.skip("needs root")
    else:
        for python in arguments.pythons:
            seconds = max(arguments.seconds, arguments.samples / 1000)
            judge(python, seconds, arguments.rate, arguments.only, arguments.show, arguments.samples)
            # Many at once starve the profiler on a busy machine: by themselves, at most twice more.
            for role in 2 * arguments.only.split(","):
                again = {name: wrong for name, wrong in results.items() if wrong and ": %s: " % role in name}
                if again:
                    print("again:", role, *[(name, *wrong) for name, wrong in again.items()])
                    for name in again:
                        del results[name]
                    judge(python, seconds, arguments.rate, role, arguments.show)
            tell()
    return result.finish()


if __name__ == "__main__":
    sys.exit(main())
