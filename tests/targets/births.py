#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes threads or processes that live for a short time, and says at its end what they used.

    births.py KIND MS SECONDS [AT_ONCE [PROGRAM [CGROUP]]]

KIND is threads, fork, exec (a new interpreter) or small (PROGRAM, of births.c). Each runs `alpha` for a quarter of MS of its own CPU time, and then
`beta` for the rest; with `mixed-` in front every other one runs only alpha and the others only beta. AT_ONCE are made before the first
of them is waited for. It ends when all used SECONDS of CPU. The last line: CPU seconds of the process and of its children (rusage), how many were
made, the seconds in alpha and in beta by the threads' own clocks, and by the wall's; and CPU seconds of all of them by CGROUP (a folder of cgroup v2, which it
enters), with what a thread runs after its rusage was added up; else 0.
"""
import mmap
import os
import resource
import struct
import sys
import threading
import time

CLOCKS = struct.Struct("dddd")
clock, wall = time.thread_time, time.monotonic


def alpha(until):
    while clock() < until:
        pass


def beta(until):
    while clock() < until:
        pass


def life(ms, mixed, number):
    """Seconds in alpha and in beta, of CPU and by the clock."""
    begin, wall_begin = clock(), wall()
    if not mixed or number % 2:
        alpha(begin + ms / 4e3)
    middle, wall_middle = clock(), wall()
    if not mixed or not number % 2:
        beta(middle + ms * 3 / 4e3)
    return middle - begin, clock() - middle, wall_middle - wall_begin, wall() - wall_middle


def used():
    return [sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]


def run_in(cgroup):
    with open(os.path.join(cgroup, "cpu.stat")) as stat:
        return int(stat.readline().split()[1]) / 1e6


def main():
    kind, ms, seconds, at_once = sys.argv[1], float(sys.argv[2]), float(sys.argv[3]), int((sys.argv[4:] or [1])[0])
    mixed, kind = kind.startswith("mixed-"), kind.replace("mixed-", "")
    told = os.memfd_create("clocks", 0)
    os.truncate(told, at_once * CLOCKS.size)
    shared = mmap.mmap(told, at_once * CLOCKS.size)
    spent = [0.0] * 4

    def tell(number, slot):
        CLOCKS.pack_into(shared, slot * CLOCKS.size, *life(ms, mixed, number))

    def make(number, slot):
        if kind == "threads":
            one = threading.Thread(target=tell, args=(number, slot))
            one.start()
            return one.join
        pid = os.fork()
        if pid:
            return lambda: os.waitpid(pid, 0)
        words = [str(ms), str(int(mixed)), str(number), str(slot), str(told)]
        os.set_inheritable(told, True)
        if kind == "exec":
            os.execv(sys.executable, [sys.executable, "-S", __file__, "life", *words])
        if kind == "small":
            os.execv(sys.argv[5], [sys.argv[5], *words])
        tell(number, slot)
        os._exit(0)

    n, cgroup, outside = 0, (sys.argv[6:] or [None])[0], 0
    if cgroup:
        outside = used()[0]
        with open(os.path.join(cgroup, "cgroup.procs"), "w") as procs:
            procs.write("0")
    while sum(used()) < seconds:
        for wait in [make(n + slot, slot) for slot in range(at_once)]:
            wait()
        for slot in range(at_once):
            for i, clocked in enumerate(CLOCKS.unpack_from(shared, slot * CLOCKS.size)):
                spent[i] += clocked
        n += at_once
    own, children = used()
    print("%.6f %.6f %d %.6f %.6f %.6f %.6f %.6f" % (own, children, n, *spent, outside + run_in(cgroup) if cgroup else 0), flush=True)
    os._exit(0)


if sys.argv[1] == "life":
    with mmap.mmap(int(sys.argv[6]), 0) as place:
        CLOCKS.pack_into(place, int(sys.argv[5]) * CLOCKS.size, *life(float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
else:
    main()
