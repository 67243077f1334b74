# SPDX-License-Identifier: MIT
"""Waits in known ways, and writes down itself for how long.

    waits.py FOLDER SCENARIO          does that
    waits.py FOLDER SCENARIO,SCENARIO...  starts each as a child, prints their pids, ends with its stdin

Every thread that counts has marks: at CLOCK_MONOTONIC ns, what it had used of its own CPU time by then, what it had waited for a CPU
(the kernel's run_delay), and what it did since the mark before. They go to FOLDER/SCENARIO.json when stdin ends."""
import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
import time

logs = {}
libc = ctypes.PyDLL(None) # calls that keep the GIL


class Marks:
    def __init__(self, role):
        tid = threading.get_native_id()
        self.rows, self.held, self.text, self.fd = [], [], ctypes.create_string_buffer(100), os.open("/proc/self/task/%d/schedstat" % tid, os.O_RDONLY)
        logs["%d" % tid] = {"role": role, "rows": self.rows, "held": self.held}
        self.mark("begin")

    def mark(self, what):
        n = libc.pread(self.fd, self.text, 100, 0)
        delay = int(self.text.raw[:n].split()[1])
        self.rows.append((time.clock_gettime_ns(time.CLOCK_MONOTONIC), time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID), delay, what))


def start(work, *args):
    threading.Thread(target=work, args=args, daemon=True).start()


def burn(n):
    x = 0
    for i in range(n):
        x += i & 3
    return x


def sleeper():
    marks = Marks("sleep")
    while True:
        time.sleep(0.004)
        marks.mark("sleep")
        burn(20000)
        marks.mark("run")


def reader(fd, what):
    marks = Marks(what)
    while True:
        os.read(fd, 1)
        marks.mark(what)
        burn(10000)
        marks.mark("run")


def receiver(end):
    marks = Marks("socket")
    while True:
        end.recv(1)
        marks.mark("socket")
        burn(10000)
        marks.mark("run")


def feeder(feed):
    while True:
        time.sleep(0.005)
        feed()


def holder(lock):
    while True:
        with lock:
            time.sleep(0.005)
        time.sleep(0.0005)


def waiter(lock):
    marks = Marks("lock")
    while True:
        with lock:
            pass
        marks.mark("lock")
        burn(10000)
        marks.mark("run")


def long_call(lock):
    lock.acquire(timeout=0.08)


def short_call(lock):
    lock.acquire(timeout=0.02)


def caller(lock):
    """Two functions that wait at one place, each after a burst of switches."""
    marks = Marks("calls")
    while True:
        for call in (long_call, short_call):
            for _ in range(8):
                time.sleep(0.00005)
            marks.mark("sleep")
            call(lock)
            marks.mark(call.__name__)


def hog(role):
    marks = Marks(role)
    while True:
        for _ in range(250):
            sum(range(200))  # which never gives the GIL away; the eval loop does, behind it
        marks.mark("gil")


KEEP = """
#include <time.h>
#include <unistd.h>
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000 + t.tv_nsec; }
void keep(unsigned us, long *times) { times[0] = now(); usleep(us); times[1] = now(); }
"""


def keeper(keep):
    marks, times, n = Marks("hold"), (ctypes.c_long * 2)(), 0
    while True:
        n += 1
        keep(8000 + threading.get_native_id() * 7919 % 7000 + n * 1009 % 5000, times) # nobody else has the GIL from begin to end
        marks.held.append(tuple(times))
        time.sleep(0)


def parent():
    marks = Marks("child")
    while True:
        child = subprocess.Popen(["sleep", "0.15"])
        child.wait()
        marks.mark("child")


def runner(role):
    marks = Marks(role)
    while True:
        burn(50000)
        marks.mark(role)


def scenario(name):
    if name == "sleep":
        start(sleeper)
    elif name == "pipe":
        out, into = os.pipe()
        start(reader, out, "pipe")
        start(feeder, lambda: os.write(into, b"x"))
    elif name == "socket":
        one, other = socket.socketpair()
        start(receiver, one)
        start(feeder, lambda: other.send(b"x"))
    elif name == "lock":
        lock = threading.Lock()
        start(holder, lock)
        start(waiter, lock)
    elif name == "calls":
        lock = threading.Lock()
        lock.acquire()
        start(caller, lock)
    elif name.startswith("gil"):
        for _ in range(int(name[3:])):
            start(hog, name)
    elif name == "hold":
        path = os.path.join(sys.argv[1], "keep.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, "-x", "c", "-"], input=KEEP.encode(), check=True)
        for _ in range(4):
            start(keeper, ctypes.PyDLL(path).keep)
    elif name == "child":
        start(parent)
    elif name == "ready":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        neighbour = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
        start(runner, name)
        return neighbour
    elif name == "stopped":
        start(runner, name)
    return None


def main():
    folder, name = sys.argv[1:]
    if "," not in name:
        neighbour = scenario(name)
        print("up", flush=True)
        sys.stdin.read()
        if neighbour:
            neighbour.kill()
            neighbour.wait()
        with open(os.path.join(folder, name + ".json"), "w") as f:
            json.dump({"pid": os.getpid(), "threads": {tid: dict(log, rows=list(log["rows"]), held=list(log["held"])) for tid, log in logs.items()}}, f)
        os._exit(0)
    children = {name: subprocess.Popen([sys.executable, "-S", os.path.abspath(__file__), folder, name], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE) for name in name.split(",") if name}
    for child in children.values():
        child.stdout.readline()
    print(json.dumps({name: child.pid for name, child in children.items()}), flush=True)
    sys.stdin.read()
    for child in children.values():
        child.stdin.close()
    for child in children.values():
        child.wait()


main()
