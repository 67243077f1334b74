"""Compiles a small function with Numba, again and again; making machine code of it takes longer by the share that is the
first argument. The second one: for how many seconds of CPU time; the third: so many times at most. (A compile is not the same
work as one long before it: Numba keeps all the modules it made, and looks through them.)"""
import sys
import time

import llvmlite.binding.executionengine as engine

slower, seconds = float(sys.argv[1]), float(sys.argv[2])
finalize = engine.ExecutionEngine.finalize_object


def slow_finalize(self):
    begin = time.thread_time()
    finalize(self)
    end = time.thread_time()
    until = end + (end - begin) * slower
    while time.thread_time() < until:
        pass


if slower:
    engine.ExecutionEngine.finalize_object = slow_finalize
import numba  # takes the method as it is by then


def make():
    def small(n):
        total = 0.0
        for i in range(n):
            if i % 3:
                total += i * 0.5
            else:
                total -= i
        return total

    return numba.njit(small)


make()(3)
print("ready", flush=True)
end, left = time.thread_time() + seconds, int(sys.argv[3]) if sys.argv[3:] else 10 ** 9
while time.thread_time() < end and left:
    make()(3)
    left -= 1
