# SPDX-License-Identifier: MIT
"""Compiles `np.linalg.svd` and `list.sort` with Numba, again and again.

Each line on stdout: the CPU seconds of this thread that one compile took (so that two conditions can
be compared compile by compile). An argument is the number of compiles; without it they go on."""
import sys
import time

import numba
import numpy as np


def make():
    def foo(x):
        numbers = [3.0, 1.0, 2.0]
        numbers.sort()
        return np.linalg.svd(x), numbers

    return numba.njit(foo)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else -1
    x = np.ones((3, 3))
    make()(x)
    print("ready", flush=True)
    while count:
        start = time.thread_time()
        make()(x)
        print("%.6f" % (time.thread_time() - start), flush=True)
        count -= 1


main()
