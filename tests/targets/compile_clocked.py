# SPDX-License-Identifier: MIT
"""Translates a module again and again with the Cython of a directory, and takes the CPU clock of each time.

    compile_clocked.py DIRECTORY SECONDS

"ready" after the first one; a line for each of the others, as it ends: ns of its CPU time, by the thread's clock, around
what the rules call a compile; until so many seconds of CPU time are over."""
import os
import sys
import tempfile
import time

sys.path.insert(0, sys.argv[1])
from Cython.Compiler import Main
from Cython.Compiler.Main import CompilationOptions, compile_single, default_options

SOURCE = """# cython: language_level=3
cdef class Grid:
    cdef double[100] cells
    cdef object hook
    def __init__(self, hook):
        self.hook = hook
    cpdef double step(self, int n) except -1:
        cdef int i
        cdef double total = 0
        for i in range(1, 99):
            self.cells[i] = (self.cells[i - 1] + self.cells[i + 1]) * 0.5 + n
            total += self.cells[i]
        return total + self.hook(n)

def closure(n):
    return [x * y for x in range(n) for y in range(3) if x % 2]

def generator(n, f):
    for i in range(n):
        yield f(i, *[j for j in range(n)])
"""
took = []
run_pipeline = Main.run_pipeline


def clocked(*args, **keywords):
    begin = time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID)
    try:
        return run_pipeline(*args, **keywords)
    finally:
        took.append(time.clock_gettime_ns(time.CLOCK_THREAD_CPUTIME_ID) - begin)


Main.run_pipeline = clocked


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "clocked.pyx")
        with open(path, "w") as out:
            out.write(SOURCE)

        def translate():
            compile_single(path, CompilationOptions(default_options, output_file=os.path.join(folder, "clocked.c")), "clocked")

        translate()
        print("ready", flush=True)
        end = time.thread_time() + float(sys.argv[2])
        while time.thread_time() < end:
            del took[:]
            translate()
            print(*took, flush=True)


main()
