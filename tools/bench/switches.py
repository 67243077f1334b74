#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What wall mode does to a process that leaves its CPU ten thousand times a second, and to others that do; and what sessions of CPU time do to a thread
that does so beside one that compiles.

    switches.py [--pairs N] [--seconds S] [--work N] [--native off|full] [--bpf] [target|others|followed ...]

A Python talks to a cat through pipes, both on one CPU. In turns: an empty program at each switch and `cprofd attach --mode=wall` on it
("target"); programs that look whose switch and whose wake-up it is, where wall mode has its own, and the same cprofd on another process,
which sleeps ("others"), and once more with the switch alone. What counts is the CPU
time that both take for a round (rounds a second, too, say little where others work); and of the target, what the recordings' ledgers say
was lost. "followed": the Python has a thread that compiles by a rule, 2 ms in 20; in turns cprofd attach in mode cpu with rules that know of
no compile there, and with that rule: then the thread that talks is followed, too (docs/waits.md), and both say what cprofd's own processes took. --bpf: the time in the BPF programs themselves, too, as the kernel counts it, which other work hardly changes. Needs root."""
import argparse
import collections
import json
import mmap
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from bench import bpftool, held, tree

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build"))
RULES = "compiler mine\nunit\n    file <string>\n    function %s\n    has told\n    name told\n"
TALKER = """
import mmap, os, struct, subprocess, sys, threading, time
def build(told):
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        pass
def compiles():
    while True:
        build("work")
        time.sleep(0.018)
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
room = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096)
a, b = os.pipe(), os.pipe()
cat = subprocess.Popen(["cat", "-u"], stdin=a[0], stdout=b[1])
n, work = 0, range(int(sys.argv[2]))
if sys.argv[3:]:
    threading.Thread(target=compiles, daemon=True).start()
while True:
    os.write(a[1], b"x")
    os.read(b[0], 1)
    for i in work:
        pass
    n += 1
    room[:8] = n.to_bytes(8, "little")
"""


def cpu_of(pid):
    """ns, of the talker and its cat."""
    pids = [pid] + [int(p) for p in open("/proc/%d/task/%d/children" % (pid, pid)).read().split()]
    return sum(int(open("/proc/%d/schedstat" % p).read().split()[0]) for p in pids)


def rounds(room, pid, seconds):
    """CPU ns of a round, rounds a second."""
    began, first, cpu = time.monotonic(), struct.unpack("<Q", room[:8])[0], cpu_of(pid)
    time.sleep(seconds)
    n = struct.unpack("<Q", room[:8])[0] - first
    return (cpu_of(pid) - cpu) / n, n / (time.monotonic() - began)


def bpf_of(pid):
    """ns, of the programs that it and its children hold."""
    ids = held(pid)
    return sum(p.get("run_time_ns", 0) for p in bpftool("prog") if p["id"] in ids)


def of_tree(pid):
    """CPU ns of cprofd's processes."""
    return sum(int(open("/proc/%d/schedstat" % p).read().split()[0]) for p in tree(pid))


def under(command, room, pid, seconds, bpf):
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1.5)
    before, began, own = bpf_of(p.pid) if bpf else 0, struct.unpack("<Q", room[:8])[0], of_tree(p.pid)
    found = rounds(room, pid, seconds) + ((of_tree(p.pid) - own) / seconds / 1e7,)  # own: % of a CPU
    if bpf:
        found += (bpf_of(p.pid) - before) / (struct.unpack("<Q", room[:8])[0] - began),
    p.terminate()
    p.wait()
    return found


