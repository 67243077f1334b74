# SPDX-License-Identifier: MIT
"""Functions that PyTensor compiles, after a line came on stdin: compile_pytensor_units.py LINKER.

The last line on stdout is JSON: {"version", "functions": [[name, begin, end]], "phases", "passes": {name: ns, without those of its kind inside of it}},
CLOCK_MONOTONIC ns. Rewriters are timed around the methods that apply them where a list of rewriters calls these, those of nodes around the one that
applies each to a node.
"""
import collections
import json
import os
import sys
import tempfile
import time

folder = tempfile.TemporaryDirectory()
os.environ["PYTENSOR_FLAGS"] = "base_compiledir=%s,linker=%s" % (folder.name, sys.argv[1])
import numpy  # noqa: E402
import pytensor  # noqa: E402
import pytensor.tensor as pt  # noqa: E402
from pytensor.compile import maker  # noqa: E402
from pytensor.graph.rewriting import basic  # noqa: E402
from pytensor.link.c import cmodule  # noqa: E402

functions = []
sums = {"phases": collections.Counter(), "passes": collections.Counter()}
inner = {"phases": [0], "passes": [0]}


def timed(of, attribute, kind, name, within=None):
    function = of.__dict__[attribute]
    static = isinstance(function, staticmethod)
    function = function.__func__ if static else function

    def call(*args, **more):
        if within and sys._getframe(1).f_code is not within:
            return function(*args, **more)
        start = time.monotonic_ns()
        inner[kind].append(0)
        try:
            return function(*args, **more)
        finally:
            span = time.monotonic_ns() - start
            sums[kind][name or name_of(args[0] if kind == "phases" else args[3] if len(args) > 3 else more.get("node_rewriter") or args[0].node_rewriter)] += span - inner[kind].pop()
            inner[kind][-1] += span
    setattr(of, attribute, staticmethod(call) if static else call)


def name_of(rewriter):
    return getattr(rewriter, "__name__", None) or rewriter.name or ""


def below(of):
    return {of}.union(*map(below, of.__subclasses__()))


def compiled(name, *args, **more):
    start = time.monotonic_ns()
    pytensor.function(*args, name=name, **more)
    functions.append([name, start, time.monotonic_ns()])


def train(number):
    x, y = pt.matrix("x"), pt.vector("y")
    w, b = pytensor.shared(numpy.zeros(10), name="w"), pytensor.shared(0.0, name="b")
    p = pt.sigmoid(x @ w + b)
    loss = pt.mean(-y * pt.log(p) - (1 - y) * pt.log(1 - p)) + 0.01 * number * (w ** 2).sum()
    by_w, by_b = pytensor.grad(loss, [w, b])
    compiled("train%d" % number, [x, y], [p, loss], updates=[(w, w - .1 * by_w), (b, b - .1 * by_b)])


def chain(number):
    x = y = pt.vector("x")
    for i in range(2 + number % 4):
        y = pt.exp(-y) * pt.sin(y + i) + pt.log1p(y ** 2)
    compiled("chain%d" % number, [x], [y.sum(), pytensor.grad(y.sum(), x)])


def main():
    lists = basic.SequentialGraphRewriter.apply.__code__
    for of in below(basic.GraphRewriter):
        if "apply" in of.__dict__:
            timed(of, "apply", "phases", None, lists)
    timed(basic.NodeProcessingGraphRewriter, "process_node", "passes", None)
    timed(maker.FunctionMaker, "prepare_fgraph", "phases", "rewriting")
    timed(maker.FunctionMaker, "create", "phases", "linker")
    timed(cmodule.GCC_compiler, "compile_str", "phases", "C++ compiler")
    print("ready", flush=True)
    sys.stdin.readline()
    # What is loaded on first use; and the sampler is told which locals to give some 20 ms after it met a code object.
    train(0)
    chain(0)
    time.sleep(0.1)
    for of in (functions, *sums.values()):
        of.clear()
    for number in range(1, 7):
        train(number)
        chain(number)
    time.sleep(0.2)
    print(json.dumps({"version": pytensor.__version__, "functions": functions, **sums}), flush=True)


main()
