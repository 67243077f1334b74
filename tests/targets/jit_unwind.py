# SPDX-License-Identifier: MIT
"""Runs in code of LLVM's JIT that has call frame information (uwtable), which Numba's functions have not: a leaf,
its caller, and a comparison that libc calls back. Compiles another function now and then, and drops it again."""
import ctypes
import time

import llvmlite.binding as llvm

TEXT = """
define double @leaf{0}(i64 %n) noinline uwtable {{
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

define double @caller{0}(i64 %n) noinline uwtable {{
  %room = alloca [40 x i64]
  %at = getelementptr [40 x i64], [40 x i64]* %room, i64 0, i64 3
  store volatile i64 %n, i64* %at
  %a = call double @leaf{0}(i64 %n)
  %b = call double @leaf{0}(i64 %n)
  %c = fadd double %a, %b
  ret double %c
}}

define i32 @compare{0}(i32* %a, i32* %b) uwtable {{
  %c = call double @leaf{0}(i64 200)
  %x = load i32, i32* %a
  %y = load i32, i32* %b
  %z = sub i32 %x, %y
  ret i32 %z
}}
"""

llvm.initialize()
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
libc = ctypes.CDLL(None)


def make(number):
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(TEXT.format(number)), machine)
    engine.finalize_object()
    caller = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(engine.get_function_address(f"caller{number}"))
    return engine, caller, engine.get_function_address(f"compare{number}")


kept = make(0)
print("ready", flush=True)
number, other, due = 0, None, 0
while True:
    if time.monotonic() > due:
        number, due = number + 1, time.monotonic() + 2
        other = make(number)
    kept[1](100000)
    numbers = (ctypes.c_int32 * 500)(*((i * 7919) % 500 for i in range(500)))
    libc.qsort(numbers, ctypes.c_size_t(500), ctypes.c_size_t(4), ctypes.c_void_p(kept[2]))