def lost(path):
    """By the last ledger of a recording, and how much of its threads' time is told."""
    losses, told, whole, begin = {}, 0, 0, {}
    for line in subprocess.run(["zstdcat", path], stdout=subprocess.PIPE, check=True).stdout.splitlines():
        e = json.loads(line)
        if e["ev"] == "thread":
            begin.setdefault(e["id"], e["time"])
        elif e["ev"] == "samples":
            told += sum(e["wall"])
        elif e["ev"] == "thread_end":
            told, whole = told + e["wall"], whole + e["time"] - begin[e["id"]]
        elif e["ev"] == "ledger":
            losses = e["losses"]
    return losses, told, whole


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--work", type=int, default=1500, help="a round's own work")
    parser.add_argument("--rate", type=int, default=999)
    parser.add_argument("--bpf", action="store_true")
    parser.add_argument("--native", choices=("off", "full"), default="full")
    parser.add_argument("titles", nargs="*", choices=("target", "others", "followed", []))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rounds")
        with open(path, "wb") as f:
            f.truncate(4096)
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1e6)"])
        talker = subprocess.Popen([sys.executable, "-c", TALKER, path, str(arguments.work), *["compiles"] * (arguments.titles == ["followed"])])
        rules = {}
        for function in "nothing", "build":
            rules[function] = os.path.join(folder, function)
            with open(rules[function], "w") as f:
                f.write(RULES % function)
        room = mmap.mmap(os.open(path, os.O_RDWR), 4096)
        time.sleep(0.5)
        if arguments.bpf:
            subprocess.check_call(["sysctl", "-q", "kernel.bpf_stats_enabled=1"])
        try:
            for title, program, pid in (("target", "empty_switch", talker.pid), ("others", "filter_switch filter_waking", sleeper.pid),
                                        ("others", "filter_switch", sleeper.pid), ("followed", "a session that follows nobody", talker.pid)):
                empty = [os.path.join(BUILD, "tools/bench/empty"), os.path.join(BUILD, "tools/bench/empty.bpf.o"), str(pid),
                         str(arguments.rate), "1000", *program.split()]
                if title not in (arguments.titles or ["target", "others"]):
                    continue
                out = os.path.join(folder, "x.cprof")
                own = [os.path.join(BUILD, "cprofd"), "attach", str(pid), "--mode=wall", "--native=" + arguments.native, "-r",
                       str(arguments.rate), "-o", out]
                if title == "followed":
                    mode = own.index("--mode=wall")
                    empty, own = (own[:mode] + ["--rules=" + rules[f]] + own[mode + 1:] for f in ("nothing", "build"))
                    empty[-1] = os.path.join(folder, "empty.cprof")
                ratios, owns, speed, bpf, losses, told, whole = [], [], [], [], collections.Counter(), 0, 0
                for pair in range(arguments.pairs):
                    found = {}
                    for which in ((empty, own) if pair % 2 else (own, empty)):
                        found[which is own] = under(which, room, talker.pid, arguments.seconds, arguments.bpf)
                        if which is own and title == "target":
                            these, a, b = lost(out)
                            losses, told, whole = losses + collections.Counter(these), told + a, whole + b
                    ratios.append(found[True][0] / found[False][0])
                    owns.append((found[True][2], found[False][2]))
                    speed.append(found[True])
                    if arguments.bpf:
                        bpf.append((found[True][3], found[False][3]))
                low, _, high = statistics.quantiles(ratios, n=4)
                print("%s: %.3fx the CPU time of a round under %s (%d pairs, quartiles %.3f-%.3f; %.1f us of CPU, %.0f rounds a second)" % (
                    title, statistics.median(ratios), program, len(ratios), low, high, statistics.median(s[0] for s in speed) / 1000,
                    statistics.median(s[1] for s in speed)), flush=True)
                if title == "followed":
                    print("    own CPU: %.2f %%, %.2f without" % tuple(statistics.median(row[i] for row in owns) for i in (0, 1)), flush=True)
                if bpf:
                    ours, theirs = (statistics.median(row[i] for row in bpf) for i in (0, 1))
                    print("    BPF: %.0f ns a round, %.0f of %s: %.3fx" % (
                        ours, theirs, program, 1 + (ours - theirs) / statistics.median(s[0] for s in speed)), flush=True)
                if whole:
                    print("    lost: %s; told %.4f %% of %.1f s" % (dict(losses) or "nothing", 100 * told / whole, whole / 1e9), flush=True)
        finally:
            if arguments.bpf:
                subprocess.check_call(["sysctl", "-q", "kernel.bpf_stats_enabled=0"])
            for p in (talker, sleeper):
                p.kill()
                p.wait()


if __name__ == "__main__":
    main()
