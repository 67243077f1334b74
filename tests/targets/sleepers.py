# SPDX-License-Identifier: MIT
"""Threads that sleep at known places: recursion, locks, generators, coroutines, C calls, a subinterpreter.

Prints one line of JSON: for each thread its name, threading.get_ident() and the frames that
sys._current_frames() shows, innermost first; then sleeps on.
"""
import json
import sys
import threading
import time
import traceback

FOREVER = 1000000
lock = threading.Lock()
lock.acquire()
ready = threading.Semaphore(0)
idents = {}
inner_stacks = {}


def announce():
    idents[threading.current_thread().name] = threading.get_ident()
    ready.release()


def sleep():
    announce()
    time.sleep(FOREVER)


def recursion(depth):
    if depth:
        recursion(depth - 1)
    else:
        sleep()


def on_lock():
    announce()
    with lock:
        pass


def numbers(n):
    for i in range(n):
        if i == 2:
            sleep()
        yield i


def delegating(n):
    yield from numbers(n)


def in_generator():
    for _ in delegating(5):
        pass


def in_c_over_generator():
    return sum(x for x in delegating(5))


async def leaf():
    sleep()


async def middle():
    await leaf()


async def agen():
    yield 1
    await middle()
    yield 2


async def top():
    async for _ in agen():
        pass


def in_coroutine():
    top().send(None)


def thrown_into():
    def catches():
        try:
            yield
        except KeyError:
            sleep()

    def outer():
        yield from catches()

    g = outer()
    next(g)
    g.throw(KeyError("x"))


def through_c():
    list(map(lambda x: sorted([2, 1], key=lambda y: sleep()), [1]))


class Meta(type):
    def __call__(cls, *args):
        return super().__call__(*args)


class Thing(metaclass=Meta):
    def __init__(self):
        self.value

    def __getattr__(self, name):
        with self:
            return name

    def __enter__(self):
        sleep()

    def __exit__(self, *args):
        pass


def generated():
    exec("def f(n):\n\n  return [s() for _ in range(n)]\n", {"s": sleep}, globals())
    f(1)  # noqa


def long_lines():
    source = "def g():\n" + "".join("  x%d = %d\n" % (i, i) for i in range(3000)) + "  s()\n"
    namespace = {"s": sleep}
    exec(compile(source, "<long>", "exec"), namespace)
    namespace["g"]()


def deep():
    sys.setrecursionlimit(5000)
    recursion(900)


INNER = """
import sys, time

def walk(frame):
    while frame:
        yield [frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno]
        frame = frame.f_back

def inner(n):
    if n:
        return inner(n - 1)
    import json
    # The line that sleeps is the last one below.
    stack = list(walk(sys._getframe()))
    stack[0][2] = sys._getframe().f_lineno + 3
    with open(%r, "w") as f:
        json.dump(stack, f)
    time.sleep(%d)

inner(3)
"""


def subinterpreter(path):
    announce()
    try:
        import _interpreters as interpreters  # 3.13+
    except ImportError:
        import _xxsubinterpreters as interpreters
    interpreters.run_string(interpreters.create(), INNER % (path, FOREVER))


def stack(frame):
    return [[f.f_code.co_name, f.f_code.co_filename, line or 0] for f, line in traceback.walk_stack(frame)]


def report(expected):
    for _ in range(expected):
        ready.acquire()
    time.sleep(0.5)
    frames = sys._current_frames()
    print(json.dumps([[name, ident, stack(frames[ident])] for name, ident in idents.items()]), flush=True)
    time.sleep(FOREVER)


def start(function, *args):
    threading.Thread(target=function, args=args, name=function.__name__, daemon=True).start()


def main():
    sleepers = [on_lock, in_generator, in_c_over_generator, in_coroutine, thrown_into, through_c, Thing,
                generated, long_lines, deep]
    for function in sleepers:
        start(function)
    start(recursion, 40)
    if len(sys.argv) > 1:
        start(subinterpreter, sys.argv[1])
    start(report, len(sleepers) + 2 + (len(sys.argv) > 1))
    sleep()


main()
