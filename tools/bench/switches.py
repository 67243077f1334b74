#!/usr/bin/python3
"""What wall mode does to a process that leaves its CPU ten thousand times a second, and to others that do.

    switches.py [--pairs N] [--seconds S] [--work N] [--native off|full] [target|others ...]

A Python talks to a cat through pipes, both on one CPU. In turns: an empty program at each switch and `cprofd attach --mode=wall` on it
("target"); a program that looks whose switch it is and the same cprofd on another process, which sleeps ("others"). What counts is how many
rounds it makes; and of the target, what the recordings' ledgers say was lost. Needs root, and a machine that does nothing else."""
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

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD", os.path.join(ROOT, "build"))
TALKER = """
import mmap, os, struct, subprocess, sys
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
room = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096)
a, b = os.pipe(), os.pipe()
cat = subprocess.Popen(["cat", "-u"], stdin=a[0], stdout=b[1])
n, work = 0, range(int(sys.argv[2]))
while True:
    os.write(a[1], b"x")
    os.read(b[0], 1)
    for i in work:
        pass
    n += 1
    room[:8] = n.to_bytes(8, "little")
"""


def rounds(room, seconds):
    began, first = time.monotonic(), struct.unpack("<Q", room[:8])[0]
    time.sleep(seconds)
    return (struct.unpack("<Q", room[:8])[0] - first) / (time.monotonic() - began)


def under(command, room, seconds):
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(1.5)
    found = rounds(room, seconds)
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
    parser.add_argument("--native", choices=("off", "full"), default="full")
    parser.add_argument("titles", nargs="*", choices=("target", "others", []))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "rounds")
        with open(path, "wb") as f:
            f.truncate(4096)
        sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1e6)"])
        talker = subprocess.Popen([sys.executable, "-c", TALKER, path, str(arguments.work)])
        room = mmap.mmap(os.open(path, os.O_RDWR), 4096)
        time.sleep(0.5)
        try:
            for title, program, pid in (("target", "empty_switch", talker.pid), ("others", "filter_switch", sleeper.pid)):
                empty = [os.path.join(BUILD, "tools/bench/empty"), os.path.join(BUILD, "tools/bench/empty.bpf.o"), str(pid),
                         str(arguments.rate), "1000", program]
                if arguments.titles and title not in arguments.titles:
                    continue
                out = os.path.join(folder, "x.cprof")
                own = [os.path.join(BUILD, "cprofd"), "attach", str(pid), "--mode=wall", "--native=" + arguments.native, "-r",
                       str(arguments.rate), "-o", out]
                ratios, speed, losses, told, whole = [], [], collections.Counter(), 0, 0
                for pair in range(arguments.pairs):
                    found = {}
                    for which in ((empty, own) if pair % 2 else (own, empty)):
                        found[which is own] = under(which, room, arguments.seconds)
                        if which is own and title == "target":
                            these, a, b = lost(out)
                            losses, told, whole = losses + collections.Counter(these), told + a, whole + b
                    ratios.append(found[False] / found[True])
                    speed.append(found[True])
                low, _, high = statistics.quantiles(ratios, n=4)
                print("%s: %.3fx the time of a round under %s (%d pairs, quartiles %.3f-%.3f; %.0f rounds a second)" % (
                    title, statistics.median(ratios), program, len(ratios), low, high, statistics.median(speed)), flush=True)
                if whole:
                    print("    lost: %s; told %.4f %% of %.1f s" % (dict(losses) or "nothing", 100 * told / whole, whole / 1e9), flush=True)
        finally:
            for p in (talker, sleeper):
                p.kill()
                p.wait()


if __name__ == "__main__":
    main()
