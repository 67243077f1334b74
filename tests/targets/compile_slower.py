# SPDX-License-Identifier: MIT
"""Compiles a small function with Numba, again and again; a part of that takes longer by the share that is the first argument: the
making of machine code, or the pass of Numba's own pipeline that the fourth argument names, whose own CPU time and that of all
compiles since "ready" are printed at the end, in seconds. The second argument: for how many seconds of CPU time; the third: so
many times at most. What is added is work of a measured length, not a look at the thread's clock again and again: a system call
that reads it is where the kernel lets others run, if there are any, and what a switch costs would be added, too.
(A compile is not the same work as one long before it: Numba keeps all the modules it made, and looks through them.)"""
import sys
import time

import llvmlite.binding.executionengine as engine

slower, seconds, passes = float(sys.argv[1]), float(sys.argv[2]), [0.0]


def work(rounds):
    while rounds > 0:
        rounds -= 1


def slowed(method):
    def run(self, *args):
        begin = time.thread_time()
        ret = method(self, *args)
        own = time.thread_time() - begin
        work(own * slower * speed[0])
        spent = time.thread_time() - begin
        if slower and spent > own:
            speed[0] *= 0.9 + 0.1 * own * slower / (spent - own)
        passes[0] += spent
        return ret

    return run


speed = [1e7]  # rounds a second, brought nearer to what they are with each
name = sys.argv[4] if sys.argv[4:] else "Finalize object"
if (slower or sys.argv[4:]) and name == "Finalize object":
    engine.ExecutionEngine.finalize_object = slowed(engine.ExecutionEngine.finalize_object)
import numba  # takes the method as it is by then
from numba.core import typed_passes

for kind in vars(typed_passes).values():
    if getattr(kind, "_name", None) == name:
        kind.run_pass = slowed(kind.run_pass)


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


for _ in range(10):
    make()(3)
passes[0] = 0
begin = time.thread_time()
print("ready", flush=True)
if sys.argv[4:]:
    sys.stdin.readline()
    begin = time.thread_time()
end, left = begin + seconds, int(sys.argv[3]) if sys.argv[3:] else 10 ** 9
while time.thread_time() < end and left:
    make()(3)
    left -= 1
print(passes[0], time.thread_time() - begin, flush=True)
