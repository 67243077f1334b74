"""Compiles with Numba what the argument says, after a line came on stdin, and tells what it compiled.

The last line on stdout is JSON: for each call of numba.core.compiler's compile_extra, compile_internal, compile_ir
{"name", "signature", "path" (of its parents: [name, signature]), "begin", "end" (CLOCK_MONOTONIC ns), "cpu" (ns of this
thread), "tid"}; and Numba's own events, to compare the two. What counts is compiled from "<string>": its frames are no line of
the program's."""
import json
import sys
import threading
import time

import numba
import numba.core.compiler as compiler
import numba.core.event as event
import numpy as np

COUNTING = '''
def count(original, name_of):
    def counted(*args, **kwargs):
        stack = stacks.__dict__.setdefault("stack", [])
        name, types = name_of(*args, **kwargs)
        signature = ", ".join([str(t) for t in types])
        unit = {"name": name, "signature": signature, "path": list(stack), "tid": threading.get_native_id()}
        units.append(unit)
        stack.append([name, signature])
        cpu, unit["begin"] = time.thread_time_ns(), time.monotonic_ns()
        try:
            return original(*args, **kwargs)
        finally:
            unit["end"], unit["cpu"] = time.monotonic_ns(), time.thread_time_ns() - cpu
            stack.pop()
    return counted
'''
units = []
stacks = threading.local()
exec(compile(COUNTING, "<string>", "exec"))


class Compiles(event.Listener):
    def __init__(self):
        self.n = 0

    def on_start(self, ev):
        self.n += 1

    def on_end(self, ev):
        pass


def foo_svd():
    def foo(x):
        numbers = [3.0, 1.0, 2.0]
        numbers.sort()
        return np.linalg.svd(x), numbers

    numba.njit(foo)(np.ones((3, 3)))


def kinds():
    @numba.vectorize(["float64(float64, float64)"])
    def added(a, b):
        return a * b + np.sqrt(a)

    @numba.guvectorize(["(float64[:], float64[:])"], "(n)->(n)")
    def doubled(a, out):
        for i in range(a.shape[0]):
            out[i] = 2 * a[i]

    @numba.cfunc("float64(float64)")
    def called(a):
        return np.sin(a) + a

    @numba.njit
    def several(a, b=None):
        return a if b is None else a + b

    @numba.njit
    def failing(a):
        return a.nothing

    for value in (1, 1.0, np.ones(3), (1, 2.0)):
        several(value)
    several(1, 2)
    try:
        failing(1)
    except numba.core.errors.TypingError:
        pass


def parallel():
    @numba.njit(parallel=True)
    def total(a):
        s = 0.0
        for i in numba.prange(a.shape[0]):
            s += np.sqrt(a[i])
        return s

    total(np.ones(100))


def main():
    listener = Compiles()
    event.register("numba:compile", listener)
    compiler.compile_extra = count(compiler.compile_extra, lambda ty, tg, func, args, *r, **k: (func.__qualname__, args))
    compiler.compile_internal = count(compiler.compile_internal,
                                      lambda ty, tg, lib, func, args, *r, **k: (func.__qualname__, args))
    compiler.compile_ir = count(compiler.compile_ir,
                                lambda ty, tg, ir, args, *r, **k: (ir.func_id.func_qualname, args))
    print("ready", flush=True)
    sys.stdin.readline()
    {"svd": foo_svd, "kinds": kinds, "parallel": parallel}[sys.argv[1]]()
    time.sleep(0.3)
    print(json.dumps({"numba": numba.__version__, "events": listener.n, "units": units}), flush=True)


main()
