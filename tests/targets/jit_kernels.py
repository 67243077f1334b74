# SPDX-License-Identifier: MIT
"""Runs kernels that Numba (or XLA, through JAX) compiled, and says how each is called.

    jit_kernels.py KIND      njit parallel nogil vectorize guvectorize cfunc jitclass debug nested recursion xla

Functions named kernel... are compiled, functions named drive... call them from Python, over and over. A line "ready"
when everything is compiled."""
import sys
import threading
import time

import numpy as np

KIND = sys.argv[1]
SIZE = 200_000
ones = np.linspace(1.0, 2.0, SIZE)


def forever(call):
    call()
    print("ready", flush=True)
    while True:
        call()


def njit():
    import numba

    @numba.njit
    def kernel_leaf(a):
        s = 0.0
        for i in range(a.shape[0]):
            s += a[i] / (s + 1.0)
        return s

    def drive():
        return kernel_leaf(ones)
    forever(drive)


def nested():
    """Kernels that call another one that is not inlined, libm, and back."""
    import math
    import numba

    @numba.njit(no_cpython_wrapper=True)
    def kernel_inner(a, i):
        s = 0.0
        for j in range(200):
            x = a[(i + j) % a.shape[0]]
            # So much that LLVM inlines it for no machine.
            s += math.sin(x) * math.exp(-s) + math.cos(x) * math.atan(s) + math.tanh(x) * math.sinh(x) + math.log1p(abs(x)) * math.erf(s)
            s -= math.asinh(x) * math.expm1(-s) + math.hypot(x, s) * math.cosh(x) + math.atan2(x, s) * math.erfc(s)
        return s

    @numba.njit
    def kernel_outer(a):
        room = np.empty(16)
        for i in range(1000):
            room[i % 16] = kernel_inner(a, i)
        return room.sum()

    def drive():
        return kernel_outer(ones)
    forever(drive)


def recursion():
    import numba

    @numba.njit("float64(int64, float64)")
    def kernel_recurse(n, x):
        if n < 2:
            return x
        return kernel_recurse(n - 1, x * 0.5) + kernel_recurse(n - 2, x + 1.0)

    def drive():
        return kernel_recurse(24, 1.0)
    forever(drive)


def parallel():
    import numba

    @numba.njit(parallel=True)
    def kernel_parallel(a):
        s = 0.0
        for i in numba.prange(a.shape[0]):
            x = a[i]
            for _ in range(50):
                x = x / (1.0 + x)
            s += x
        return s

    def drive():
        return kernel_parallel(ones)
    forever(drive)


def nogil():
    from concurrent.futures import ThreadPoolExecutor
    import numba

    @numba.njit(nogil=True)
    def kernel_nogil(a):
        s = 0.0
        for i in range(a.shape[0]):
            s += a[i] / (s + 1.0)
        return s

    def drive_pool(_):
        return [kernel_nogil(ones) for _ in range(50)]

    pool = ThreadPoolExecutor(2)
    forever(lambda: list(pool.map(drive_pool, range(4))))


def vectorize():
    import numba

    @numba.vectorize(["float64(float64)"])
    def kernel_ufunc(x):
        for _ in range(20):
            x = x / (1.0 + x)
        return x

    def drive():
        return kernel_ufunc(ones)
    forever(drive)


def guvectorize():
    import numba

    @numba.guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
    def kernel_gufunc(a, out):
        for i in range(a.shape[0]):
            x = a[i]
            for _ in range(20):
                x = x / (1.0 + x)
            out[i] = x

    def drive():
        return kernel_gufunc(ones.reshape(100, -1))
    forever(drive)


def cfunc():
    import ctypes
    import numba

    @numba.cfunc("int32(CPointer(float64), CPointer(float64))")
    def kernel_compare(a, b):
        x = 0.0
        for i in range(200):
            x += a[0] / (x + 1.0)
        return -1 if a[0] < b[0] else 1 if x > 0 else 0

    libc = ctypes.CDLL(None)
    order = np.random.RandomState(1).rand(2000)

    def drive():
        data = order.copy()
        libc.qsort(ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(len(data)), ctypes.c_size_t(8),
                   ctypes.c_void_p(kernel_compare.address))
    forever(drive)


def jitclass():
    import numba
    from numba.experimental import jitclass as jit_class

    @jit_class([("sum", numba.float64), ("data", numba.float64[:])])
    class Kernel:
        def __init__(self, data):
            self.sum = 0.0
            self.data = data

        def kernel_method(self):
            for i in range(self.data.shape[0]):
                self.sum += self.data[i] / (self.sum + 1.0)
            return self.sum

    instance = Kernel(ones)

    def drive():
        return instance.kernel_method()
    forever(drive)


def debug():
    import numba

    @numba.njit(debug=True)
    def kernel_debug(a):
        s = 0.0
        for i in range(a.shape[0]):
            s += a[i] / (s + 1.0)
        return s

    def drive():
        return kernel_debug(ones)
    forever(drive)


def xla():
    import jax
    import jax.numpy as jnp

    @jax.jit
    def kernel_xla(x):
        def body(_, y):
            return jnp.sin(y) * 1.5 + jnp.tanh(y)
        return jax.lax.fori_loop(0, 20, body, x).sum()

    x = jnp.linspace(0.0, 1.0, SIZE)

    def drive():
        return kernel_xla(x).block_until_ready()
    forever(drive)


if __name__ == "__main__":
    globals()[KIND]()
