# SPDX-License-Identifier: MIT
"""A package of our own with the names and frames of Numba's, for any CPython: after a line came on stdin it "compiles", and
tells what. What is read of its objects lies in all the ways that CPython has: a dictionary that keys are shared of, one
that is a real one, slots, the class, cells, a tuple, a list, a dictionary, whole numbers.

The last line on stdout is JSON: [[kind, name, signature, begin, end (CLOCK_MONOTONIC ns)]], 0 a compile, 1 a phase."""
import json
import os
import sys
import tempfile
import time

COMPILER = '''
def compile_extra(typingctx, targetctx, func, args, return_type, flags, body):
    return body()

def compile_internal(typingctx, targetctx, library, func, args, return_type, flags, body):
    def kept():                     # func and args are cells
        return func, args
    return body()

def compile_ir(typingctx, targetctx, func_ir, args, body):
    return body()

class CompilerBase:
    def compile_extra(self, func, body):
        return body()
'''
MACHINERY = '''
class PassManager:
    def run(self, index, state, body):
        pass_inst = state
        return self._runPass(index, pass_inst, body)

    def _runPass(self, index, pss, internal_state):
        def check(body):
            return body(), pss
        return check(internal_state)
'''


def module(folder, path, text):
    names = {"__name__": path[:-3].replace("/", ".")}
    exec(compile(text, os.path.join(folder, path), "exec"), names)
    return names


class Plain:
    def __init__(self, name):
        self.other = 1
        self.name = name


class Slotted:
    __slots__ = ("first", "name")

    def __init__(self, name):
        self.name = name


class Shared:
    name = "of the class"


class Inherits(Shared):
    pass


class FunctionId:
    def __init__(self, name):
        self.func_qualname = name
        self.code = FunctionId.__init__.__code__


class FunctionIr:
    def __init__(self, name):
        self.func_id = FunctionId(name)


class Pass:
    _name = "one"

    def __init__(self, own=None):
        if own:
            self._name = own


def busy(ms):
    def run():
        until = time.thread_time_ns() + ms * 1000000
        while time.thread_time_ns() < until:
            sum(range(200))
    return run


def materialised(name):
    plain = Plain(name)
    plain.__dict__["more"] = plain.__dict__  # a real dictionary, and it holds itself
    for i in range(40):
        setattr(plain, "a%d" % i, i)
    return plain


def dictionary(*names):
    """One in which something was deleted."""
    made = {("a", name): Plain(name) for name in names}
    del made["a", "gone"]
    return made


def main():
    with tempfile.TemporaryDirectory() as folder:
        compiler = module(folder, "numba/core/compiler.py", COMPILER)
        machinery = module(folder, "numba/core/compiler_machinery.py", MACHINERY)
    manager, method = machinery["PassManager"](), compiler["CompilerBase"]()
    done, alive = [], []

    def count(kind, name, signature, call):
        row = [kind, name, signature, time.monotonic_ns(), 0]
        done.append(row)
        call()
        row[4] = time.monotonic_ns()

    def outer():
        def local(x):
            return x
        return local

    def phases(*names):
        def run():
            for i, name in enumerate(names):
                own = Pass(name if i % 2 else None)
                alive.append(own)  # as a compiler has its passes: what only the frame holds may be gone when it is read
                count(1, own._name, "", lambda: manager.run(i, own, busy(6)))
        return run

    plain, slotted, greek = Plain("int64"), Slotted("float64"), Plain("\u03b1\u03b2")
    one = [(outer(), (plain, slotted), "int64, float64"), (outer(), [greek, Plain("caf\xe9")], "\u03b1\u03b2, caf\xe9"),
           (main, (Inherits(), materialised("a real one")), "of the class, a real one"), (Plain.__init__, (), ""),
           (materialised, dictionary(5, "gone", 0, -(1 << 40), True, 1 << 70), "5, 0, -1099511627776, True, int")]
    print("ready", flush=True)
    sys.stdin.readline()
    # The sampler is told which locals to give some 20 ms after it met a code object.
    for entry in "compile_extra", "compile_internal":
        given = [0] * (3 if entry == "compile_internal" else 2)
        compiler[entry](*given, main, (), 0, 0, lambda: method.compile_extra(0, lambda: manager.run(0, Pass(), busy(150))))
    compiler["compile_ir"](0, 0, FunctionIr("first"), (), busy(150))
    for of_class in "of the class", "set above", "of its own":
        if of_class != Inherits.name:  # what was known of the class is not so any more
            time.sleep(0.5)  # what is to be read of it still is read by then
            (Shared if of_class == "set above" else Inherits).name = of_class
            Pass._name = "one, " + of_class
        for func, args, signature in one:
            signature = signature.replace("of the class", of_class)
            if isinstance(args, tuple):
                args = tuple(list(args))  # one that was not seen before
                alive.append(args)
            for entry in "compile_extra", "compile_internal":
                given = {"typingctx": 0, "targetctx": 0, "library": 0, "func": func, "args": args, "return_type": 0, "flags": 0}
                if entry == "compile_extra":
                    del given["library"]
                body = phases("", "two", "", "four")
                count(0, func.__qualname__, signature,
                      lambda: compiler[entry](body=lambda: method.compile_extra(func, body), **given))
            alive.append(FunctionIr(func.__qualname__))
            count(0, func.__qualname__, signature, lambda: compiler["compile_ir"](0, 0, alive[-1], args, busy(8)))
    time.sleep(0.2)
    print(json.dumps(done), flush=True)


main()
