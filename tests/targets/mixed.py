# SPDX-License-Identifier: MIT
"""Python code and C code that call one another in every way: one target for each name below, sampled by
tests/live/mixed.py.

    mixed.py NAME DIRECTORY MODULE...   the modules are tests/targets/mixed_ext.c as several options made it

What may run from a line on is told behind it. `# call: A B C | D`: from outside in, each alternative ends with
a Python function. What lies between two of them:

    mx_NAME      a function of the module; with *N just that often, one directly below another
    ffi          ctypes and libffi
    sort         the C library, a function that sorts among it
    *            the interpreter's own functions, one or more
    ~            the interpreter's own functions, or none
    E            the same, and an eval loop without a frame
    made         nothing, and the function is a generator's, on its first line: it is made

Between a Python function and C code, and between C code and a Python function, there are always functions of
the interpreter's (but for `~`: where these are jumps). Between two Python functions is nothing (3.11 and later), or (before) what enters the
interpreter again. The innermost part of a stack may end anywhere in an alternative.

Code of a file that is none is called by the file's name; `# file: NAME A` says what runs from it. `# anywhere: NAME` runs below each Python function of its target; `# depth: A B N`: below A there are just N
of A when B is there, and never more.
"""
import ctypes
import functools
import gc
import signal
import sys
import threading
import weakref

gc.disable()
sys.setrecursionlimit(100000)
sys.path.insert(0, sys.argv[2])
MODULES = [__import__(name) for name in sys.argv[3:]]
PATHS = [module.__file__ for module in MODULES]


def spin(n):
    for i in range(n):
        i * i


# --- calls ---

def by_call():
    spin(5)  # call: spin


def by_vector():
    spin(5)  # call: spin


def by_dict():
    spin(5)  # call: spin


def by_frame():
    spin(5)  # call: spin


def by_deep():
    spin(5)  # call: spin


def evaluated():
    spin(5)  # call: spin


class Object:
    def method(self):
        spin(5)  # call: spin

    def __getattr__(self, name):
        spin(5)  # call: spin
        return name

    def __lt__(self, other):
        spin(5)  # call: spin
        return True


# file: evaluated_module evaluated
# file: <string> spin
CODE = compile("evaluated()", "evaluated_module", "exec")


def calls(m):
    thing = Object()
    for _ in range(20):
        m.call(by_call)  # call: mx_call mx_call_2 by_call
        m.vector(by_vector)  # call: mx_vector by_vector
        m.dict(by_dict)  # call: mx_dict ~ by_dict
        m.method(thing)  # call: mx_method method
        m.eval(CODE, {"evaluated": evaluated})  # call: mx_eval evaluated_module
        m.attribute(thing)  # call: mx_attribute __getattr__
        m.compare(thing)  # call: mx_compare __lt__


def frames(m):
    for _ in range(20):
        m.alloca(by_frame)  # call: mx_alloca by_frame
        m.realign(by_frame)  # call: mx_realign by_frame
        m.realign_alloca(by_frame)  # call: mx_realign_alloca by_frame
        m.big(by_frame)  # call: mx_big by_frame
        m.registers(by_frame)  # call: mx_registers by_frame
        m.asm_cfi(by_frame)  # call: mx_asm_cfi mx_asm_cfi_1 mx_call_2 by_frame
        m.deep(by_deep)  # call: mx_deep mx_deep_down*21 by_deep


def bare(m):
    for _ in range(20):
        m.asm_bare(by_frame)  # call: mx_asm_bare mx_asm_bare_1 mx_call_2 by_frame
        m.asm_bare_fp(by_frame)  # call: mx_asm_bare_fp mx_asm_bare_2 mx_call_2 by_frame


# --- recursion: Python -> C -> Python ---

DEPTH = 60
# depth: down bottom 61


def bottom():
    spin(3000)  # call: spin


def down(n, modules):
    if n == 0:
        bottom()  # call: bottom
        return
    modules[n % len(modules)].call(functools.partial(down, n - 1, modules))  # call: mx_call mx_call_2 down


def recursion(m):
    down(DEPTH, MODULES)  # call: down


# --- ctypes ---

libc = ctypes.CDLL(None)
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
APPLY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
NUMBERS = (ctypes.c_int * 8)(3, 1, 2, 8, 5, 7, 4, 6)
LIBRARIES = [ctypes.CDLL(path) for path in PATHS]


