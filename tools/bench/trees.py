#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Costs of several built trees side by side, on one target in one run: their turns alternate, so what else the machine does
falls on all of them.

    trees.py [--python PATH] [--target FILE] [--rate HZ ...] [--rounds N] [--seconds S] PART TREE TREE ...

Parts: own (CPU of all of cprofd's processes a sample, native stacks, PSS + memlock), bpf (BPF time a sample), look (CPU seconds
of a whole `attach -d 10 -o FILE`: the second by a daemon, with the load of the next session's sampler, the second alone, and
with an empty cache).
A TREE is a folder with build/cprofd below it. Times are medians with least and most; the ratio is to the first tree, the
median of the rounds' own ratios. Needs root."""
import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import bench


def spread(figures, first, unit):
    ratio = statistics.median(f / g for f, g in zip(figures, first))
    return "%.3f %s (%.3f to %.3f), %.3fx" % (statistics.median(figures), unit, min(figures), max(figures), ratio)


def own(pid, tree, rate, args):
    p = bench.start_cprofd(pid, rate, args.seconds + 5, bench.out_file(), "full", tree)
    time.sleep(3)
    pids = bench.tree(p.pid)
    cpu, samples = bench.cpu_of(pids), bench.due(pid, rate)
    time.sleep(args.seconds)
    cpu, samples = bench.cpu_of(pids) - cpu, bench.due(pid, rate) - samples
    memory = (bench.pss_of(pids) + bench.memlock_of(pids)) / 1e6
    bench.finish(p)
    return cpu / samples * 1e6, memory


def bpf(pid, tree, rate, args):
    p = bench.start_cprofd(pid, rate, args.seconds + 4, bench.out_file(), "off", tree)
    time.sleep(2)
    figure = bench.bpf_time(p.pid, args.seconds, pid, rate)
    bench.finish(p)
    return figure, 0


def steady(target, trees, args, measure):
    for rate in args.rate or (999, 9999):
        seen = {tree: [] for tree in trees}
        for turn in range(args.rounds):
            for tree in trees if turn % 2 else reversed(trees):
                seen[tree].append(measure(target.process.pid, tree, rate, args))
        for tree in trees:
            print("%-5s %5d Hz %s: %s; %.1f MB" % (args.part, rate, tree, spread(
                [s[0] for s in seen[tree]], [s[0] for s in seen[trees[0]]], "us a sample"),
                statistics.median(s[1] for s in seen[tree])), flush=True)


def attach(pid, tree, cache, *options, seconds=10):
    """CPU seconds of the program and all that it started."""
    def used():
        u = resource.getrusage(resource.RUSAGE_CHILDREN)
        return u.ru_utime + u.ru_stime
    with tempfile.TemporaryDirectory() as work:
        before = used()
        subprocess.run([tree, "attach", str(pid), "-d", str(seconds), "-o", os.path.join(work, "x.cprof"), *options], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "CACHE_DIRECTORY": cache})
        return used() - before


def by_daemon(pid, tree, cache, work):
    socket = os.path.join(work, "socket")
    server = subprocess.Popen([tree, "serve", "--socket", socket], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**os.environ, "CACHE_DIRECTORY": cache})
    try:
        while not os.path.exists(socket):
            time.sleep(0.05)
        attach(pid, tree, cache, "--socket", socket, seconds=1)
        time.sleep(1)
        # The sampler that is loaded for the next session counts. What the engine, which ends with its last session, took is in
        # its parent's times once it was waited for.
        before = whole(server.pid)
        client = attach(pid, tree, cache, "--socket", socket)
        time.sleep(1)
        return client + whole(server.pid) - before
    finally:
        server.terminate()
        server.wait()


def whole(pid):
    """CPU seconds of a process, of those that it has and of those that it had."""
    ticks = 0
    for p in bench.tree(pid):
        with open("/proc/%d/stat" % p) as stat:
            ticks += sum(int(field) for field in stat.read().rsplit(")", 1)[1].split()[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def look(target, trees, args):
    seen = {}
    for turn in range(args.rounds):
        for tree in trees if turn % 2 else reversed(trees):
            with tempfile.TemporaryDirectory() as work:
                cache = os.path.join(work, "cache")
                for kind, cost in (("cold", lambda: attach(target.process.pid, tree, cache)),
                                   ("again", lambda: attach(target.process.pid, tree, cache)),
                                   ("daemon", lambda: by_daemon(target.process.pid, tree, cache, work))):
                    seen.setdefault((kind, tree), []).append(cost())
    for (kind, tree), figures in sorted(seen.items()):
        print("look  %-6s %s: %s" % (kind, tree, spread(figures, seen[kind, trees[0]], "s")), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python that has what the target compiles with")
    parser.add_argument("--target", default="numba_loop.py", help="of tests/targets, or a path; jax_loop.py compiles with JAX")
    parser.add_argument("--rate", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("part", choices=("own", "bpf", "look"))
    parser.add_argument("trees", nargs="+", metavar="TREE")
    args = parser.parse_args()
    trees = [os.path.abspath(os.path.join(tree, "build/cprofd")) for tree in args.trees]
    target = bench.Target(args.python, args.target)
    try:
        if args.part == "look":
            look(target, trees, args)
        else:
            if args.part == "bpf":
                subprocess.check_call(["sysctl", "-q", "kernel.bpf_stats_enabled=1"])
            steady(target, trees, args, own if args.part == "own" else bpf)
    finally:
        target.close()
        if args.part == "bpf":
            subprocess.check_call(["sysctl", "-q", "kernel.bpf_stats_enabled=0"])


if __name__ == "__main__":
    main()
