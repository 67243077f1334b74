#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Worker threads and child processes, credited to the call that waits for them, against what the jobs note themselves (tests/targets/workers.py):
two Python threads call at once. Of the samples within a job, a minimum share must have the right thread and function, and at most a small share a wrong one. Needs root.

    workers.py [--seconds N] [--only KIND,...] [--show]      bars are stricter from 2 s on"""
import argparse
import bisect
import collections
import json
import os
import subprocess
import sys
import tempfile

from lib import CPROFD, ROOT
from lib.recording import Batches, kind_of, rows
from lib.wait import few
from units_told import await_session, finish, verdict

TARGET = os.path.join(ROOT, "tests/targets/workers.py")

HOW = ["", "woken", "child", "only", "likely", "not known"]
UNKNOWN = 5
# kind -> at least so much right, at most so much wrong (%). In a short run much of the time is that in which names are still being read; then as SHORT.
KINDS = {"own": (95, 1), "chain": (95, 1), "shared": (0, 100), "left": (75, 25), "child": (95, 1)}
SHORT = {"own": (60, 10), "chain": (60, 10), "shared": (0, 100), "left": (60, 40), "child": (75, 5)}
LONG = 2.0  # s


def record(kinds, seconds, library, folder):
    out = os.path.join(folder, "x.events")
    target = subprocess.Popen(["/usr/bin/python3", "-S", TARGET, library, str(seconds), kinds], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              universal_newlines=True)
    try:
        target.stdout.readline()
        with open(out, "w") as stream:
            client = subprocess.Popen([CPROFD, "attach", str(target.pid), "-s", "--native", "-r", "999", "--mode", "wall", "--stream"],
                                      stdout=stream, stderr=subprocess.DEVNULL)
        await_session(client, out)
        target.stdin.write("\n")
        target.stdin.flush()
        truth = json.loads(target.stdout.readline())
        target.wait(60)
        client.wait(120)
    finally:
        target.kill()
        target.wait()
    with open(out) as stream:
        return truth, [json.loads(line) for line in stream]


def told(events):
    """Of each sample with `how`: time, tid or pid, how, the caller's tid, the caller's innermost function."""
    tables = Batches()
    for e in events:
        tables.feed(e)
        if e["ev"] == "samples":
            for when, thread, how, caller, call in rows(e, "thread", "how", "caller", "call"):
                thread, caller = tables.threads[thread], tables.threads[caller]
                names = [function[0] for function, _ in tables.path(call) if not kind_of(function)]
                if how:
                    yield when, (thread["tid"], tables.processes[thread["process"]]["pid"]), how, caller["tid"], names


def judge(kind, bars, since, to, truth, samples, show):
    notes, functions = truth[:2]
    jobs = collections.defaultdict(list)  # worker -> [(begin, end, caller)]
    for begin, end, worker, owner in sorted(notes):
        jobs[worker].append((begin, end, owner))
    counts, ways, missed = collections.Counter(), collections.Counter(), collections.Counter()
    for when, (tid, pid), how, caller, names in samples:
        of = jobs.get(tid) or jobs.get(pid) or []
        at = bisect.bisect([job[0] for job in of], when) - 1
        if not since <= when <= to or at < 0 or of[at][1] < when:
            continue
        owner = of[at][2]
        # A stack that waits for tables may not be known, whose it is all the same.
        good = how != UNKNOWN and caller == owner and (not names or functions.get(str(owner)) in names)
        # A worker of the second pool of a chain notes the same owner.
        result = "right" if good or (how == UNKNOWN and not owner) else "wrong" if how != UNKNOWN else "not known"
        counts[result] += 1
        ways[HOW[how]] += 1
        if result == "wrong":
            missed[(HOW[how], caller == owner, tuple(names[:2]))] += 1
    total = max(1, sum(counts.values()))
    shares = {name: 100 * counts[name] / total for name in ("right", "wrong", "not known")}
    note = "%d samples, " % total + ", ".join("%s %.1f %%" % s for s in shares.items()) + "; " + ", ".join("%s %d" % w for w in ways.items())
    least, most = bars
    if show:
        print(kind, note, missed.most_common(5))
    bad = total < 20 or total - counts["right"] > few(total, 1 - least / 100) or counts["wrong"] > few(total, most / 100)
    verdict("%s: at least %d %% right, at most %d %% wrong" % (kind, least, most), note if bad else "", note)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--only", default="left,chain,own,child")
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        library = os.path.join(folder, "workers.so")
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-g", "-shared", "-fPIC", "-pthread", "-o", library,
                        os.path.join(ROOT, "tests/targets/workers.c")], check=True)
        truth, events = record(options.only, options.seconds, library, folder)
        samples = list(told(events))
        for kind, since, to in truth[2]:
            judge(kind, (KINDS if options.seconds >= LONG else SHORT)[kind], since, to, truth, samples, options.show)
    return finish()


sys.exit(main())