def compare(a, b):
    spin(5)  # call: spin
    return 1


def compare_outer(a, b):
    libc.qsort(NUMBERS, 3, 4, COMPARED)  # call: ffi sort ffi compare
    return 1


def applied(i):
    spin(5)  # call: spin
    return i


def applied_outer(i):
    LIBRARIES[0].mx_apply(APPLIED, 3)  # call: ffi mx_apply ffi applied
    return i


COMPARED = COMPARE(compare)
COMPARED_OUTER = COMPARE(compare_outer)
APPLIED = APPLY(applied)
APPLIED_OUTER = APPLY(applied_outer)


def callbacks(m):
    library = LIBRARIES[MODULES.index(m)]
    for _ in range(5):
        libc.qsort(NUMBERS, 8, 4, COMPARED)  # call: ffi sort ffi compare
        libc.qsort(NUMBERS, 3, 4, COMPARED_OUTER)  # call: ffi sort ffi compare_outer
        library.mx_apply(APPLIED, 4)  # call: ffi mx_apply ffi applied
        library.mx_apply(APPLIED_OUTER, 4)  # call: ffi mx_apply ffi applied_outer


# --- generators and coroutines ---

class Await:
    def __await__(self):
        spin(3)  # call: spin
        yield
        spin(3)  # call: spin


def inner(n):
    for i in range(n):
        spin(3)  # call: spin
        yield i


def outer(n):
    spin(3)  # call: spin
    yield from inner(n)  # call: made inner | ~ inner
    spin(3)  # call: spin


def looping(n):
    for i in inner(n):  # call: made inner | ~ inner
        yield i


def catching():
    spin(3)  # call: spin
    try:
        yield 1
    except KeyError:
        spin(3)  # call: spin
    yield 2


def closing():
    try:
        spin(3)  # call: spin
        yield 1
    finally:
        spin(3)  # call: spin


async def waits():
    await Await()  # call: ~ __await__


async def waits_twice():
    spin(3)  # call: spin
    await waits()  # call: made waits | ~ waits


def generators(m):
    for _ in range(10):
        m.iterate(outer(3))  # call: made outer | mx_iterate outer
        m.iterate(looping(3))  # call: made looping | mx_iterate looping
        m.send(outer(3))  # call: made outer | mx_send outer
        m.send(waits_twice())  # call: made waits_twice | mx_send waits_twice
        sum(outer(3))  # call: made outer | * outer
        list(map(key, outer(3)))  # call: * key | made outer | * outer
        some = catching()  # call: made catching
        next(some)  # call: * catching
        m.throw(some)  # call: mx_throw catching
        some = None  # call: * catching
        some = closing()  # call: made closing
        next(some)  # call: * closing
        some.close()  # call: * closing
        some = closing()  # call: made closing
        next(some)  # call: * closing
        some = None  # call: * closing


# --- what the interpreter calls by itself ---

def key(x):
    spin(3)  # call: spin
    return x


class Slots:
    def __init__(self, n):
        spin(n)  # call: spin

    def __new__(cls, n):
        spin(n)  # call: spin
        return super().__new__(cls)

    def __eq__(self, other):
        spin(3)  # call: spin
        return False

    def __hash__(self):
        spin(3)  # call: spin
        return 1

    def __iter__(self):
        spin(3)  # call: spin
        return self

    def __next__(self):
        spin(3)  # call: spin
        raise StopIteration

    def __getitem__(self, i):
        spin(3)  # call: spin
        return i

    def __enter__(self):
        spin(3)  # call: spin

    def __exit__(self, *what):
        spin(3)  # call: spin

    def __call__(self):
        spin(3)  # call: spin

    @property
    def value(self):
        spin(3)  # call: spin


class Plain:
    def __init__(self, n):
        spin(n)  # call: spin


@functools.lru_cache(None)
def cached(x):
    spin(3)  # call: spin


