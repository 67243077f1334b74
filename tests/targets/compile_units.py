# SPDX-License-Identifier: MIT
"""Compiles with Numba what the argument says, after a line came on stdin, and tells what it compiled.

The last line on stdout is JSON: for each call of numba.core.compiler's compile_extra, compile_internal, compile_ir
{"name", "signature", "path" (of its parents: [name, signature]), "begin", "end" (CLOCK_MONOTONIC ns), "cpu" (ns of this
thread), "tid"}; and Numba's own events, to compare the two; with "spans" the sums of its other events and of LLVM's lock, with
"llvm" of that and of LLVM's passes. What counts says that it is a file of Numba's: its frames are no line of the program's."""
import inspect
import json
import sys
import threading
import time
import types

import numba
import numba.core.compiler as compiler
import numba.core.event as event
import numpy as np
from llvmlite.binding import ffi

COUNTING = '''
def count(original, name_of):
    bind = inspect.signature(original).bind

    def counted(*args, **kwargs):
        stack = stacks.__dict__.setdefault("stack", [])
        given = bind(*args, **kwargs).arguments
        name, signature = name_of(given), ", ".join([str(t) for t in given["args"]])
        unit = {"name": name, "signature": signature, "path": list(stack), "tid": threading.get_native_id()}
        units.append(unit)
        stack.append([name, signature])
        cpu, unit["begin"] = time.thread_time_ns(), time.monotonic_ns()
        try:
            return original(*args, **kwargs)
        finally:
            unit["end"], unit["cpu"] = time.monotonic_ns(), time.thread_time_ns() - cpu
            stack.pop()
    return counted
'''
units = []
stacks = threading.local()
exec(compile(COUNTING, "/counting/numba/units.py", "exec"))


class Compiles(event.Listener):
    def __init__(self):
        self.n = 0

    def on_start(self, ev):
        self.n += 1

    def on_end(self, ev):
        pass


# Clocks are read last at a begin and first at an end: what the events themselves cost is not in between. An end goes with
# the innermost begin of its kind; of one kind inside of itself the outermost counts.
SPANS = '''
class Spans(event.Listener):
    """Sums by name of the outermost, (CPU of the thread, wall) in ns; of those within a compile that is counted."""

    def __init__(self):
        self.sums, self.open = {}, threading.local()

    def on_start(self, ev):
        own = self.open.__dict__
        name = name_of_event(ev)
        own["names"] = own.get("names", []) + [name]
        outer = own["names"].count(name) == 1
        own.setdefault("begins", []).append((name, outer, time.thread_time_ns(), time.monotonic_ns()))

    def on_end(self, ev):
        wall, cpu = time.monotonic_ns(), time.thread_time_ns()
        own = self.open.__dict__
        name, outer, cpu_then, wall_then = own["begins"].pop()
        own["names"] = own["names"][:-1]
        # A dispatcher has Numba's lock before the compile begins.
        if outer and (name == "numba:compiler_lock" or stacks.__dict__.get("stack")):
            row = self.sums.setdefault(name, [0, 0, 0])
            row[0] += cpu - cpu_then
            row[1] += wall - wall_then
            row[2] += 1
'''


def keep_timings(rows):
    """Of LLVM, by bundle: [bundle, its report, the compile that it is of]."""
    from numba.misc.llvm_pass_timings import PassTimingsCollection

    def append(self, name, timings):
        rows.append([name, timings.get_raw_data(), (stacks.__dict__.get("stack") or [None])[-1]])
    numba.config.LLVM_PASS_TIMINGS = True
    PassTimingsCollection._append = append


