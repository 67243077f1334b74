"""Runs in code that Numba compiled, for argv[1] seconds: a loop, and a callback from C into it."""
import ctypes
import sys
import time

import numba
import numpy as np
from numba import cfunc, types


@numba.njit
def inner(n):
    total = 0.0
    for i in range(n):
        total += (i ^ 21) * 0.5 / (total + 1.0)
    return total


@numba.njit
def outer(n):
    return inner(n) + inner(n // 2)


@cfunc(types.intc(types.CPointer(types.double), types.CPointer(types.double)))
def compare(a, b):
    total = 0.0
    for i in range(100):
        total += a[0] / (i + 1.0 + total)
    return 1 if a[0] > b[0] else (-1 if a[0] < b[0] else 0)


libc = ctypes.CDLL(None)
end = time.monotonic() + float(sys.argv[1])
outer(10)
print("ready", flush=True)
while time.monotonic() < end:
    outer(200000)
    values = np.random.rand(2000)
    libc.qsort(ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(2000), ctypes.c_size_t(8),
               ctypes.c_void_p(compare.address))
