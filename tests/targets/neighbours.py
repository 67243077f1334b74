# SPDX-License-Identifier: MIT
"""Compiles that directly follow each other, which sleep, wait and hand locks on: a compiler of our own (build() below), whose rule is in
tests/live/neighbours.py.

    neighbours.py THREADS COMPILES SEED KINDS GAPS [MODULO [SWITCHERS]]

Prints "ready", waits for a line, and prints [[tid, name, kind, gap after it, begin, end], ...] by CLOCK_MONOTONIC. KINDS and GAPS: names of
functions below, with commas; each compile is one of them by chance, the same for the same SEED. MODULO: the threads' ids are equal modulo this. SWITCHERS:
so many more threads hand a lock round all the time, and do not compile."""
import json
import os
import random
import sys
import threading
import time

clock = time.monotonic_ns


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(50):
            pass


class Pair:
    """Another thread, which hands the lock back: tens of thousands of switches a second."""

    def __init__(self):
        self.there, self.back = threading.Lock(), threading.Lock()
        self.there.acquire()
        self.back.acquire()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            self.there.acquire()
            self.back.release()

    def once(self):
        self.there.release()
        self.back.acquire()


def ring(n):
    """Threads of which one runs at a time, and wakes the next."""
    locks = [threading.Lock() for _ in range(n)]

    def member(i):
        while True:
            locks[i].acquire()
            locks[(i + 1) % n].release()

    for lock in locks:
        lock.acquire()
    for i in range(n):
        threading.Thread(target=member, args=(i,), daemon=True).start()
    locks[0].release()


class Pipe:
    """Another process."""

    def __init__(self):
        there, back = os.pipe(), os.pipe()
        if not os.fork():
            os.close(there[1])
            while os.read(there[0], 1):
                os.write(back[1], b"x")
            os._exit(0)
        os.close(there[0])
        self.there, self.back = there[1], back[0]

    def once(self):
        os.write(self.there, b"x")
        os.read(self.back, 1)


class Work:
    def __init__(self, pair, pipe):
        self.pair, self.pipe = pair, pipe

    def cpu(self, length):
        spin(0.004 * length)

    def naps(self, length):
        for _ in range(int(20 * length)):
            time.sleep(0.0001)

    def sleep(self, length):
        time.sleep(0.006 * length)

    def mixed(self, length):
        for _ in range(3):
            spin(0.001 * length)
            time.sleep(0.0015 * length)

    def locks(self, length):
        self.switched(self.pair.once, 0.008 * length)

    def pipes(self, length):
        self.switched(self.pipe.once, 0.008 * length)

    @staticmethod
    def switched(once, seconds):
        end = clock() + seconds * 1e9
        while clock() < end:
            once()


def build(name, work, length):
    work(length)


def gap(kind):
    if kind == "nap":
        time.sleep(0.0004)
    elif kind == "sleep":
        time.sleep(0.005)
    elif kind == "cpu":
        spin(0.003)


def compiles(number, work, truth):
    if threading.get_native_id() % MODULO != REST:
        return
    kept.append(number)
    chance = random.Random(SEED * 1000 + number)
    # In mode cpu the sampler follows a thread from a tick on, wherever that is, once another one compiled (docs/waits.md).
    if SWITCHERS:  # ... and there may be no room for one that did not compile yet
        build("begin%d" % number, work.cpu, 4)
    else:
        spin(0.008)
    time.sleep(0.3)
    for i in range(COMPILES):
        name, kind, after, length = "work%d_%d" % (number, i), chance.choice(KINDS), chance.choice(GAPS), chance.choice((0.7, 1, 2))
        names.append(name)  # it lives on
        method, begin = getattr(work, kind), clock()
        build(name, method, length)
        truth.append([threading.get_native_id(), name, kind, after, begin, clock()])
        gap(after)


THREADS, COMPILES, SEED = map(int, sys.argv[1:4])
KINDS, GAPS = sys.argv[4].split(","), sys.argv[5].split(",")
MODULO = int(sys.argv[6]) if len(sys.argv) > 6 else 1
SWITCHERS = int(sys.argv[7]) if len(sys.argv) > 7 else 0
REST = 0
names, truth, kept = [], [], []
pipes = [Pipe() for _ in range(THREADS)]  # before there are threads
works = [Work(Pair(), pipe) for pipe in pipes]
print("ready", flush=True)
sys.stdin.readline()
# The sampler is told which locals to give some 20 ms after it met a code object.
build("first", works[0].cpu, 40)
if SWITCHERS:
    ring(SWITCHERS)
time.sleep(0.2 + SWITCHERS / 50)  # each is sampled, and followed if there is room
threads = []
while len(kept) < THREADS:
    threads.append(threading.Thread(target=compiles, args=(len(kept), works[len(kept)], truth)))
    before = len(kept)
    threads[-1].start()
    while threads[-1].is_alive() and len(kept) == before:
        time.sleep(0.0002)
for thread in threads:
    thread.join()
time.sleep(0.1)
print(json.dumps(truth), flush=True)
os._exit(0)