def without_own_cost(sums, spans, lock):
    """The lock of LLVM is taken for each call of it: what of its sum is the counting itself, as an empty stretch shows it."""
    kind, (cpu, wall, n) = "numba:llvm_lock", sums.get("numba:llvm_lock", (0, 0, 0))
    spans.sums, stacks.stack = {}, ["none"]
    for _ in range(20000):
        with lock:
            pass
    row = spans.sums[kind]
    return dict(sums, **{kind: [cpu - n * row[0] // row[2], wall - n * row[1] // row[2], n]})


def name_of_event(ev):
    return ev.data["name"].split(" [")[0] if ev.kind == "numba:run_pass" else ev.kind


exec(compile(SPANS, "/counting/numba/spans.py", "exec"))


def foo_svd():
    def foo(x):
        numbers = [3.0, 1.0, 2.0]
        numbers.sort()
        return np.linalg.svd(x), numbers

    numba.njit(foo)(np.ones((3, 3)))


def kinds():
    @numba.vectorize(["float64(float64, float64)"])
    def added(a, b):
        return a * b + np.sqrt(a)

    @numba.guvectorize(["(float64[:], float64[:])"], "(n)->(n)")
    def doubled(a, out):
        for i in range(a.shape[0]):
            out[i] = 2 * a[i]

    @numba.cfunc("float64(float64)")
    def called(a):
        return np.sin(a) + a

    @numba.njit
    def several(a, b=None):
        return a if b is None else a + b

    @numba.njit
    def failing(a):
        return a.nothing

    for value in (1, 1.0, np.ones(3), (1, 2.0)):
        several(value)
    several(1, 2)
    try:
        failing(1)
    except numba.core.errors.TypingError:
        pass


def parallel():
    @numba.njit(parallel=True)
    def total(a):
        s = 0.0
        for i in numba.prange(a.shape[0]):
            s += np.sqrt(a[i])
        return s

    total(np.ones(100))


def module():
    """200 functions, each of which calls up to two before it."""
    lines = ["import numba, math"]
    for i in range(200):
        inner = " + ".join("f%d(x + %d)" % (k, i) for k in (i - 1, i // 2) if k >= 0 and k < i and i % 10)
        lines += ["@numba.njit", "def f%d(x):" % i, "    s = %d" % i, "    for i in range(%d):" % (i % 7 + 2),
                  "        s += math.sqrt(x * i)", "    return s" + (" + " + inner if inner else "")]
    names = {}
    exec(compile("\n".join(lines), __file__, "exec"), names)
    for i in range(200):
        names["f%d" % i](1.5)


def jitclass():
    from numba.experimental import jitclass as decorator

    @decorator([("value", numba.int64), ("items", numba.float64[:])])
    class Bag:
        def __init__(self, n):
            self.value = n
            self.items = np.zeros(n)

        @property
        def size(self):
            return self.items.size

        def add(self, x):
            for i in range(self.size):
                self.items[i] += x
            return self.items.sum()

    bag = Bag(3)
    bag.add(2.5)
    bag.value = 4


def lifted():
    @numba.jit(forceobj=True, looplift=True)
    def objects(a):
        text = object()
        s = 0.0
        for i in range(len(a)):
            s += a[i] * 2
        str(text)
        t = 1.0
        for i in range(len(a)):
            t *= a[i] + s
        return s + t

    objects(np.ones(10))


def stencil():
    @numba.stencil
    def kernel(a):
        return 0.25 * (a[0, 1] + a[1, 0] + a[0, -1] + a[-1, 0])

    @numba.njit
    def user(a):
        return kernel(a) + kernel(a + 1)

    user(np.ones((10, 10)))
    kernel(np.ones((4, 4), dtype=np.float32))


def cached():
    """The second module finds what the first one kept."""
    import importlib.util
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        numba.config.CACHE_DIR = folder
        path = folder + "/kept.py"
        with open(path, "w") as f:
            f.write("import numba\nimport numpy as np\n@numba.njit(cache=True)\ndef kept(a):\n    return np.sort(a) * 2\n")
        for name in "first", "second":
            spec = importlib.util.spec_from_file_location("kept", path)
            loaded = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(loaded)
            loaded.kept(np.ones(5))


def threads():
    def work(n):
        def one(a):
            return np.cumsum(a) + n

        def two(a, b):
            return np.dot(a, b) * n

        numba.njit(one)(np.ones(4))
        numba.njit(two)(np.ones(4), np.ones(4))

    running = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def main():
    listener, spans, timings = Compiles(), Spans(), []
    if "llvm" in sys.argv[2:]:
        keep_timings(timings)
    event.register("numba:compile", listener)
    if "spans" in sys.argv[2:]:
        for kind in "numba:run_pass", "numba:compiler_lock":
            event.register(kind, spans)
    if sys.argv[2:]:
        # What Numba makes its llvm_lock of: here without what the making of an event costs, some us a call of LLVM.
        lock = types.SimpleNamespace(kind="numba:llvm_lock")
        callbacks = ffi.lib._lock._cblist
        callbacks.insert(0, (lambda: None, lambda: spans.on_end(lock)))
        callbacks.append((lambda: spans.on_start(lock), lambda: None))
    compiler.compile_extra = count(compiler.compile_extra, lambda given: given["func"].__qualname__)
    compiler.compile_internal = count(compiler.compile_internal, lambda given: given["func"].__qualname__)
    compiler.compile_ir = count(compiler.compile_ir, lambda given: given["func_ir"].func_id.func_qualname)
    print("ready", flush=True)
    sys.stdin.readline()
    {"svd": foo_svd}.get(sys.argv[1], globals().get(sys.argv[1]))()
    time.sleep(0.3)
    sums = without_own_cost(dict(spans.sums), spans, ffi.lib._lock) if sys.argv[2:] else {}
    print(json.dumps({"numba": numba.__version__, "events": listener.n, "units": units, "spans": sums, "llvm": timings}), flush=True)


main()
