#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Works in rounds that take the same CPU time to a microsecond: `alpha` for a third of each, then `beta`.

    stepping.py KIND US SECONDS

KIND is one (thread), threads (four, each with rounds of its own), born (a thread for each round; rounds are of the process's clock) or forks (two
children, each with rounds of its own). US is a round. It ends when all used SECONDS of CPU. The last line: CPU seconds of the process and of its
children (rusage), and the seconds in alpha and in beta by the threads' own clocks.
"""
import mmap
import os
import resource
import struct
import sys
import threading
import time

own = time.thread_time


def alpha(clock, until):
    while clock() < until:
        pass


def beta(clock, until):
    while clock() < until:
        pass


def one_round(clock, end, us, spent):
    """The third of `us` and the rest of it that end with `end`; it may have begun late."""
    times = [own()]
    alpha(clock, end - us * 2 / 3e6)
    times.append(own())
    beta(clock, end)
    times.append(own())
    for i in (0, 1):
        spent[i] += times[i + 1] - times[i]


def rounds(us, seconds, spent):
    begin, n = own(), 0
    while n * us / 1e6 < seconds:
        n += 1
        one_round(own, begin + n * us / 1e6, us, spent)


def in_threads(us, seconds, spents):
    threads = [threading.Thread(target=rounds, args=(us, seconds / len(spents), spent)) for spent in spents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def born(us, seconds, spent):
    begin, n = time.process_time(), 0
    while n * us / 1e6 < seconds:
        n += 1
        thread = threading.Thread(target=one_round, args=(time.process_time, begin + n * us / 1e6, us, spent))
        thread.start()
        thread.join()


def in_children(us, seconds, spents):
    shared = mmap.mmap(-1, 16 * len(spents))
    pids = []
    for i, spent in enumerate(spents):
        pids.append(os.fork())
        if not pids[-1]:
            rounds(us, seconds / len(spents), spent)
            struct.pack_into("dd", shared, 16 * i, *spent)
            os._exit(0)
    for pid in pids:
        os.waitpid(pid, 0)
    for i, spent in enumerate(spents):
        spent[:] = struct.unpack_from("dd", shared, 16 * i)


def main():
    kind, us, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
    spents = [[0.0, 0.0] for _ in range({"threads": 4, "forks": 2}.get(kind, 1))]
    if kind == "one":
        rounds(us, seconds, spents[0])
    elif kind == "born":
        born(us, seconds, spents[0])
    else:
        (in_threads if kind == "threads" else in_children)(us, seconds, spents)
    used = [sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    print("%.6f %.6f %.6f %.6f" % (*used, *(sum(spent[i] for spent in spents) for i in (0, 1))), flush=True)
    os._exit(0)


main()
