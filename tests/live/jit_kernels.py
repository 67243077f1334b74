#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# run-live: beside
"""Stacks of running kernels, of which LLVM writes no call frame information: each sample in code that Numba
(with CPROFD_COMPILERS=1 also the newest one, and XLA, both of PyPI) compiled must come to the thread's entry, by way of
the Python function that called it, and be named as Numba itself names it.

    tests/live/jit_kernels.py [KIND...]     JIT_KERNELS_PYTHON: another interpreter

Each kind runs until SAMPLES were taken in JIT code, at most JIT_KERNELS_SECONDS (40). What comes before tables are
made is told, and not counted; of XLA each sample counts, with an empty cache. Needs root.
"""
import collections
import os
import signal
import subprocess
import sys
import tempfile

from lib import CPROFD, LIVE, ROOT
from lib.recording import Batches, kind_of, rows
from lib.wait import few

TARGET = os.path.join(ROOT, "tests/targets/jit_kernels.py")
SECONDS = float(os.environ.get("JIT_KERNELS_SECONDS", 40))
CUT = 0.001  # of the samples, where there are many
SAMPLES = 2000
LEAST = 300

# What a kernel is called and of what type: as the target's source says it, in Numba's way of writing types.
ARRAY = "array(float64, 1d, C)"
NAMES = {
    "njit": ["kernel_leaf(%s)" % ARRAY],
    "nested": ["kernel_outer(%s)" % ARRAY, "kernel_inner(%s, int64)" % ARRAY],
    "recursion": ["kernel_recurse(int64, float64)"],
    "parallel": [],  # the loop is a function of Numba's making
    "nogil": ["kernel_nogil(%s)" % ARRAY],
    "vectorize": ["kernel_ufunc(float64)"],
    "guvectorize": ["kernel_gufunc(array(float64, 1d, A), array(float64, 1d, A))"],
    "cfunc": ["kernel_compare(float64*, float64*)"],
    "jitclass": ["method(instance.jitclass.Kernel#"],  # Numba compiles a wrapper with this name
    "debug": ["kernel_debug(%s)" % ARRAY],
    "xla": [],
}
DRIVERS = {"nogil": "drive_pool"}
COLD = {"xla"}  # with an empty cache: the file that has the tables is of hundreds of MB, and kernels run meanwhile
tally = collections.Counter()


def verdict(part, what, why=None, skipped=False, note=""):
    tally["skipped" if skipped else "failed" if why else "passed"] += 1
    word = "skipped" if skipped else "FAILED" if why else "ok"
    print("%s %s: %s%s" % (word, part, what, ": %s" % why if why else " (%s)" % note if note else ""), flush=True)


def stacks_of(stream):
    """(seconds since the begin, [(name, kind)]) of each sample, outermost first."""
    tables = Batches()
    for line in stream:
        event = tables.feed(line)
        if event["ev"] == "samples":
            for at, stack in rows(event, "stack"):
                path = [(function[0], kind_of(function)) for function, _ in tables.path(stack)]
                yield (at - tables.session["monotonic"]) / 1e9, path[::-1]


JIT, NOTE, PYTHON = 4, 3, 0


def run(part, python, kind, cache):
    target = subprocess.Popen([python, TARGET, kind], stdout=subprocess.PIPE, universal_newlines=True,
                              env=dict(os.environ, PYTHONWARNINGS="ignore", NUMBA_NUM_THREADS="2"))
    try:
        if target.stdout.readline() != "ready\n":
            return verdict(part, "target", "it does not run")
        environment = dict(os.environ, CACHE_DIRECTORY=cache) if kind in COLD else None
        profiler = subprocess.Popen([CPROFD, "attach", str(target.pid), "--native", "--stream", "-d", str(SECONDS)],
                                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True, env=environment)
        samples, in_jit, whole, settled = 0, 0, 0, None
        odd, names = collections.Counter(), collections.Counter()
        driver = DRIVERS.get(kind, "drive")
        for when, path in stacks_of(profiler.stdout):
            jit = [n for n, k in path if k == JIT]
            cut = [n for n, k in path if k == NOTE and n != "(idle)"]
            if settled is None and jit and not cut:
                settled = when
            if settled is None or when < settled + (0 if kind in COLD else 0.5):
                continue
            samples += 1
            if not jit and not any("cut" in n for n in cut):
                continue
            in_jit += 1
            if in_jit == SAMPLES:
                profiler.send_signal(signal.SIGINT)
            names.update(set(jit))
            # A thread of the pool that runs parallel loops has no Python.
            pythons = [n for n, k in path if k == PYTHON]
            rooted = any(n.endswith("." + driver) for n in pythons) and \
                pythons[0] in ("<module>", "Thread._bootstrap") or kind in ("parallel", "xla") and not pythons
            if rooted and not cut:
                whole += 1
            else:
                odd[" < ".join(n for n, _ in path[::-1][:6])] += 1
        profiler.wait()
        if settled is None:
            return verdict(part, "tables", "no stack through JIT code was whole")
        share = 100.0 * whole / max(in_jit, 1)
        note = "%d samples, %d in JIT code or cut, %.3f %% whole, from %.2f s on; %s" % (
            samples, in_jit, share, settled, ", ".join(n for n, _ in names.most_common(2)))
        for stack, n in odd.most_common(5):
            print("    %d x %s" % (n, stack))
        verdict(part, "stacks through JIT code come to the thread's entry",
                note if in_jit < LEAST or in_jit - whole > few(in_jit, CUT) else None, note=note)
        missing = [n for n in NAMES[kind] if not any(n in name for name in names)]
        if NAMES[kind]:
            verdict(part, "kernels have their names and types", "%s is not among %s" % (missing, list(names)[:8])
                    if missing else None, note=", ".join(NAMES[kind]))
        elif not names:
            verdict(part, "there is JIT code", "no sample has any")
    finally:
        target.kill()
        target.wait()


def has(python, module):
    return python and os.path.exists(python) and not subprocess.call([python, "-c", "import " + module],
                                                                     stderr=subprocess.DEVNULL)


def main():
    wanted = sys.argv[1:] or [k for k in NAMES if k != "xla"]
    pythons = [os.environ.get("JIT_KERNELS_PYTHON", "/usr/bin/python3")]
    if os.environ.get("CPROFD_COMPILERS"):
        sys.path.insert(0, LIVE)
        import jit
        newest = jit.pypi_python("jit_kernels")
        pythons += [newest] if newest else []
        wanted += ["xla"] if not sys.argv[1:] and newest else []
    for python in pythons:
        for kind in wanted:
            module = "jax" if kind == "xla" else "numba"
            version = "%s of %s" % (kind, python)
            if not has(python, module):
                if kind != "xla":
                    verdict(version, module, "it is not installed", skipped=True)
                continue
            try:
                with tempfile.TemporaryDirectory() as cache:
                    run(version, python, kind, cache)
            except Exception as e:  # a target that dies: one failure, and on
                verdict(version, "run", "%s: %s" % (type(e).__name__, e))
    print("%d passed, %d failed, %d skipped" % (tally["passed"], tally["failed"], tally["skipped"]))
    return 1 if tally["failed"] or not tally["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
