#!/usr/bin/env python3
"""Makes threads or processes that live for a short time, and says at its end what it used.

    births.py threads|fork MS SECONDS

Each runs `alpha` for a quarter of MS of its own CPU time and `beta` for the rest. The last line: CPU seconds of
the process and of its children (rusage), how many were made, the seconds in alpha and in beta by the threads' own clocks.
"""
import os
import resource
import sys
import threading
import time

kind, ms, seconds = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
spent = [0.0, 0.0]
clock = time.thread_time


def alpha(until):
    while clock() < until:
        pass


def beta(until):
    while clock() < until:
        pass


def life():
    begin = clock()
    alpha(begin + ms / 4e3)
    middle = clock()
    beta(begin + ms / 1e3)
    spent[0] += middle - begin
    spent[1] += clock() - middle


def fork():
    pid = os.fork()
    if not pid:
        life()
        os._exit(0)
    os.waitpid(pid, 0)
    spent[0] += ms / 4e3
    spent[1] += ms * 3 / 4e3


def thread():
    one = threading.Thread(target=life)
    one.start()
    one.join()


n, end = 0, time.monotonic() + seconds
while time.monotonic() < end:
    fork() if kind == "fork" else thread()
    n += 1
used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
own, children = (u.ru_utime + u.ru_stime for u in used)
print("%.6f %.6f %d %.6f %.6f" % (own, children, n, *spent), flush=True)
