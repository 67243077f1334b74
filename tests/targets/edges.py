# SPDX-License-Identifier: MIT
"""Short calls of many kinds, most of which end in C within the same few helpers of the interpreter.

    edges.py SECONDS

Prints one JSON object, {function: [[Python functions that it calls], [names of C functions that may run below it, before another
Python function does]]}, then runs. What is not in a list never happens: the program uses no other type, and no type in other places."""
import ctypes
import functools
import itertools
import json
import operator
import re
import sys
import time

DATA = list(range(60))
WORDS = [str(i) for i in DATA]
ONE, LONG = [1], "banana" * 10
KNOWN = {}


def knows(calls="", runs=""):
    def keep(function):
        KNOWN[function.__name__] = [calls.split(), runs.split()]
        return function
    return keep


ITERATES = "list.__iter__ list_iterator.__next__ tuple.__iter__ tuple_iterator.__next__ "
NUMBERS = "int.__add__ int.__sub__ int.__mod__ int.__eq__ int.__neg__ int.__abs__ int.__bool__ int.__hash__ int.__index__ "
ARGUMENTS = "tuple tuple.__add__ tuple.__getitem__ dict dict.copy dict.__setitem__ "


# --- one call, seldom another ---
@knows(runs=NUMBERS)
def identity(x):
    return x


@knows("identity", "len list.__len__")
def site_len(f, x):
    return f(x)


@knows("identity", "sum int.__add__ " + ITERATES)
def site_python(f, x):
    return f(x)


def seldom(site, often, once):
    for i in range(1000):
        site(often if i else once, ONE)


# --- what calls what it was given ---
@knows("identity", "functools.partial.__call__ sum list int.__add__ " + ARGUMENTS + ITERATES)
def site_partial(f):
    return f()


@knows("identity", "abs int.__abs__ int.__neg__ _operator.neg")
def site_number(f):
    return f(-5)


class Holder:
    def method(self, *rest):
        return identity(rest)

    @property
    def value(self):
        return identity(self)

    def __getitem__(self, i):
        return identity(i)

    def __iter__(self):
        return iter(WORDS)

    def __call__(self, x):
        return identity(x)


KNOWN["method"] = KNOWN["value"] = KNOWN["__getitem__"] = KNOWN["__call__"] = [["identity"], []]
KNOWN["__iter__"] = [[], "iter list.__iter__".split()]


@knows("method value __getitem__", "operator.methodcaller.__call__ operator.attrgetter.__call__ operator.itemgetter.__call__ list.count int.__eq__ "
                                   "list.__getitem__ int.__index__ " + ARGUMENTS)
def site_getter(f, x):
    return f(x)


@knows("identity", "list map map.__next__ filter filter.__next__ abs int.__abs__ int.__neg__ str int.__str__ int.__repr__ object.__str__ int.__bool__ "
                   "itertools.accumulate " + ITERATES)
def site_map(f, *rest):
    return list(f(*rest))


@knows("identity", "sorted list.sort list.extend abs int.__abs__ int.__neg__ int.__lt__ int.__eq__ list " + ITERATES)
def site_sorted(key):
    return sorted(DATA, key=key)


# --- iteration, operators ---
@knows("identity produce __iter__", "map.__next__ filter.__next__ zip.__next__ enumerate.__next__ generator.__next__ dict.__iter__ "
       "dict_keyiterator.__next__ int.__bool__ int.__add__ tuple " + ITERATES)
def site_for(it):
    for _ in it:
        pass


@knows("identity", "range range.__iter__ range_iterator.__next__ len list.__len__")
def produce(n):
    for i in range(n):
        yield len(WORDS)


@knows("__getitem__", "list.__getitem__ dict.__getitem__ str.__getitem__ tuple.__getitem__ int.__hash__ int.__eq__ int.__index__ int.__bool__")
def site_item(x):
    return x[3]


@knows("", "list.__contains__ dict.__contains__ str.__contains__ tuple.__contains__ int.__eq__ int.__hash__ str.__eq__ str.__hash__")
def site_in(x, where):
    return x in where


@knows("", "list.__add__ str.__add__ int.__add__ float.__add__ tuple.__add__")
def site_add(a, b):
    return a + b


@knows("", "bool list.__len__ int.__bool__ str.__len__ dict.__len__")
def site_true(x):
    return 1 if x else 2


@knows("wrapped", "")
def outer(*a, **k):
    return wrapped(*a, **k)


@knows("__call__ identity", "sum list max str int.__add__ int.__lt__ int.__repr__ list.__repr__ " + ARGUMENTS + ITERATES)
def wrapped(f, *a, **k):
    return f(*a, **k)


@knows("replace", "re.Pattern.sub re.Pattern.findall str.join list list.__len__ str.__getitem__")
def site_sub(pattern, by):
    return pattern.sub(by, LONG)


@knows("", "re.Match.group str.upper")
def replace(match):
    return match.group(0).upper()


@knows("compare", "_ctypes.CFuncPtr.__call__ _ctypes.PyCFuncPtr.__call__ _ctypes.CFuncType.from_param _ctypes.PyCFuncPtrType.from_param "
       "_ctypes.PyCArrayType.from_param _ctypes._Pointer _ctypes.Array _ctypes.PyCSimpleType.from_param tuple.__getitem__ tuple.__len__ dict.__getitem__ " + NUMBERS)
def site_ctypes(array):
    libc.qsort(array, 24, 4, compare_c)


@knows("", "_ctypes._Pointer.__getitem__ int.__sub__")
def compare(a, b):
    return a[0] - b[0]


libc = ctypes.CDLL(None)
compare_c = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))(compare)
numbers = (ctypes.c_int * 24)(*[i * 7919 % 24 for i in range(24)])
pattern, holder = re.compile("a"), Holder()
partials = [functools.partial(identity, 3), functools.partial(sum, DATA), functools.partial(list, DATA), functools.partial(functools.partial(identity), 4)]
getters = [(operator.methodcaller("method"), holder), (operator.methodcaller("count", 5), DATA), (operator.attrgetter("value"), holder),
           (operator.itemgetter(3), DATA), (operator.itemgetter(3), holder)]


def once():
    seldom(site_len, len, identity)
    seldom(site_python, identity, sum)
    for _ in range(20):
        for f in partials:
            site_partial(f)
        for f in (abs, operator.neg, identity):
            site_number(f)
        for f, x in getters:
            site_getter(f, x)
        for x in (DATA, {3: 4}, "abcdef", (1, 2, 3, 4), holder):
            site_item(x)
        for x in (DATA, {3: 4}, (1, 3)):
            site_in(3, x)
        site_in("a", LONG)
        for x in (DATA, 3, "", {}):
            site_true(x)
        for a, b in ((1, 2), ("a", LONG), (DATA, DATA), (1.5, 2), ((1,), (2,))):
            site_add(a, b)
        for it in (DATA, holder, produce(3), map(identity, DATA), {1: 2}, filter(identity, DATA), zip(DATA, map(identity, DATA)), enumerate(produce(3))):
            site_for(it)
        for f in (sum, list, max, holder, identity):
            outer(f, DATA)
    for f in (identity, abs, str):
        site_map(map, f, DATA)
    site_map(filter, identity, DATA)
    for key in (identity, abs, None):
        site_sorted(key)
    site_sub(pattern, replace)
    site_sub(pattern, "b")
    site_ctypes(numbers)


print(json.dumps(KNOWN), flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    once()
