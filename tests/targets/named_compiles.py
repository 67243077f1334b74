# SPDX-License-Identifier: MIT
"""What compile_texts.py and compile_attributes.py share: their arguments, their log, their threads.

    ... MS COMPILES THREADS

In each thread: COMPILES in turn of each way to make a name, each MS long by the thread's CPU clock, with 0, 10, 30 ms in between. Prints
[[tid, kind, name, begin, end], ...] by CLOCK_MONOTONIC; kind 0: unit, 1: phase, 2: pass, 3: a unit that is not judged by whether it has a name."""
import array
import json
import sys
import threading
import time

MS, COMPILES, THREADS = map(int, sys.argv[1:])
GAPS = (0, 0.01, 0, 0.03)
UNIT, PHASE, PASS, FIRST = range(4)
LEVELS = 8  # names of one compile


class Text(str):
    """Its characters lie apart from it."""


def spin(ms):
    end = time.thread_time() + ms / 1000
    while time.thread_time() < end:
        for _ in range(100):
            pass


class Log:
    """Numbers only: a text that is kept would give its place to none."""

    def __init__(self):
        self.rows = array.array("q")

    def put(self, kind, way, i, begin):
        self.rows.extend((kind, way, i, begin, time.monotonic_ns()))


def main(compiles, name_of):
    """compiles(log, number): of one thread, whose names begin with that number. name_of(kind, way, i): what it logged."""
    truth = []

    def thread(number):
        log = Log()
        compiles(log, number * 300000)
        tid = threading.get_native_id()
        for at in range(0, len(log.rows), 5):
            kind, way, i, begin, end = log.rows[at:at + 5]
            truth.append([tid, kind, name_of(kind, way, i), begin, end])

    print("ready", flush=True)
    sys.stdin.readline()
    threads = [threading.Thread(target=thread, args=(number,)) for number in range(THREADS)]
    for of in threads:
        of.start()
    for of in threads:
        of.join()
    print(json.dumps(truth), flush=True)
