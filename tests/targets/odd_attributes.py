# SPDX-License-Identifier: MIT
"""As compile_attributes.py, of objects whose attribute is found in other ways, or comes, goes and moves: a name that is told must be what
getattr() gives; of what Python computes there is none. Rules: tests/live/names_of_odd_attributes.py.

    odd_attributes.py MS COMPILES THREADS"""
import time

from named_compiles import COMPILES, FIRST, GAPS, LEVELS, MS, UNIT, main, spin


class Plain:
    def __init__(self, name):
        self.first, self.name = 1, name


class Instead:
    """Another one's objects become its."""
    def __init__(self, name):
        self.name, self.first = name, 2


class Hidden:
    """What the instance has is not what getattr() gives."""
    def __init__(self, name):
        self.__dict__["name"] = "stale"
        self.real = name

    @property
    def name(self):
        return self.real


class Descriptor:
    def __get__(self, object, of):
        return object.real

    def __set__(self, object, value):
        object.real = value


class Described:
    name = Descriptor()

    def __init__(self, name):
        self.__dict__["name"] = "stale"
        self.real = name


class Computed:
    def __init__(self, name):
        self.name, self.real = "stale", name

    def __getattribute__(self, name):
        return object.__getattribute__(self, "real" if name == "name" else name)


class Missing:
    """Its class has no such attribute."""
    def __init__(self, name):
        self.real = name

    def __getattr__(self, name):
        return self.real


class Meta(type):
    def __getattribute__(cls, name):
        return type.__getattribute__(cls, "real" if name == "name" else name)


class MetaProperty(type):
    @property
    def name(cls):
        return cls.real


class Slots:
    __slots__ = ("first", "name")

    def __init__(self, name):
        self.name = name


def replaced(name):
    it = Plain("stale")
    it.__dict__ = {"name": name}
    return it


def swapped(name):
    """Its dictionary was taken away; another one still has it."""
    it = Plain("stale")
    it.kept = vars(it)
    kept = it.kept
    del it.__dict__
    KEPT.append(kept)
    del KEPT[:-4]
    it.name = name
    return it


class Fallback:
    name = "other"

    def __init__(self, name):
        self.name = name


KEPT = []


def emptied(name):
    """What getattr() gives is the class's, as the instance has no attributes any more."""
    it = Fallback("stale")
    KEPT.append(vars(it))
    del KEPT[:-4]
    del it.__dict__
    return it


def deleted(name):
    it = Fallback("stale")
    vars(it)
    del it.name
    return it


def deleted_inline(name):
    it = Fallback("stale")
    del it.name
    return it


def combined(name):
    it = Plain("stale")
    it.second = 2
    del it.first
    it.name = name
    return it


def moved(name):
    """Its key comes after others now."""
    it = Plain("stale")
    del it.name
    it.third = 3
    it.name = name
    return it


def other_class(name):
    it = Plain(name)
    it.__class__ = Instead
    return it


def text(i):
    return "kernel_%06d" % i


def of_class(meta):
    return lambda name: meta("Class", (), {"real": name})


class MetaBoth(type):
    """A class whose metaclass has a data descriptor of the name that the class has, too."""
    name = property(lambda cls: cls.real)


WAYS = [replaced, swapped, emptied, deleted, deleted_inline, combined, moved, other_class, Slots,
        Hidden, Described, Computed, Missing, of_class(Meta), of_class(MetaProperty),
        lambda name: MetaBoth("Class", (), {"real": name, "name": "stale"}), lambda name: Meta("Class", (), {"real": name, "name": "stale"})]
FIXED = {2: "other", 3: "other", 4: "other"}


def name_of(kind, way, i):
    return FIXED.get(way, text(i))


def build(kernel, log, way, i, ms, of=UNIT):
    begin = time.monotonic_ns()
    assert kernel.name == name_of(of, way, i)
    spin(ms)
    log.put(of, way, i, begin)


def compiles(log, number):
    n = number
    for way, make in enumerate(WAYS):
        for i in range(COMPILES + 1):
            n += LEVELS
            build(make(text(n)), log, way, n, MS if i else 100, UNIT if i else FIRST)
            if GAPS[i % len(GAPS)]:
                time.sleep(GAPS[i % len(GAPS)])


main(compiles, name_of)
