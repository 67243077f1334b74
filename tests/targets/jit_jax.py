# SPDX-License-Identifier: MIT
"""Compiles functions with JAX on the CPU, and drops some.

    jit_jax.py SECONDS DIR

After each compile the ELF images on XLA's list, as this process itself sees them, are written to a new folder
below DIR (ADDRESS.o), and a line of JSON tells of it: {"snapshot", "time": [before, after]}, CLOCK_MONOTONIC ns.
At the end they are written to DIR, {"end": how many} is printed, and it waits for the end of stdin."""
import gc
import json
import os
import sys
import time

os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp

import jit_own_list


def main():
    seconds, directory = float(sys.argv[1]), sys.argv[2]
    keep, i = [], 0
    x = jnp.ones((8, 8))
    print("ready", flush=True)
    sys.stdin.readline()
    end = time.monotonic() + seconds
    while not keep or time.monotonic() < end:
        def known(y, i=i):
            return jnp.tanh(y * i).sum() + jnp.sin(y @ y).max() + jnp.sort(y.ravel())[i % 8]
        function = jax.jit(known)
        function(x).block_until_ready()
        keep.append(function)
        before, snapshot = time.monotonic_ns(), os.path.join(directory, "snapshot%d" % i)
        os.mkdir(snapshot)
        jit_own_list.write(snapshot)
        print(json.dumps({"snapshot": snapshot, "time": [before, time.monotonic_ns()]}), flush=True)
        if i % 5 == 4:
            keep.clear()
            jax.clear_caches()
            gc.collect()
        i += 1
    n = jit_own_list.write(directory)
    print(json.dumps({"end": n, "kept": len(keep)}), flush=True)
    sys.stdin.read()


main()
