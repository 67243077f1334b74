# SPDX-License-Identifier: MIT
"""Python frames that come by unusual ways: generators that one thread makes and others resume, interpreters within threads, code objects under
other names, tracing, threads that Python did not begin, finalizers. Behind a line stands what may run from it:

    # call: f g      these Python functions, and no others
    # runs: f        these C functions, by their Python names, and no others
    # anywhere: f    these Python functions may run from any line

Functions named NAME_3 call, of functions that are named so, those of the same number only."""
import ctypes
import os
import queue
import sys
import threading
import time
import types

LEVELS = 12


def burn(n):
    for i in range(n):
        n ^= i
    return n


# --- generators that go from thread to thread ---
class Stop(Exception):
    pass


def base():
    try:
        while True:
            try:
                burn(40)  # call: burn
                yield 1
            except Stop:
                burn(40)  # call: burn
                yield 2
    finally:
        burn(40)  # call: burn


def level(n):
    if n:
        yield from level(n - 1)  # call: level
    else:
        yield from base()  # call: base


class Pause:
    def __await__(self):
        burn(20)  # call: burn
        yield


async def paused(n):
    if n:
        await paused(n - 1)  # call: paused
    else:
        for _ in range(3):
            await Pause()  # call: __await__


def resume(generator):
    for _ in range(3):
        next(generator)  # call: level # runs: next
        generator.send(None)  # call: level # runs: generator.send
    generator.throw(Stop())  # call: level base # runs: generator.throw


def close(generator):
    generator.close()  # call: level base # runs: generator.close


def drop(generators):
    generators.clear()  # call: level base # runs: list.clear


def drive(coroutine):
    try:
        while True:
            coroutine.send(None)  # call: paused # runs: coroutine.send StopIteration
    except StopIteration:
        pass


def pass_on(take, give):
    for n in range(10**9):
        generator = level(LEVELS)  # call: level
        next(generator)  # call: level # runs: next
        give.put(generator)  # call: put
        generator = take.get()  # call: get level base
        resume(generator)  # call: resume
        if n % 2:
            close(generator)  # call: close
        generators = [generator]
        generator = None  # call: level base
        drop(generators)  # call: drop
        drive(paused(5))  # call: drive paused


# --- interpreters ---
SCRIPT = """
def burn_{n}(n):
    for i in range(n):
        n ^= i
def key_{n}(x):
    burn_{n}(100)
    return x
def down_{n}(n):
    if n:
        down_{n}(n - 1)
    else:
        sorted([2, 1], key=key_{n})
        burn_{n}(100)
down_{n}(5)
"""


def run(interpreter, n):
    burn(20)  # call: burn
    interpreters[1](interpreter, SCRIPT.format(n=n))  # call: <module>


def find_interpreters():
    """How to make one, and how to run code in it."""
    try:
        import _interpreters as module
        return (lambda: module.create("legacy")), module.exec
    except ImportError:
        import _xxsubinterpreters as module
        return (lambda: module.create(isolated=False) if sys.version_info >= (3, 9) else module.create()), module.run_string


def within(first, made):
    interpreters_here = [interpreters[0](), interpreters[0]()]  # up to 3.10 they are of the thread that makes them
    made.wait()  # call: wait
    while True:
        for n in range(20):
            for i, interpreter in enumerate(interpreters_here):
                run(interpreter, 1000 * first + 100 * i + n)  # call: run


# --- code under other names ---
NAMES = [key for key in ("co_name", "co_qualname") if hasattr(burn.__code__, key)]


def template(inner=None):
    return inner() if inner else burn(60)


def named(n):
    inner = None
    for name in ("third", "second", "first"):
        names = dict.fromkeys(NAMES, "%s_%d" % (name, n))
        code = template.__code__.replace(co_filename="/of/%d" % n, co_firstlineno=n, **names)
        inner = types.FunctionType(code, globals(), "other", (inner,))
    return inner


def odd():
    burn(30)  # call: burn
    swapped.__code__ = even.__code__
    burn(30)  # call: burn


def even():
    burn(40)  # call: burn
    swapped.__code__ = odd.__code__
    burn(40)  # call: burn


swapped = types.FunctionType(odd.__code__, globals(), "swapped")


def renames():
    for n in range(10**9):
        named(n % 1000)()  # call: named first
        swapped()  # call: odd even


# --- tracing, foreign threads, finalizers ---
# anywhere: profiler __del__ _remove
def profiler(frame, event, arg):
    burn(3)  # call: burn


def traced(n):
    burn(10)  # call: burn
    if n:
        traced(n - 1)  # call: traced
    return n


THREAD = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def foreign(argument):
    burn(100)  # call: burn
    sorted([2, 1], key=key)  # call: key # runs: sorted
    return 0


def key(x):
    burn(50)  # call: burn
    return x


foreign_c = THREAD(foreign)
libc = ctypes.CDLL(None)


def spawn():
    thread = ctypes.c_ulong()
    libc.pthread_create(ctypes.byref(thread), None, foreign_c, None)
    libc.pthread_join(thread, None)


def steps():
    try:
        yield 1
    finally:
        burn(100)  # call: burn


def ends_early():
    return any(x for x in steps())  # call: <genexpr> steps # runs: any generator.__next__


class Dying:
    def __del__(self):
        burn(50)  # call: burn


def fails(n):
    dying = Dying()
    try:
        if n:
            fails(n - 1)  # call: fails
        raise KeyError(n)
    finally:
        burn(20)  # call: burn


def others():
    while True:
        sys.setprofile(profiler)
        traced(3)  # call: traced
        sys.setprofile(None)
        spawn()  # call: spawn
        ends_early()  # call: ends_early
        try:
            fails(5)  # call: fails
        except KeyError:
            pass


def main():
    there, back = queue.Queue(), queue.Queue()
    jobs = [(pass_on, there, back), (pass_on, back, there), (renames,), (others,)]
    if interpreters:
        made = threading.Barrier(3)
        jobs += [(within, 1, made), (within, 2, made)]
    for job, *arguments in jobs:
        threading.Thread(target=job, args=arguments, daemon=True).start()
    if interpreters:
        made.wait()
    print("{}", flush=True)
    time.sleep(float(sys.argv[1]))
    os._exit(0)  # while interpreters and threads are there


try:
    interpreters = find_interpreters()
except ImportError:
    interpreters = None
sys.setswitchinterval(0.001)
main()  # call: main
