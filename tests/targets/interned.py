# SPDX-License-Identifier: MIT
"""Functions whose code changes while they run, in place: their names and their file's are interned, one string for another where CPython does
that, and the file's name is replaced as imports do it. Function N is `make_N.<locals>.work_N` in /interned/N.py, line N. Prints
[[N, begin, end], ...] by CLOCK_MONOTONIC at the end. interned.py FUNCTIONS"""
import _imp
import json
import sys
import time

SOURCE = """
def make_{n}():
    def work_{n}(change, busy, label):
        busy(35)
        change(work_{n}.__code__)
        busy(35)
    return work_{n}
work = make_{n}()
"""


def busy(ms):
    until = time.thread_time_ns() + ms * 1000000
    while time.thread_time_ns() < until:
        sum(range(50))


def intern(code):
    """What was not interned when the sampler saw it first is, from now on, by the string that lies there or by another."""
    for text in code.co_filename, code.co_name, getattr(code, "co_qualname", code.co_name):
        sys.intern(text)


def replace(code):
    _imp._fix_co_filename(code, "".join(["/interned", code.co_filename[9:]]))


def main():
    print("{}", flush=True)
    truth, alive, labels = [], [], []
    for n in range(100, 100 + int(sys.argv[1])):
        names = {}
        exec(compile("\n" * (n - 3) + SOURCE.format(n=n), "/interned/%d.py" % n, "exec"), names)
        begin = time.monotonic_ns()
        labels.append("label %d" % n)  # it lives on: else another may lie there when it is read
        names["work"]((intern, replace)[n % 2], busy, labels[-1])
        truth.append([n, begin, time.monotonic_ns()])
        if n % 3:
            alive.append(names)  # else the next one's code may lie there
    print(json.dumps(truth), flush=True)


main()
