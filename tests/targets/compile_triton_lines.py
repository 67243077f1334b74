#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A kernel with statements of different cost, which Triton compiles for a GPU that need not be there, for SECONDS of CPU time.

    compile_triton_lines.py SECONDS FILE

FILE gets {"compiler": Triton's version, "traced": ns, "lines": {line: ns}}: the CPU time of all compiles, and of each statement in Triton's front
end, by the thread's clock around the visit of its node."""
import collections
import json
import os
import sys
import tempfile
import time

folder = tempfile.TemporaryDirectory()
os.environ["TRITON_CACHE_DIR"] = folder.name
os.environ["TRITON_ALWAYS_COMPILE"] = "1"
import triton  # noqa: E402
import triton.language as tl  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource, code_generator  # noqa: E402


@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    for i in tl.static_range(100):
        value = tl.sum(value * i, axis=0) + value
    for i in tl.static_range(30):
        value += tl.exp(value) * i
    tl.store(out + at, value + tl.max(value, axis=0), mask=at < n)


lines = collections.Counter()


class CodeGenerator:  # a name that the rule takes for Triton's own: the caller of visit()
    def visit_compound_statement(self, statements):
        for statement in statements if isinstance(statements, (list, tuple)) else [statements]:
            begin = time.thread_time_ns()
            self.visit(statement)
            if self.file_name == __file__:
                lines[self.begin_line + statement.lineno] += time.thread_time_ns() - begin


def main():
    seconds, file, traced = float(sys.argv[1]), sys.argv[2], 0
    code_generator.CodeGenerator.visit_compound_statement = CodeGenerator.visit_compound_statement
    print("ready", flush=True)
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        begin = time.thread_time_ns()
        triton.compile(ASTSource(kernel, {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 64}),
                       target=GPUTarget("cuda", 80, 32))
        traced += time.thread_time_ns() - begin
    with open(file, "w") as out:
        json.dump({"compiler": triton.__version__, "traced": traced, "lines": lines}, out)


main()
