# SPDX-License-Identifier: MIT
"""Compiles a function with JAX, again and again; else as numba_loop.py."""
import sys
import time

import jax
import jax.numpy as jnp


def make():
    def foo(x):
        y = jnp.tanh(x @ x)
        return jnp.linalg.norm(jnp.where(y > 0, jnp.sort(y, axis=0), y)), jnp.cumsum(y)

    return jax.jit(foo)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else -1
    x = jnp.ones((8, 8))
    jax.block_until_ready(make()(x))
    print("ready", flush=True)
    while count:
        start = time.process_time()
        jax.block_until_ready(make()(x))
        print("%.6f" % (time.process_time() - start), flush=True)
        count -= 1


main()
