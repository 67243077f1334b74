#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Functions that a compiler runs to compile them, for SECONDS of CPU time: JAX, or a toy with the rules of `traced.rules` beside it.

    compile_traced.py jax|toy SECONDS FILE

FILE gets {"compiler": its version, "traced": ns, "lines": {line: ns}}: the CPU time of all that was traced, and of each line between two calls
of clock(), by the thread's clock."""
import collections
import json
import sys
import time

KIND, SECONDS, FILE = sys.argv[1], float(sys.argv[2]), sys.argv[3]
lines, last = collections.Counter(), [0, 0]


def clock():
    now, line = time.thread_time_ns(), sys._getframe(1).f_lineno
    if line == last[1] + 2:
        lines[line - 1] += now - last[0]
    last[:] = time.thread_time_ns(), line


def spend(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(300))


def chain(x, n):
    for i in range(n):
        x = sine(x) + i
    return x


def f(x):
    clock()
    y = chain(x, 30)
    clock()
    spend(0.004)
    clock()
    z = [chain(y, 10) for _ in range(5)][-1]
    clock()
    spend(0.008); y = y * z
    clock()
    y = chain(y + z, 5)
    clock()
    return y


def trace_jax(k):
    jax.make_jaxpr(lambda x: f(x) + k)(jnp.ones(3))


def trace_toy(k):
    toy.compile(f, 1.5 + k)


if KIND == "jax":
    import jax
    import jax.numpy as jnp
    sine, compiler, trace = jnp.sin, jax.__version__, trace_jax
    trace(0)  # imports
else:
    import traced_toy as toy
    sine, compiler, trace = toy.sine, "toy", trace_toy
lines.clear()
traced = 0
print("ready", flush=True)
end = time.thread_time() + SECONDS
while time.thread_time() < end:
    begin = time.thread_time_ns()
    trace(1)
    traced += time.thread_time_ns() - begin
with open(FILE, "w") as file:
    json.dump({"compiler": compiler, "traced": traced, "lines": lines}, file)
