# SPDX-License-Identifier: MIT
"""Jits functions of many shapes after a line came on stdin. The last line on stdout is JSON: what jax.monitoring told, [event, name,
begin, end (CLOCK_MONOTONIC ns)].

With a folder after the number of functions, jax.profiler.trace of them is written there; every other one is then of many small operations: much for
HLO passes, and little to compile.

Newer JAX tells when each began and ended, by the clock of the day; older JAX how long it was: the way to the listener is then after the end."""
import contextlib
import json
import os
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp
from jax import monitoring

spans = []
OFFSET = time.time_ns() - time.monotonic_ns()


def span(event, begin, end, **more):
    if "fun_name" in more:
        spans.append([event.rsplit("/", 1)[-1], str(more["fun_name"]), int(begin * 1e9) - OFFSET, int(end * 1e9) - OFFSET])


def told(event, duration, **more):
    if "fun_name" in more:
        now = time.monotonic_ns()
        spans.append([event.rsplit("/", 1)[-1], str(more["fun_name"]), now - int(duration * 1e9), now])


def function(number):
    def layer(w, x):
        return jnp.tanh(x @ w) + jnp.sort(x, axis=-1) * number

    def work(w, x):
        for _ in range(2 + number % 4):
            x = layer(w, x)
        return jnp.linalg.norm(x) if number % 2 else jnp.mean(x ** 2)

    work.__name__ = "work%d" % number
    return jax.grad(work) if number % 3 == 0 else work


def many(number):
    def work(w, x):
        for _ in range(200 + number):
            x = (((x.T * 1.0 + 0.0).T.reshape(-1) * 2).reshape(8, 24)[:, ::-1])[:, ::-1] / 2
        return x

    work.__name__ = "many%d" % number
    return work


def trace():
    """XLA's own spans, without Python's."""
    if not sys.argv[2:]:
        return contextlib.nullcontext()
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level, options.host_tracer_level = 0, 3
    return jax.profiler.trace(sys.argv[2], profiler_options=options)


def main():
    w, x = jnp.ones((24, 24)), jnp.ones((8, 24))
    if hasattr(monitoring, "register_event_time_span_listener"):
        monitoring.register_event_time_span_listener(span)
    else:
        monitoring.register_event_duration_secs_listener(told)
    # The sampler is told which locals to give some 20 ms after it met a code object.
    print("ready", flush=True)
    sys.stdin.readline()
    jax.block_until_ready(jax.jit(function(1000))(w, x))
    if sys.argv[2:]:
        # The sampler reads what XLA's and LLVM's functions are called.
        jax.block_until_ready(jax.jit(many(1000))(w, x))
        time.sleep(3)
    time.sleep(0.1)
    del spans[:]
    with trace():
        for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 30):
            of = many if sys.argv[2:] and number % 2 else function
            jax.block_until_ready(jax.jit(of(number))(w, x))
    time.sleep(0.2)
    print(json.dumps(spans), flush=True)


main()
