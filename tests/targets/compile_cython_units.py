# SPDX-License-Identifier: MIT
"""Translates modules with the Cython of a directory (compile_cython_units.py DIRECTORY), after a line came on stdin.

The last line on stdout is JSON: {"modules": [[name, begin, end (CLOCK_MONOTONIC ns)]], "phases": {name: s}}, by Cython's own clock."""
import json
import os
import sys
import tempfile
import time

sys.path.insert(0, sys.argv[1])
from Cython.Compiler import Pipeline
from Cython.Compiler.Main import CompilationOptions, compile_single, default_options

SOURCE = """# cython: language_level=3
cdef class Grid%(n)d:
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
    return [x * y for x in range(n) for y in range(3) if x %% 2]

def generator(n, f):
    for i in range(n):
        yield f(i, *[j for j in range(%(n)d)])
"""


def main():
    done = []
    with tempfile.TemporaryDirectory() as folder:
        def translate(number):
            name = "pack.grid%d" % number
            path = os.path.join(folder, name + ".pyx")
            with open(path, "w") as f:
                f.write(SOURCE % {"n": number} + "\n".join("def f%d(a, b): return a * %d + len(b)" % (i, i) for i in range(number * 5)))
            begin = time.monotonic_ns()
            compile_single(path, CompilationOptions(default_options), name)
            done.append([name, begin, time.monotonic_ns()])

        print("ready", flush=True)
        sys.stdin.readline()
        translate(0)
        time.sleep(0.1)
        del done[:]
        Pipeline.threadlocal.cython_pipeline_timings.clear()
        for number in range(1, 13):
            translate(number)
    time.sleep(0.2)
    timings = {name: micros / 1e6 for name, (micros, _) in Pipeline.threadlocal.cython_pipeline_timings.items()}
    print(json.dumps({"modules": done, "phases": timings}), flush=True)


main()
