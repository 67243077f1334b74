# SPDX-License-Identifier: MIT
"""Python code that calls C that calls Python, in every way that weaving has to know. What may lie between two
Python frames is in tests/live/weave.py."""
import ctypes
import zlib

libc = ctypes.CDLL(None)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
numbers = (ctypes.c_int * 3)(3, 1, 2)
BLOB = b"x" * 20000


def spin(n):
    for i in range(n):
        zlib.crc32(BLOB)


def in_del():
    spin(3)


class Dying:
    def __del__(self):
        in_del()


def makes_dying(x):
    dying = Dying()
    spin(2)
    return x


def key(x):
    spin(2)
    list(map(makes_dying, [x]))
    return x


def gen_inner():
    spin(1)
    yield 1
    spin(1)


def gen_outer():
    yield from gen_inner()


def by_sum():
    sum(gen_outer())


def direct():
    spin(1)


def compare(a, b):
    by_sum()
    direct()
    return 0


callback = COMPARE(compare)


def by_qsort():
    libc.qsort(numbers, 3, 4, callback)


def by_sorted():
    sorted([1, 2, 3], key=key)


def tiny(x):
    return x


def by_tiny():
    for _ in map(tiny, range(2000)):
        pass


def main():
    while True:
        by_sorted()
        by_qsort()
        by_tiny()
        direct()


print("ready", flush=True)
main()
