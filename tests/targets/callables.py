# SPDX-License-Identifier: MIT
"""Calls objects that are callable because of their type (ufuncs, partials, patterns' methods...), each in a function of its own, with a
clock around it.

    callables.py SECONDS

Prints one JSON object, {function: {"expression", "calls": [[offset, end], ...], "right": [names], "wrong": [words that no name of the callee may have]}}, runs, and prints
{function: CPU seconds}. Names are what Python says of the object: repr() of a ufunc, the qualified name of a function, else the type's."""
import ctypes
import dis
import functools
import json
import operator
import re
import struct
import sys
import time

words = ["w%d" % (i * 7919 % 10007) for i in range(400)]
numbers = [i * 7919 % 10007 for i in range(400)]
rows = [(i, str(i)) for i in range(400)]
text = "hello, World " * 2000
pattern, packer = re.compile("W[a-z]+d"), struct.Struct("400i")
second, both = operator.itemgetter(1), operator.itemgetter(*range(300))
real, upper = operator.attrgetter("real"), operator.methodcaller("upper")
part, bound, wrapper, unbound = functools.partial(sorted, reverse=True), numbers.copy, numbers.__repr__, str.upper
cached = functools.lru_cache(10)(sorted)
labs = ctypes.CDLL(None).qsort  # sorts nothing: a call of ctypes'
buffer, compare = ctypes.create_string_buffer(b"acb" * 30000), ctypes.cast(ctypes.CDLL(None).memcmp, ctypes.c_void_p)
memcpy, other = ctypes.CDLL(None).memmove, ctypes.create_string_buffer(90001)
memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

# expression, names that are right
CASES = [
    ("pattern.sub('x', text)", ["re.Pattern.sub"]), ("pattern.findall(text)", ["re.Pattern.findall"]),
    ("packer.pack(*numbers)", ["_struct.Struct.pack", "Struct.pack"]),
    ("both(numbers)", ["operator.itemgetter.__call__", "operator.itemgetter"]), ("upper(text)", ["operator.methodcaller.__call__", "str.upper"]),
    ("part(numbers)", ["functools.partial.__call__", "sorted", "list.sort"]), ("bound()", ["list.copy"]), ("wrapper()", ["list.__repr__", "repr"]),
    ("unbound(text)", ["str.upper"]), ("memcpy(other, buffer, 90000)", ["*CFuncPtr.__call__", "memmove", "__memmove_*", "__memcpy_*"]),
]


class Holder:
    """Has what it likes under the name of a ufunc."""


WRONG = ["outer", "reduce", "accumulate", "reduceat", ".at", "_get_typed_signature"]

