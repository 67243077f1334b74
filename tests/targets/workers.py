# SPDX-License-Identifier: MIT
"""Python threads that call at once what works in threads of its own (workers.c: LIBRARY), each in a function of its own. After a line on stdin;
the last line on stdout is JSON: what every job noted, [begin, end, worker's tid, caller's tid], which function is whose, and when each kind was.

    workers.py LIBRARY SECONDS KIND,...      own: a pool for each; chain: its workers hand on; shared: one pool; left: nobody waits; child: processes"""
import ctypes
import json
import resource
import subprocess
import sys
import threading
import time

library = ctypes.CDLL(sys.argv[1])
library.pool_new.restype = ctypes.c_void_p
library.pool_call.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_long, ctypes.c_void_p]
library.pool_leave.argtypes = [ctypes.c_void_p, ctypes.c_long]
until = 0
functions = {}
BUSY = "i=0; while [ $i -lt %d ]; do i=$((i+1)); done"


def caller_a(work):
    while time.monotonic() < until:
        work(3, 11000)


def caller_b(work):
    while time.monotonic() < until:
        work(2, 17000)


def caller_c(pool):
    while time.monotonic() < until:
        library.pool_leave(pool, 5000)
        end = time.monotonic() + 0.008
        while time.monotonic() < end:
            pass


def run(function, argument):
    functions[threading.get_native_id()] = function.__name__
    function(argument)


def child_of(name):
    def work(n, us):
        began = time.monotonic_ns()
        child = subprocess.Popen(["/bin/sh", "-c", BUSY % loops])
        child.wait()
        children.append([began, time.monotonic_ns(), child.pid, threading.get_native_id()])
    return work


def work_at(kind, seconds):
    global until
    pools = [library.pool_new(2) for _ in range(2)]
    below = [library.pool_new(2) if kind == "chain" else None for _ in range(2)]
    if kind == "shared":
        pools[1] = pools[0]
    until = time.monotonic() + seconds
    threads = []
    for i, function in enumerate([caller_a, caller_b]):
        work = child_of(i) if kind == "child" else lambda n, us, i=i: library.pool_call(pools[i], n, us, below[i])
        threads.append(threading.Thread(target=run, args=(function, work)))
    if kind == "left":
        threads = [threading.Thread(target=run, args=(caller_c, pools[0]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def loops_of(seconds):
    """How often a shell goes round in so much CPU time."""
    subprocess.run(["/bin/sh", "-c", BUSY % 50000], check=True)
    return round(50000 * seconds / resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime)


def main():
    print("ready", flush=True)
    sys.stdin.readline()
    work_at("own", 1)  # names and tables of what is met first take their time
    spans = []
    for kind in sys.argv[3].split(","):
        began = time.monotonic_ns()
        work_at(kind, float(sys.argv[2]))
        spans.append([kind, began, time.monotonic_ns()])
    notes = (ctypes.c_int64 * (4 * 4096)).in_dll(library, "notes")
    n = ctypes.c_int.in_dll(library, "n_notes").value
    print(json.dumps([[list(notes[4 * i:4 * i + 4]) for i in range(n)] + children, functions, spans]), flush=True)


children, loops = [], loops_of(0.1)
main()
