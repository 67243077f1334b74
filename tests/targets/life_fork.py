# SPDX-License-Identifier: MIT
"""Children that run JIT code which their parent compiled before the fork, and then code of their own.

    life_fork.py CHILDREN MS [numba]

Waits for a line on stdin after it said `ready`. All of them, the parent too, compile after the fork: what they
make comes to the same addresses in each, and is named after who made it: `leaf_own3` is of child 3, 0 is the
parent. Code has call frame information (uwtable), so that its stacks can be whole. With `numba`: a pool of
multiprocessing's whose workers run a kernel that was compiled before."""
import ctypes
import multiprocessing
import os
import sys
import time

import llvmlite.binding as llvm

TEXT = """
define double @leaf_{0}(i64 %n) noinline uwtable {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %sum = phi double [0.0, %entry], [%more, %loop]
  %x = sitofp i64 %i to double
  %y = fadd double %sum, 1.0
  %z = fdiv double %x, %y
  %more = fadd double %sum, %z
  %next = add i64 %i, 1
  %again = icmp slt i64 %next, %n
  br i1 %again, label %loop, label %done
done:
  ret double %more
}}

define double @caller_{0}(i64 %n) noinline uwtable {{
  %room = alloca [{1} x i64]
  %at = getelementptr [{1} x i64], [{1} x i64]* %room, i64 0, i64 3
  store volatile i64 %n, i64* %at
  %a = call double @leaf_{0}(i64 %n)
  %b = call double @leaf_{0}(i64 %n)
  %c = fadd double %a, %b
  ret double %c
}}
"""

llvm.initialize()
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
kept = []


def make(name, room):
    """Frames of another size for each, so that another's unwind table gives another stack."""
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(TEXT.format(name, room)), machine)
    engine.finalize_object()
    kept.append(engine)
    return ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(engine.get_function_address("caller_" + name))


def run(function, seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        function(20000)


def work(number, shared, seconds):
    run(shared, seconds)
    own = make("own%d" % number, 20 + 8 * number)
    run(own, seconds)


def forked(children, seconds):
    shared = make("shared", 16)
    for _ in range(40):
        make("unused", 8)
    print("ready", flush=True)
    sys.stdin.readline()
    run(shared, 0.3)
    pids = []
    for number in range(1, children + 1):
        pid = os.fork()
        if not pid:
            work(number, shared, seconds)
            os._exit(0)
        pids.append(pid)
        print("child", number, pid, flush=True)
    run(make("own0", 20), seconds)
    for pid in pids:
        os.waitpid(pid, 0)


def kernel_before_the_fork(x):
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            total += x[i] / (1.0 + x[j] + i)
    return total


def task(seconds):
    run(lambda n: compiled(sample), seconds)
    return os.getpid()


def pool(children, seconds):
    global compiled, sample
    import numba
    import numpy
    sample = numpy.ones(2000)
    compiled = numba.njit(kernel_before_the_fork)
    compiled(sample)
    print("ready", flush=True)
    sys.stdin.readline()
    with multiprocessing.get_context("fork").Pool(children) as workers:
        for number, pid in enumerate(sorted(set(workers.map(task, [seconds] * children, 1)))):
            print("child", number, pid, flush=True)


if __name__ == "__main__":
    (pool if "numba" in sys.argv else forked)(int(sys.argv[1]), int(sys.argv[2]) / 1000)
