#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ten functions, each with a line that Numba compiles for long: compiled again and again for SECONDS of CPU time.

    compile_lines.py SECONDS FILE [clocks]

FILE gets {"functions": {name: [first line, last line]}, "compiled": ns, "lines": [[name, line, what, ns], ...]}: with `clocks` what Numba's
own lower_inst() and constraints took at each line ("lowering", "typing"), by the thread's CPU clock."""
import collections
import json
import sys
import time

import numba
import numba.core.lowering
import numba.core.typeinfer
import numpy as np


def unpacks(x):
    a, b, c, d, e, f, g, h, i, j = x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9]
    return a + b + c + d + e + f + g + h + i + j


def expression(x):
    y = x * 2
    z = np.sin(x) * np.cos(y) + np.sqrt(x * x + y * y) - np.exp(x) / (1 + np.abs(y)) + np.tanh(x - y) * np.log1p(y * y)
    return z[0]


def chain(x):
    y = np.concatenate((x, x)).reshape(2, -1).T.copy().ravel()
    return y.sum()


def tuples(x):
    t = ((1, 2.0, x, (3, 4.0, x)), (x, x, x), 5, (6, (7, (8, x))))
    u = t + t + t
    return len(u) + t[0][0]


def reduces(x):
    s = x.sum() + x.mean() + x.std() + x.min() + x.max()
    return s * 2


def stacks(x):
    s = 1.0
    for k in range(3):
        s += np.linalg.norm(np.dot(np.outer(x, x), x) * s)
    return s


def strings(x):
    n = len(x)
    t = "a" * n + str(n)
    return len(t.strip()) + n


def dicts(x):
    d = {1: 2.0, 3: 4.0, 5: 6.0, 7: 8.0}
    d[9] = x[0]
    return sum([v for v in d.values()])


def branches(x):
    a = x[0]
    if a > 1:
        a = np.floor(a) + np.ceil(a * 3) + np.trunc(a * 5) + np.rint(a * 7) + np.arctan2(a, a + 1) + np.hypot(a, a + 2)
    elif a > 2:
        a = a + 1
    return a


def slices(x):
    y = x[1:-1] - x[:-2] + x[2:] - x[1:-1:1] * x[::-1][1:-1]
    y[1:3] = x[2:4]
    return y[0]


FUNCTIONS = [unpacks, expression, chain, tuples, reduces, stacks, strings, dicts, branches, slices]


class Clocks:
    """Inclusive: what is open twice counts once."""

    def __init__(self):
        self.lines, self.open = collections.Counter(), collections.Counter()

    def around(self, key, call):
        if key[0] != __file__:
            return call()
        self.open[key] += 1
        begin = time.thread_time_ns()
        try:
            return call()
        finally:
            self.open[key] -= 1
            if not self.open[key]:
                self.lines[key] += time.thread_time_ns() - begin


class Constraint:
    """One of Numba's, with a clock."""

    def __init__(self, of, clocks):
        self.of, self.clocks = of, clocks

    def __getattr__(self, name):
        return getattr(self.of, name)

    def __call__(self, typeinfer):
        loc = self.of.loc
        return self.clocks.around((loc.filename, typeinfer.func_id.func_qualname, loc.line, "typing"), lambda: self.of(typeinfer))


def put(clocks):
    lower, append = numba.core.lowering.Lower.lower_inst, numba.core.typeinfer.ConstraintNetwork.append

    def lower_inst(self, inst):
        return clocks.around((inst.loc.filename, self.func_ir.func_id.func_qualname, inst.loc.line, "lowering"), lambda: lower(self, inst))

    numba.core.lowering.Lower.lower_inst = lower_inst
    numba.core.typeinfer.ConstraintNetwork.append = lambda self, constraint: append(self, Constraint(constraint, clocks))


def last_line(function):
    code = function.__code__
    if sys.version_info >= (3, 10):
        return max(line for _, _, line in code.co_lines() if line)
    import dis
    return max(line for _, line in dis.findlinestarts(code))


def main():
    seconds, clocks, compiled = float(sys.argv[1]), Clocks(), 0
    if sys.argv[3:]:
        put(clocks)
    x = np.arange(12.0)
    while compiled < seconds * 1e9:
        for function in FUNCTIONS:
            begin = time.thread_time_ns()
            numba.njit(function).compile((numba.typeof(x),))
            compiled += time.thread_time_ns() - begin
    with open(sys.argv[2], "w") as out:
        json.dump({"functions": {f.__name__: [f.__code__.co_firstlineno, last_line(f)] for f in FUNCTIONS}, "compiled": compiled,
                   "numba": numba.__version__, "lines": [[name, line, what, ns] for (_, name, line, what), ns in clocks.lines.items()]}, out)


if __name__ == "__main__":
    main()