def slots(m):
    for _ in range(20):
        thing = Slots(3)  # call: * __new__ | * __init__
        Plain(3)  # call: ~ __init__
        thing == 1  # call: * __eq__
        {thing: 1}  # call: * __hash__
        list(thing)  # call: * __iter__ | * __next__
        for _ in thing:  # call: * __iter__ | * __next__
            pass
        thing[1]  # call: ~ __getitem__
        with thing:  # call: ~ __enter__ | ~ __exit__
            spin(3)  # call: spin | ~ __exit__
        thing()  # call: ~ __call__
        thing.value  # call: ~ value
        cached.cache_clear()
        cached(1)  # call: * cached
        sorted([2, 1, 3], key=key)  # call: * key
        functools.reduce(functools.partial(compare), [1, 2, 3])  # call: * compare
        eval("spin(3)")  # call: * <string>


# --- destroying ---

def destroyed():
    spin(20)  # call: spin


class Dying:
    def __del__(self):
        destroyed()  # call: destroyed


class Nested:
    def __del__(self):
        makes_dying()  # call: makes_dying | E __del__


class Watched:
    pass


def watched(reference):
    destroyed()  # call: destroyed


def makes_dying():
    dying = Dying()
    spin(3)  # call: spin


def makes_nested():
    nested = Nested()
    spin(3)  # call: spin


def makes_watched():
    dying = Watched()
    dying.reference = None
    REFERENCES[0] = weakref.ref(dying, watched)
    spin(3)  # call: spin


def makes_generator():
    some = closing()  # call: made closing
    next(some)  # call: * closing
    spin(3)  # call: spin


def raises():
    dying = Dying()
    spin(3)  # call: spin
    raise KeyError


def catches():
    try:
        raises()  # call: raises | E __del__
    except KeyError:
        spin(3)  # call: spin | E __del__
    spin(1)  # call: spin


REFERENCES = [None]


def destroying(m):
    for _ in range(20):
        makes_dying()  # call: makes_dying | * __del__
        m.call(makes_dying)  # call: mx_call mx_call_2 makes_dying | mx_call mx_call_2 E __del__
        m.call(makes_nested)  # call: mx_call mx_call_2 makes_nested | mx_call mx_call_2 E __del__
        m.call(makes_watched)  # call: mx_call mx_call_2 makes_watched | mx_call mx_call_2 E watched
        m.call(makes_generator)  # call: mx_call mx_call_2 makes_generator | mx_call mx_call_2 E closing
        m.call(catches)  # call: mx_call mx_call_2 catches
        m.drop(Dying)  # call: mx_drop mx_drop_2 __del__
        m.drop(Nested)  # call: mx_drop mx_drop_2 __del__
        things = [Dying(), Dying(), Dying()]
        things.clear()  # call: * __del__
        things = Dying(), Nested()
        things = None  # call: * __del__
        Dying()  # call: * __del__
        cycle = Dying()
        cycle.me = cycle
        cycle = None
        gc.collect(0)  # call: * __del__
        list(map(drops, [1, 2]))  # call: * drops | E __del__


def drops(x):
    dying = Nested()
    return x


# --- signals ---

def on_signal(number, frame):
    spin(20)  # call: spin


# anywhere: on_signal
def signals(m):
    for i in range(5):
        m.check(signal.SIGUSR1)  # call: mx_check on_signal
        m.raises(signal.SIGUSR1)  # call: mx_raise
        calls(m)  # call: calls
        callbacks(m)  # call: callbacks
        generators(m)  # call: generators


# --- threads ---

def threaded():
    spin(30)  # call: spin


def threads(m):
    m.thread(threaded)  # call: mx_thread
    for _ in range(100):
        m.release(threaded)  # call: mx_release threaded
        calls(m)  # call: calls


def thread_main(i):
    while True:
        threads(MODULES[i % len(MODULES)])  # call: threads


def main():
    name = sys.argv[1]
    run = globals()[name]
    if name == "signals":
        signal.signal(signal.SIGUSR1, on_signal)
        signal.signal(signal.SIGUSR2, on_signal)
        signal.setitimer(signal.ITIMER_PROF, 0.003, 0.003)
        signal.signal(signal.SIGPROF, on_signal)
        MODULES[0].timer(700)
    if name == "threads":
        for i in range(3):
            threading.Thread(target=thread_main, args=(i,), daemon=True).start()
    print("ready", flush=True)
    while True:
        for m in MODULES:
            run(m)  # call: calls | frames | bare | recursion | callbacks | generators | slots | destroying | signals | threads


main()  # call: main
