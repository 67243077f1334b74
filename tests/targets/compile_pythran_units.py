# SPDX-License-Identifier: MIT
"""Modules that Pythran compiles, after a line came on stdin: compile_pythran_units.py MODULES.

The last line on stdout is JSON: {"version", "modules": [[name, begin, end]], "phases": {name: ns, without those inside of it}}, CLOCK_MONOTONIC ns.
Passes are timed around the method that runs each of them. The first module of ten is made into a shared object, the others into C++.
"""
import collections
import json
import os
import sys
import tempfile
import time

import pythran
import pythran.frontend
import pythran.passmanager
import pythran.toolchain

SOURCE = """
#pythran export product%(n)d(float[], float[])
#pythran export laplace%(n)d(float[:,:])
import numpy as np
def product%(n)d(a, b):
    return sum(x * y + %(n)d for x, y in zip(a, b))
def laplace%(n)d(a):
    out = np.zeros_like(a)
    for i in range(1, a.shape[0] - 1):
        for j in range(1, a.shape[1] - 1):
            out[i, j] = a[i-1, j] + a[i+1, j] + a[i, j-1] + a[i, j+1] - 4 * a[i, j]
    return out
"""
modules, phases, inner = [], collections.Counter(), [0]


def timed(of, attribute, name):
    function = getattr(of, attribute)

    def call(*args, **more):
        start = time.monotonic_ns()
        inner.append(0)
        try:
            return function(*args, **more)
        finally:
            span = time.monotonic_ns() - start
            phases[name or type(args[0]).__name__] += span - inner.pop()
            inner[-1] += span
    setattr(of, attribute, call)


def build(folder, number):
    name = "module%d" % number
    start = time.monotonic_ns()
    pythran.compile_pythrancode(name, SOURCE % {"n": number}, cpponly=number % 10 != 1, output_file=os.path.join(folder, name + ("" if number % 10 != 1 else ".so")))
    modules.append([name, start, time.monotonic_ns()])


def main():
    timed(pythran.passmanager.ContextManager, "run", None)
    timed(pythran.frontend, "parse", "parse")
    timed(pythran.toolchain, "compile_cxxcode", "C++ compiler")
    with tempfile.TemporaryDirectory() as folder:
        print("ready", flush=True)
        sys.stdin.readline()
        # What is loaded on first use; and the sampler is told which locals to give some 20 ms after it met a code object.
        build(folder, 0)
        time.sleep(0.1)
        del modules[:]
        phases.clear()
        for number in range(1, int(sys.argv[1]) + 1):
            build(folder, number)
        time.sleep(0.2)
    print(json.dumps({"version": pythran.__version__, "modules": modules, "phases": phases}), flush=True)


main()
