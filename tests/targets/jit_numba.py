# SPDX-License-Identifier: MIT
"""Compiles functions of known names with Numba, and tells which address is which function.

    jit_numba.py SECONDS DIR [drop]

Lines of JSON on stdout: {"name", "address", "born": [before, after], "died": [before, after] or null,
"code": hex of its first bytes}, times in CLOCK_MONOTONIC ns. With "drop" it makes modules with llvmlite itself,
as Numba never gives one back, and drops most of them. At the end the ELF images on the list, as this process
itself sees them, are written to DIR (ADDRESS.o), and it waits for the end of stdin."""
import ctypes
import json
import random
import sys
import time

import jit_own_list


def told(name, address, born, died=None):
    return {"name": name, "address": address, "born": born, "died": died,
            "code": ctypes.string_at(address, 16).hex()}


def compile_functions(seconds):
    import numba
    import numpy as np
    now = time.monotonic_ns
    end, keep, i = time.monotonic() + seconds, [], 0
    arguments = [1, 2.5, (1, 2.0), np.ones(3), np.ones((2, 2), np.int32)]
    while time.monotonic() < end:
        space = {"np": np}
        body = random.choice(["x + %d", "np.sum(np.asarray(x)) * %d", "[x, x][%d %% 2]"]) % i
        exec("def known_%d(x):\n    return %s\n" % (i, body), space)
        function = numba.njit(debug=i % 7 == 3)(space["known_%d" % i])
        before = now()
        function(random.choice(arguments if "sum" in body else arguments[:2]))
        after = now()
        for result in function.overloads.values():
            for name in (result.fndesc.llvm_func_name, result.fndesc.llvm_cpython_wrapper_name):
                address = result.library.get_pointer_to_function(name)
                print(json.dumps(told(name, address, [before, after])), flush=True)
        if i % 3:
            keep.append(function)
        i += 1
    return keep


def make_and_drop(seconds):
    import llvmlite.binding as llvm
    try:
        llvm.initialize()
    except RuntimeError:  # newer ones do it themselves
        pass
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    now, target = time.monotonic_ns, llvm.Target.from_default_triple()
    end, alive, serial = time.monotonic() + seconds, [], 0
    engines = []

    def drop(item):
        functions, engine, born = item
        # Told only when it is certain what was there until now.
        lines = [told(name, address, born) for name, address in functions]
        before = now()
        engine.close()
        after = now()
        for line in lines:
            line["died"] = [before, after]
            print(json.dumps(line), flush=False)

    while time.monotonic() < end:
        serial += 1
        count = 1 + serial % 4
        text = "".join("define i64 @s%08x_%02u_of_%02u(i64 %%x) {\n %%r = add i64 %%x, %d\n ret i64 %%r\n}\n" %
                       (serial, k, count, serial << 32 | k) for k in range(count))
        module = llvm.parse_assembly(text)
        engine = llvm.create_mcjit_compiler(module, target.create_target_machine(codemodel="jitdefault"))
        before = now()
        engine.finalize_object()
        names = ["s%08x_%02u_of_%02u" % (serial, k, count) for k in range(count)]
        functions = [(name, engine.get_function_address(name)) for name in names]
        alive.append((functions, engine, [before, now()]))
        while len(alive) > (3 if serial % 5000 < 4000 else 200):
            drop(alive.pop(random.randrange(len(alive))))
        if serial % 50 == 0:
            time.sleep(0.03)
    for functions, engine, born in alive:
        engines.append(engine)
        for name, address in functions:
            print(json.dumps(told(name, address, born)), flush=True)
    return engines


def main():
    seconds, directory = float(sys.argv[1]), sys.argv[2]
    import llvmlite.binding  # the module that has the list is mapped before "ready"
    print("ready", flush=True)
    sys.stdin.readline()
    kept = (make_and_drop if "drop" in sys.argv else compile_functions)(seconds)
    n = jit_own_list.write(directory)
    print(json.dumps({"end": n, "kept": len(kept)}), flush=True)
    sys.stdin.read()


main()
