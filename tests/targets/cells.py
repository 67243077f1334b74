# SPDX-License-Identifier: MIT
"""Compiles whose name and signature lie in cells, seen while the cells are made. From CPython 3.11 on the function's first instructions make them,
and in 3.11 garbage may be collected meanwhile, for as long as that takes.

Prints [[name(signature), begin, end], ...] by CLOCK_MONOTONIC."""
import gc
import json
import sys
import time

due, alive, truth = [False], [], []


def busy(ms):
    until = time.thread_time_ns() + ms * 1000000
    while time.thread_time_ns() < until:
        sum(range(50))


def collects(phase, _):
    """A garbage collection that takes 4 ms of CPU."""
    if due[0] and phase == "start":
        due[0] = False
        busy(4)


class Type:
    def __init__(self, name):
        self.name = name


def compile_it(func, args, *, options):
    def kept():
        return func, args, options
    busy(8)


def by_keyword(*, func):
    """No local lies behind this argument."""
    return busy(8), lambda: func


def one(number):
    """The function's first allocation collects."""
    own = Type("x%d" % number), Type("y")
    alive.append(own)  # what is freed gives its address to the next one
    func = (busy, one)[number % 2]
    keyword = number % 4 > 1
    begin = time.monotonic_ns()
    due[0] = True
    gc.set_threshold(1)
    by_keyword(func=func) if keyword else compile_it(func, own, options=number)
    gc.set_threshold(100000)
    due[0] = False
    truth.append(["%s(%s)" % (func.__name__, "" if keyword else "x%d, y" % number), begin, time.monotonic_ns()])
    busy(5)


gc.callbacks.append(collects)
print("ready", flush=True)
sys.stdin.readline()
compile_it(busy, (), options=0), by_keyword(func=busy)  # the sampler is told which locals to give some 20 ms after it met a code object
busy(150)
for turn in range(20):
    one(turn)
time.sleep(0.2)
print(json.dumps(truth), flush=True)
