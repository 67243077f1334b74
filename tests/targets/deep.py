# SPDX-License-Identifier: MIT
"""Goes down a known way, is busy at its end, comes back, and goes down again: deep.py calls|eval|mixed DEPTH

Prints its way as JSON: the functions, outermost first, less calls than DEPTH where CPython allows no more."""
import functools
import json
import sys
import threading
import time


def bottom():
    end = time.thread_time() + 0.05
    while time.thread_time() < end:
        pass


def calls(n):
    return calls(n - 1) if n else bottom()


def evaluates(n):
    return eval("evaluates(n - 1)", globals(), {"n": n}) if n else bottom()


def choose(n):
    """Which way a mixed one goes from there: no cycle."""
    return (n * 2654435761 >> 7) % 5


def plain(n):
    return MIXED[choose(n)](n - 1) if n else bottom()


def sorts(n):
    return sorted((n - 1,), key=MIXED[choose(n)]) if n else bottom()


def maps(n):
    return list(map(MIXED[choose(n)], (n - 1,))) if n else bottom()


def keywords(n):
    return functools.partial(MIXED[choose(n)], n=n - 1)() if n else bottom()


def spreads(n):
    return MIXED[choose(n)](*(n - 1,), **{}) if n else bottom()


MIXED = plain, sorts, maps, keywords, spreads
FIRST = {"calls": calls, "eval": evaluates, "mixed": plain}


def way(kind, depth):
    if kind == "calls":
        return ["calls"] * (depth + 1)
    if kind == "eval":
        return ["evaluates", "<module>"] * depth + ["evaluates"]
    return ["plain"] + [MIXED[choose(n)].__name__ for n in range(depth, 0, -1)]


def main(kind, depth):
    while depth:
        try:
            FIRST[kind](depth)
            break
        except RecursionError:
            depth = depth * 3 // 4
    print(json.dumps(way(kind, depth)), flush=True)
    while True:
        FIRST[kind](depth)


sys.setrecursionlimit(40000)
threading.stack_size(256 << 20)
threading.Thread(target=main, args=(sys.argv[1], int(sys.argv[2]))).start()