try:
    import numpy as np
    from numpy import hypot
    block, blocks = np.arange(1.0, 6001.0), np.arange(6000)
    small, object_block = np.array([0.5]), np.array(numbers, dtype=object)
    grid = np.arange(10000.0).reshape(100, 100)
    twice = np.frompyfunc(operator.neg, 1, 1)

    UNNAMED = ["twice(object_block)"]  # a global that says nothing of what it is

    def ufunc(expression, *name):
        f = eval(name[0] if name else expression.split("(")[0])
        CASES.append((expression, [repr(f)] + ["numpy.ufunc.__call__"] * (expression in UNNAMED)))
    for name in "sin cos exp log tanh sqrt abs rint floor negative square isnan".split():
        ufunc("np.%s(block)" % name)
    for name in "add subtract multiply true_divide mod power arctan2 maximum logaddexp fmod".split():
        ufunc("np.%s(block, block)" % name)
    for name in "bitwise_and left_shift gcd".split():
        ufunc("np.%s(blocks, blocks)" % name)
    ufunc("np.add(block, block, out=block2)")
    ufunc("np.sin(small)")
    ufunc("np.matmul(grid, grid)")
    ufunc("hypot(block, block)")
    ufunc("twice(object_block)")
    holder, other_np, exp2 = Holder(), np, np.sin
    holder.add = np.subtract
    holder.np = Holder()
    holder.np.add = np.subtract
    block2, head, few = block.copy(), block[:80], blocks[:500]
    CASES += [
        ("np.add.reduce(block)", ["numpy.ufunc.reduce"]), ("np.add.outer(head, head)", ["numpy.ufunc.outer"]),
        ("np.multiply.accumulate(block)", ["numpy.ufunc.accumulate"]), ("np.add.at(block2, few, 1.0)", ["numpy.ufunc.at"]),
        ("block + block", ["numpy.ndarray.__add__"]), ("grid @ grid", ["numpy.ndarray.__matmul__", "ufunc_generic_fastcall", "*.so+0x*"]),
        ("holder.add(block, block)", ["numpy.ufunc.__call__", repr(np.subtract)]),
        ("holder.np.add(block, block)", ["numpy.ufunc.__call__", repr(np.subtract)]), ("other_np.add(block, block)", [repr(np.add)]),
        ("exp2(block)", ["numpy.ufunc.__call__", repr(np.sin)]), ("alias(block, block)", ["numpy.ufunc.__call__", repr(np.subtract)]),
        ("np.concatenate((block, block))", ["*.concatenate", "numpy._ArrayFunctionDispatcher.__call__", "*array_function*"]),
        ("np.dot(grid, grid)", ["*.dot", "numpy._ArrayFunctionDispatcher.__call__", "*array_function*"]),
        ("np.array(numbers)", ["*.array"]), ("block.sum()", None), ("block.argsort()", ["numpy.ndarray.argsort"]),
    ]
except ImportError:
    np = None
try:
    if np:
        import numba

        @numba.vectorize(["float64(float64)"])
        def root(x):
            return x ** 0.5 + 1

        @numba.vectorize
        def lazy(x):
            return x * 2.0

        @numba.guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
        def shift(x, out):
            for i in range(x.shape[0]):
                out[i] = x[i] + 1
        lazy(block)
        CASES += [("root(block)", ["*DUFunc.__call__", "<ufunc 'root'>", "numpy.ufunc.__call__"]), ("lazy(block)", ["*DUFunc.__call__"]),
                  ("shift(block)", ["<ufunc 'shift'>", "numpy.ufunc.__call__"])]
except Exception:
    pass

cases, known, spent = [], {}, {}


def spans(code):
    """Offsets of the last line's instructions that call, or compute."""
    first = max(dis.findlinestarts(code), key=lambda row: row[1] or 0)[0]
    instructions = list(dis.get_instructions(code))
    ends = [row.offset for row in instructions[1:]] + [len(code.co_code)]
    return [[row.offset, end] for row, end in zip(instructions, ends)
            if row.offset >= first and row.opname.startswith(("CALL", "PRECALL", "BINARY")) and "INTRINSIC" not in row.opname]


def make(number, expression):
    name = "case_%d" % number
    local = ", alias=np.subtract" if expression.startswith("alias") else ""
    exec(compile("def %s(n%s):\n    while n:\n        n -= 1\n        %s\n" % (name, local, expression), __file__, "exec"), globals())
    return name, globals()[name]


for expression, right in CASES:
    if right is None:
        continue
    name, function = make(len(cases), expression)
    function(2)
    began = time.perf_counter()
    function(10)
    cases.append((name, function, max(1, int(10 * 0.005 / (time.perf_counter() - began)))))
    known[name] = {"expression": expression, "right": right, "calls": spans(function.__code__), "wrong": [w for w in WRONG if "." + w.strip(".") + "(" not in expression]}
    spent[name] = 0.0

print(json.dumps(known), flush=True)
end = time.time() + float(sys.argv[1])
while time.time() < end:
    for name, function, n in cases:
        began = time.thread_time()
        function(n)
        spent[name] += time.thread_time() - began
print(json.dumps(spent), flush=True)
