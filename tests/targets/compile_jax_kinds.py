# SPDX-License-Identifier: MIT
"""Compiles with JAX what programs have: jit, nested jit, vmap, scan, grad, shard_map and pmap on two CPU devices, cond, custom_vjp, operations by
themselves. After a line came on stdin; the last line on stdout is JSON as of compile_jax_units.py, with the ns that the thread was ready without a CPU in between,
and how often it got one. compile_jax_kinds.py ROUNDS"""
import functools
import json
import os
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
import jax
import jax.numpy as jnp
from jax import lax, monitoring
from jax.sharding import Mesh, PartitionSpec

spans, begun = [], {}
OFFSET = time.time_ns() - time.monotonic_ns()


def waited():
    """How long this thread was ready without a CPU, and how often it got one."""
    with open("/proc/thread-self/schedstat") as file:
        return [int(word) for word in file.read().split()[1:]]


def begins(event, begin, **more):
    begun[event, begin] = waited()


def span(event, begin, end, **more):
    if "fun_name" in more:
        now = waited()
        before = begun.pop((event, begin), now)
        spans.append([event.rsplit("/", 1)[-1], str(more["fun_name"]), int(begin * 1e9) - OFFSET, int(end * 1e9) - OFFSET, now[0] - before[0], now[1] - before[1]])


def told(event, duration, **more):
    if "fun_name" in more:
        now = time.monotonic_ns()
        spans.append([event.rsplit("/", 1)[-1], str(more["fun_name"]), now - int(duration * 1e9), now, 0, 0])


def named(name, function):
    function.__name__ = function.__qualname__ = name
    return function


def body(x, number):
    for i in range(3 + number % 3):
        x = jnp.tanh(x @ x.T @ x) + jnp.sort(x, axis=-1) * (number + i)
    return x


@jax.custom_vjp
def clipped(x):
    return jnp.clip(x, -1, 1)


clipped.defvjp(lambda x: (clipped(x), None), lambda _, g: (g * 2,))


def kinds(n):
    """Of this round, by name."""
    inner = jax.jit(named("inner%d" % n, lambda x: body(x, n) * 2))
    mesh = Mesh(jax.devices(), ("i",))
    shard_map = getattr(jax, "shard_map", None) or functools.partial(jax.experimental.shard_map.shard_map)
    work = {
        "plain": lambda x: body(x, n).sum(),
        "nested": lambda x: inner(x) + inner(x + 1),
        "mapped": jax.vmap(lambda row: jnp.sort(row) * n + jnp.cumsum(row)),
        "scanned": lambda x: lax.scan(lambda c, row: (jnp.tanh(c + row) * n, c.sum()), x[0], x),
        "derived": jax.grad(lambda x: (body(x, n) ** 2).sum()),
        "sharded": shard_map(lambda x: lax.psum(body(x, n), "i"), mesh=mesh, in_specs=PartitionSpec("i"), out_specs=PartitionSpec()),
        "branched": lambda x: lax.cond(x.sum() > n, lambda y: body(y, n), lambda y: jnp.linalg.qr(y)[0] @ y[:8], x),
        "custom": jax.grad(lambda x: (clipped(x) * body(x, n)).sum()),
    }
    return {name: named("%s%d" % (name, n), (lambda f: lambda x: f(x))(function)) for name, function in work.items()}


def main():
    x = jnp.ones((8, 24))
    if hasattr(monitoring, "register_event_time_span_listener"):
        monitoring.register_event_time_span_listener(span)
        if hasattr(monitoring, "register_scalar_listener"):
            monitoring.register_scalar_listener(begins)
    else:
        monitoring.register_event_duration_secs_listener(told)
    print("ready", flush=True)
    sys.stdin.readline()
    # The sampler is told which locals to give some 20 ms after it met a code object.
    jax.block_until_ready(jax.jit(kinds(1000)["plain"])(x))
    time.sleep(0.2)
    del spans[:]
    for number in range(int(sys.argv[1])):
        for function in kinds(number).values():
            jax.block_until_ready(jax.jit(function)(x))
        jax.block_until_ready(jax.pmap(named("spread%d" % number, lambda x: body(x, number)))(x.reshape(2, 4, 24)))
        jnp.linalg.svd(jnp.ones((number + 3, 5)))[0].block_until_ready()
        jnp.sort(jnp.arange(number + 7.0)[::-1]).block_until_ready()
        time.sleep(0.05)
    time.sleep(0.2)
    print(json.dumps(spans), flush=True)


main()
