# SPDX-License-Identifier: MIT
"""Compiles the gradient of a small network with JAX on the CPU, again and again, and runs it."""
import os

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp


def loss(weights, x, scale):
    for w, b in weights:
        x = jnp.tanh(x @ w + b) * scale
    return jnp.mean(jnp.sort(x, axis=-1) ** 2)


def main():
    keys = jax.random.split(jax.random.PRNGKey(0), 3)
    weights = [(jax.random.normal(k, (32, 32)), jnp.zeros(32)) for k in keys]
    x = jnp.ones((16, 32))
    print("ready", flush=True)
    n = 0
    while True:
        n += 1
        step = jax.jit(jax.grad(lambda w, x, n=n: loss(w, x, 1.0 + n / 1000)))
        for _ in range(3):
            jax.block_until_ready(step(weights, x))
        if n % 10 == 0:
            jax.clear_caches()


main()
