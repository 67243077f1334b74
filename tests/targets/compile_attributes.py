# SPDX-License-Identifier: MIT
"""A compiler whose units, phases and passes are named by attributes of objects that are made for the call and freed with it: the next call's
object, and its text, mostly lie where these lay. Rules: tests/live/names_of_texts.py.

    compile_attributes.py MS COMPILES THREADS

As compile_texts.py, with ways to have an attribute in place of ways to make a text. The first compile of each way is a long one."""
import dataclasses
import threading
import time

from named_compiles import COMPILES, FIRST, GAPS, LEVELS, MS, PASS, PHASE, UNIT, Text, main, spin


class Plain:
    def __init__(self, name):
        self.first, self.name = 1, name


class Derived(Plain):
    version = 1

    def __init__(self, name):
        super().__init__(name)
        self.last = None
        Derived.version += 1  # its class changes with each object


class Seen:
    """Its dictionary was asked for."""

    def __init__(self, name):
        self.__dict__["name"] = name
        self.__dict__["other"] = 1


class Wide:
    """So many attributes that they are in no shared dictionary."""

    def __init__(self, name):
        for i in range(40):
            setattr(self, "a%d" % i, i)
        self.name = name


class Slots:
    __slots__ = ("first", "name")

    def __init__(self, name):
        self.name = name


class Both(Slots):
    """A slot of its base, and a dictionary."""

    def __init__(self, name):
        super().__init__(name)
        self.other = 1


@dataclasses.dataclass
class Data:
    name: str
    other: int = 0


class Mapping(dict):
    def __init__(self, name):
        super().__init__(name=1)
        self.name = name


class Holder:
    def __init__(self, name):
        self.inner = Slots(name)


class Outer:
    def __init__(self, name):
        self.kernel = Plain(name)


class Defaulted:
    """Its class has the attribute, too."""
    name = "none"

    def __init__(self, name):
        self.name = name


KEPT = threading.local()


def reused(name):
    """One object, whose attribute changes."""
    if not hasattr(KEPT, "object"):
        KEPT.object = Plain(name)
    KEPT.object.name = name
    return KEPT.object


def text(i):
    return "kernel_%06d" % i


WAYS = [
    lambda i: Plain(text(i)),
    lambda i: Derived(text(i)),
    lambda i: Seen(text(i)),
    lambda i: Wide(text(i)),
    lambda i: Slots(text(i)),
    lambda i: Both(text(i)),
    lambda i: Data(text(i)),
    lambda i: Mapping(text(i)),
    lambda i: Defaulted(text(i)),
    lambda i: Plain(Text(text(i))),
    lambda i: Slots("\u044f\u0434\u0440\u043e_%06d" % i),
    lambda i: Plain("kernel" + "_" * 300 + "%06d" % i),
    lambda i: Plain(2000000000 + i),
    lambda i: reused(text(i)),
]
NAMES = {10: "\u044f\u0434\u0440\u043e_%06d", 11: "kernel" + "_" * 300 + "%06d"}


REUSED = len(WAYS) - 1


def inside(way):
    """Of a compile in a compile: the one object is the outer one's."""
    return 0 if way == REUSED else way


def name_of(kind, way, i):
    return str(2000000000 + i) if way == 12 else NAMES.get(way, "kernel_%06d") % i


def polish(kernel, log, way, i, ms):
    begin = time.monotonic_ns()
    spin(ms)
    log.put(PASS, way, i, begin)


def lower(log, way, i, ms):
    holder = Outer(text(i))
    begin = time.monotonic_ns()
    polish(WAYS[inside(way)](i + 1), log, inside(way), i + 1, ms)
    log.put(PHASE, 0, i, begin)


def analyse(holder, log, i, ms):
    begin = time.monotonic_ns()
    yield spin(ms)
    log.put(PHASE, 0, i, begin)


def needed(kernel, log, way, i, ms):
    begin = time.monotonic_ns()
    list(analyse(Holder(text(i + 1)), log, i + 1, ms / 2))
    lower(log, way, i + 2, ms / 2)
    log.put(UNIT, way, i, begin)


def build(kernel, log, way, i, ms, of=UNIT):
    begin = time.monotonic_ns()
    lower(log, way, i + 1, ms * 0.3)
    needed(WAYS[inside(way)](i + 3), log, inside(way), i + 3, ms * 0.4)
    list(analyse(Holder(text(i + 6)), log, i + 6, ms * 0.3))
    log.put(of, way, i, begin)


def compiles(log, number):
    n = number
    for way in range(len(WAYS)):
        for i in range(COMPILES + 1):
            n += LEVELS
            # How the tick gets there is known once an object of the class has been sampled.
            build(WAYS[way](n), log, way, n, MS if i else 200, UNIT if i else FIRST)
            if GAPS[i % len(GAPS)]:
                time.sleep(GAPS[i % len(GAPS)])


main(compiles, name_of)
