# SPDX-License-Identifier: MIT
"""Code that is run once: functions that LLVM's JIT makes, runs for some ms and drops (`jit`), or libraries that are
loaded and run (`library LIBRARY.so DIR`: fresh copies of it below DIR; it has a `spin(ms)`)."""
import ctypes
import itertools
import os
import shutil
import sys
import time

TEXT = """
define double @once{0}(i64 %n) noinline uwtable {{
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
"""


def jit():
    import llvmlite.binding as llvm

    llvm.initialize()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    print("ready", flush=True)
    kept = []
    for number in itertools.count():
        machine = llvm.Target.from_default_triple().create_target_machine()
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(TEXT.format(number)), machine)
        engine.finalize_object()
        once = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(engine.get_function_address(f"once{number}"))
        once(500000)
        # Its memory goes some rounds later, and is the next one's.
        kept = kept[-64:] + [engine]


def library(original, directory):
    print("ready", flush=True)
    for number in itertools.count():
        path = os.path.join(directory, f"once{number}.so")
        shutil.copy(original, path)
        ctypes.CDLL(path).spin(8)
        time.sleep(0.02)


if sys.argv[1] == "jit":
    jit()
else:
    library(*sys.argv[2:])
