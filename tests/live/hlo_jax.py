#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""--hlo against XLA's own account of what it made: the module that JAX compiled, as a protocol buffer, which is decoded here.

    tests/live/hlo_jax.py --python FILE     an interpreter that has jax

Every fusion and call of the optimised modules must be shown as its own op_name, or, where it has none, as one that an instruction of
what it calls has; none is left where there is one. Without --python nothing is done. Needs no root.

run-live: beside
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

from lib import CPROFD

PROGRAM = r'''
import sys
import jax, jax.numpy as jnp
from jax import lax

def elementwise(x):
    a = jnp.tanh(x) * 2 + x
    return jnp.sin(a) + jnp.cos(x)
def sums(x):
    return jnp.cumsum(jnp.exp(x), axis=1)[:, ::2], jnp.argmax(x, axis=1), jnp.cumprod(x, axis=0)
def order(x):
    return jnp.sort(x, axis=0), jnp.median(x, axis=1), jnp.unique(x, size=7)
def loop(x):
    return lax.fori_loop(0, 20, lambda i, c: jnp.exp(-c * c) + jnp.sqrt(jnp.abs(c)), x)
def either(x):
    return lax.cond(x[0, 0] > 0, lambda v: jnp.log1p(jnp.abs(v)) * 3, lambda v: jnp.sinh(v) - 1, x)
def slope(x):
    return jax.grad(lambda v: (jnp.tanh(v @ v) ** 2).mean())(x)
def scan(x):
    return lax.scan(lambda c, row: (c * 0.5 + row, jnp.where(row > c, row, c)), x[0], x)
def solve(x):
    return jnp.linalg.solve(x @ x.T + 100 * jnp.eye(len(x)), x)

x = jnp.ones((300, 300))
for i, function in enumerate((elementwise, sums, order, loop, either, slope, scan, solve)):
    compiled = jax.jit(function).lower(x).compile()
    with open(f"{sys.argv[1]}/{i}.txt", "w") as file:
        file.write(compiled.as_text())
    with open(f"{sys.argv[1]}/{i}.pb", "wb") as file:
        file.write(compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto())
'''


def fields(data):
    """(number, value) of a protocol buffer's message: ints, and bytes of what has a length."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        kind = key & 7
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            value, at = data[at:at + size], at + size
        yield key >> 3, value


def numbers(values):
    """Of a repeated field of integers, packed or not."""
    for value in values:
        if isinstance(value, int):
            yield value
            continue
        number = shift = 0
        for byte in value:
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                yield number
                number = shift = 0


class Message(dict):
    def __init__(self, data):
        super().__init__()
        for number, value in fields(data):
            self.setdefault(number, []).append(value)

    def text(self, number):
        return self.get(number, [b""])[0].decode()


# xla/service/hlo.proto: HloModuleProto, HloComputationProto, HloInstructionProto; xla/xla_data.proto: OpMetadata
COMPUTATIONS, INSTRUCTIONS, NAME, ID, OPCODE, METADATA, CALLED = 3, 2, 1, 5, 2, 7, 38
OP_NAME = 2


def module_of(data):
    """{instruction: (opcode, own op_name, op_names of all that it calls)} of the functions that XLA may make."""
    computations = {}
    for raw in Message(data)[COMPUTATIONS]:
        computation = Message(raw)
        rows = []
        for one in computation.get(INSTRUCTIONS, []):
            instruction = Message(one)
            metadata = Message(instruction.get(METADATA, [b""])[0])
            rows.append((instruction.text(NAME), instruction.text(OPCODE), metadata.text(OP_NAME), list(numbers(instruction.get(CALLED, [])))))
        computations[computation[ID][0]] = rows

    def below(ids):
        found = set()
        for number in ids:
            for _, opcode, op_name, called in computations[number]:
                found |= {op_name} if op_name and opcode != "parameter" else set()
                found |= below(called)
        return found
    return {name: (opcode, op_name, below(called)) for rows in computations.values() for name, opcode, op_name, called in rows
            if opcode in ("fusion", "call")}


def recording_of(name):
    """One sample of a function of that name, made by a JIT."""
    lines = [{"ev": "hello", "major": 1, "minor": 0}, {"ev": "session", "id": 1, "pid": 7, "rate": 1000, "monotonic": 10**9},
             {"ev": "epoch", "number": 1, "time": 10**9}, {"ev": "process", "id": 0, "pid": 7, "time": 10**9, "name": "p"},
             {"ev": "thread", "id": 0, "process": 0, "tid": 7, "time": 10**9, "name": "main"},
             {"ev": "functions", "first": 0, "rows": [[name, "", 0, "JIT", 4]]}, {"ev": "frames", "first": 0, "rows": [[0, 0, 0, 0]]},
             {"ev": "stacks", "first": 1, "rows": [[0, 0]]},
             {"ev": "samples", "t": [10**9 + 10**6], "wall": [10**6], "cpu": [10**6], "stack": [1]}, {"ev": "end", "time": 2 * 10**9}]
    return "".join(json.dumps(line) + "\n" for line in lines)


def told_of(name, text, work):
    path = os.path.join(work, "one.cprof")
    with open(path, "w") as file:
        file.write(recording_of(name))
    run = subprocess.run([CPROFD, "report", "--json", "--by=function", "--hlo", text, path], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    rows = json.loads(run.stdout)["tables"][0]["rows"]
    return rows[0]["name"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python")
    options = parser.parse_args()
    if not options.python:
        print("skipped: --python says which interpreter has jax\n0 passed, 0 failed, 1 skipped")
        return 0
    own = without = hopeless = 0
    wrong = []
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([options.python, "-c", PROGRAM, work], check=True, env={**os.environ, "JAX_PLATFORMS": "cpu"})
        for i in range(8):
            text = os.path.join(work, f"{i}.txt")
            with open(os.path.join(work, f"{i}.pb"), "rb") as file:
                module = module_of(file.read())
            for name, (opcode, op_name, below) in module.items():
                told = told_of(name, text, work)
                own, without, hopeless = own + bool(op_name), without + bool(not op_name and below), hopeless + bool(not op_name and not below)
                if told not in ({op_name} if op_name else below or {name}):
                    wrong.append(f"{i}: {name} ({opcode}) told as {told}, is {op_name or below}")
    print(f"{own} fusions and calls with an op_name, {without} that have one below them, {hopeless} without any")
    good = not wrong and own > 20 and without > 0
    print(f"{'ok' if good else 'FAILED'}: each is shown as the operation that it is of", *wrong[:10], sep="\n    ")
    print(f"{good:d} passed, {not good:d} failed, 0 skipped")
    return not good


if __name__ == "__main__":
    sys.exit(main())
