# SPDX-License-Identifier: MIT
"""Compiles that wait from their begin on, the first of each compiler and those that directly follow it. The compilers are functions below; their
rules are in tests/live/first_waits.py.

    first_waits.py COMPILES MS AHEAD

Each compiler runs in a thread of its own. AHEAD 1: its first compile has begun when "ready" is printed, and waits for the line; 0: it begins then.
Prints [[tid, name, begin, end], ...] by CLOCK_MONOTONIC."""
import json
import os
import select
import sys
import threading
import time

COMPILES, MS, AHEAD = map(int, sys.argv[1:])
truth, names, begun = [], [], []
go, last = threading.Event(), threading.Event()


class Wait:
    """A way to wait; the first time, if AHEAD, for the line alone."""

    def __init__(self, way):
        self.way, self.first = way, bool(AHEAD)

    def once(self):
        ahead, self.first = self.first, False
        if ahead:
            begun.append(self)
            go.wait()
        else:
            self.way()


class Job:
    def __init__(self, name):
        self.name = name
        names.append(self)  # it lives on: what is freed gives its address to the next one


def by_name(name, wait):
    wait.once()


def by_attribute(job, wait):
    wait.once()


def by_cell(name, wait):
    def inner():
        return name
    wait.once()
    return inner


def by_later_local(given, wait):
    name = given + ""
    wait.once()
    return name


class Compiler(Job):
    def by_self(self, wait):
        wait.once()


def by_generator(name, wait):
    wait.once()
    yield name


def by_symbol(text, wait):
    wait.once()


def deep(n, name, wait):
    return deep(n - 1, name, wait) if n else by_depth(name, wait)


def by_depth(name, wait):
    wait.once()


def lock():
    held = threading.Lock()
    held.acquire()
    held.acquire(timeout=MS / 1000)


PIPE = os.pipe()
SLEEP, POLL = lambda: time.sleep(MS / 1000), lambda: select.select([PIPE[0]], [], [], MS / 1000)
COMPILERS = {
    "by_name": (by_name, SLEEP),
    "by_attribute": (lambda name, wait: by_attribute(Job(name), wait), POLL),
    "by_cell": (by_cell, lock),
    "by_later_local": (by_later_local, SLEEP),
    "by_self": (lambda name, wait: Compiler(name).by_self(wait), POLL),
    "by_generator": (lambda name, wait: list(by_generator(name, wait)), SLEEP),
    "by_symbol": (lambda name, wait: by_symbol("Passes on '%s' and others" % name, wait), SLEEP),  # the text is gone with the call
    "by_depth": (lambda name, wait: deep(70, name, wait), lock),
}


def compiles(of):
    compiler, way = COMPILERS[of]
    wait = Wait(way)
    if not AHEAD:
        go.wait()
    for i in range(COMPILES):
        name = "%s_%d" % (of, i)
        names.append(name)  # it lives on
        begin = time.monotonic_ns()
        compiler(name, wait)
        truth.append([threading.get_native_id(), name, begin, time.monotonic_ns()])
    last.wait()


threads = [threading.Thread(target=compiles, args=(of,)) for of in COMPILERS]
for thread in threads:
    thread.start()
while len(begun) < (len(COMPILERS) if AHEAD else 0):
    time.sleep(0.01)
time.sleep(0.05)
print("ready", flush=True)
sys.stdin.readline()
go.set()
while len(truth) < COMPILES * len(COMPILERS):
    time.sleep(0.01)
time.sleep(0.3)
print(json.dumps(truth), flush=True)
os._exit(0)
