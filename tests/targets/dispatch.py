# SPDX-License-Identifier: MIT
"""Calls a function that Numba compiled, in a loop: "ready", and then the name of the kernel's caller, as a line.

    dispatch.py SECONDS"""
import sys
import time

import numba
import numpy as np

room = np.arange(8.0)


@numba.njit
def kernel(a, n):
    s = 0.0
    for i in range(n):
        s += a[i % 8] / (s + 1.0)
    return s


def drive(n):
    for _ in range(1000):
        kernel(room, n)


drive(3)
print("ready", flush=True)
end = time.time() + float(sys.argv[1])
while time.time() < end:
    drive(3)
