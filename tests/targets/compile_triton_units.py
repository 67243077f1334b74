# SPDX-License-Identifier: MIT
"""Compiles kernels of Triton for a GPU that need not be there, after a line came on stdin: compile_triton_units.py KERNELS.

The last line on stdout is JSON: {"version", "kernels": [[name, signature, begin, end]], "phases": [[name, begin, end]]},
CLOCK_MONOTONIC ns. Names and signatures are what Triton's own listener is told of each compile; phases are timed around Triton's functions.
"""
import functools
import json
import os
import sys
import tempfile
import time

folder = tempfile.TemporaryDirectory()
os.environ["TRITON_CACHE_DIR"] = folder.name
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource

kernels, phases = [], []

# Triton reads a kernel's source from its file.
SOURCE = """
import triton
import triton.language as tl


@triton.jit
def add%(n)d(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) * %(n)d + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def softmax%(n)d(x, out, stride, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + at, mask=at < n, other=-float("inf"))
    top = tl.exp(value - tl.max(value, axis=0)) + %(n)d
    tl.store(out + row * stride + at, top / tl.sum(top, axis=0), mask=at < n)


@triton.jit
def matmul%(n)d(a, b, c, n, BLOCK: tl.constexpr):
    i, j = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for step in range(0, n, BLOCK):
        total += tl.dot(tl.load(a + i[:, None] * n + step + k[None, :]), tl.load(b + (step + k)[:, None] * n + j[None, :]))
    tl.store(c + i[:, None] * n + j[None, :], total * %(n)d)
"""
SHAPES = {"add": (["*fp32", "*fp32", "*fp32", "i32"], 1024), "softmax": (["*fp16", "*fp16", "i32", "i32"], 512),
          "matmul": (["*fp16", "*fp16", "*fp32", "i32"], 32)}


def timed(name, function):
    @functools.wraps(function)
    def call(*args, **more):
        begin = time.monotonic_ns()
        try:
            return function(*args, **more)
        finally:
            phases.append([name, begin, time.monotonic_ns()])
    return call


def listen(*, src, **_):
    kernels.append([src.name, ", ".join(src.signature.values()), begins[-1], time.monotonic_ns()])


begins = []


def build(module, kind, number):
    kernel = getattr(module, "%s%d" % (kind, number))
    types, block = SHAPES[kind]
    begins.append(time.monotonic_ns())
    triton.compile(ASTSource(kernel, dict(zip(kernel.arg_names, types + ["constexpr"])), {"BLOCK": block}), target=GPUTarget("cuda", 80, 32))
    kernels[-1][3] = time.monotonic_ns()


def main():
    path = os.path.join(folder.name, "many_kernels.py")
    with open(path, "w") as f:
        f.write("".join(SOURCE % {"n": n} for n in range(int(sys.argv[1]) + 1)))
    sys.path.insert(0, folder.name)
    import many_kernels
    for name in ("make_ttir", "make_ttgir", "make_llir", "make_ptx", "make_cubin"):
        own = CUDABackend.__dict__[name]
        setattr(CUDABackend, name, staticmethod(timed(name, own.__func__)) if isinstance(own, staticmethod) else timed(name, own))
    ASTSource.make_ir = timed("make_ir", ASTSource.make_ir)
    triton.knobs.compilation.listener = listen
    print("ready", flush=True)
    sys.stdin.readline()
    # What is loaded on first use; and the sampler is told which locals to give some 20 ms after it met a code object.
    build(many_kernels, "matmul", 0)
    time.sleep(0.1)
    del kernels[:], phases[:]
    for number in range(1, int(sys.argv[1]) + 1):
        for kind in SHAPES:
            build(many_kernels, kind, number)
    time.sleep(0.2)
    print(json.dumps({"version": triton.__version__, "kernels": kernels, "phases": phases}), flush=True)


main()
