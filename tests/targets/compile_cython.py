# SPDX-License-Identifier: MIT
"""Cython: translates a module again and again, and runs one that was compiled before, which calls back.

    compile_cython.py DIRECTORY"""
import importlib
import os
import subprocess
import sys
import sysconfig

from Cython.Compiler.Main import CompilationOptions, compile_single, default_options

SOURCE = """# cython: language_level=3
import cython

cdef class Grid:
    cdef double[100] cells
    cdef object hook
    def __init__(self, hook):
        self.hook = hook
    cdef double step(self, int n) except -1:
        cdef int i
        cdef double total = 0
        for i in range(1, 99):
            self.cells[i] = (self.cells[i - 1] + self.cells[i + 1]) * 0.5 + n
            total += self.cells[i]
        if n % 7 == 0:
            total += self.hook(n)
        return total
    def run(self, int n):
        cdef double total = 0
        cdef int i
        for i in range(n):
            total += self.step(i)
        return total

def closure(n):
    return [x * y for x in range(n) for y in range(3) if x % 2]

def generator(n, f):
    for i in range(n):
        yield f(i)

async def coroutine(f):
    return f(1)
"""


def hook(n):
    return sum(i for i in range(20)) + n


def main():
    directory = sys.argv[1]
    path = os.path.join(directory, "grid.pyx")
    with open(path, "w") as f:
        f.write(SOURCE)
    sys.path.insert(0, directory)
    compile_single(path, CompilationOptions(default_options), None)
    subprocess.run(["gcc", "-O2", "-g0", "-shared", "-fPIC", "-w", "-I" + sysconfig.get_paths()["include"], path[:-3] + "c",
                    "-o", path[:-4] + sysconfig.get_config_var("EXT_SUFFIX")], check=True)
    grid = importlib.import_module("grid")
    print("ready", flush=True)
    while True:
        compile_single(path, CompilationOptions(default_options), None)
        for _ in range(20):
            grid.Grid(hook).run(2000)
            grid.closure(1000)
            list(grid.generator(1000, hook))


main()
