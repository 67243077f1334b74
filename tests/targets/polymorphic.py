# SPDX-License-Identifier: MIT
"""Calls of many kinds through the same instructions: what the site called before must not be taken for what it calls now.

    polymorphic.py SECONDS

Prints one JSON object, {"between": {Python function: [C functions that may stand between it and the site that called it]}, "first": {Python
function: the one of these that the site itself called, if only that one}, "leaf": {site:
[names that what it calls may have where no Python function is below it]}, "sure": {site: number of the C function that alone may have them}}, then runs. What Python functions are
called burns its time in Python. At SIGUSR1 it prints the CPU seconds of each C function in sites that are sure."""
import functools
import json
import os
import signal
import sys
import time

clock = time.thread_time
spent, c_spent = {}, {}


def burn(name, seconds=0.0005):
    begin = now = clock()
    while now - begin < seconds:
        for _ in range(20):
            pass
        now = clock()
    spent[name] = spent.get(name, 0) + now - begin


def leaf_plain(*a, **k):
    burn("leaf_plain")


class Object:
    def __call__(self, *a, **k):
        leaf_object()

    def method(self, *a, **k):
        leaf_method()


class Made:
    def __init__(self, *a, **k):
        leaf_made()


def leaf_object():
    burn("leaf_object")


def leaf_method():
    burn("leaf_method")


def leaf_made():
    burn("leaf_made")


def leaf_partial(*a, **k):
    burn("leaf_partial")


def leaf_key(x):
    burn("leaf_key", 0.0002)
    return x


def leaf_wrapped(*a):
    burn("leaf_wrapped")
    return a[0]


numbers = list(range(20000))
text = "hello, World " * 4000
three = [3, 1, 2]
by_key = functools.partial(sorted, key=leaf_key)
builtin = [(sum, (numbers,)), (len, (numbers,)), (max, (numbers,)), (sorted, (numbers,)), (str.upper, (text,)), (repr, (numbers[:2000],)),
           (numbers.count, (3,)), (text.split, (",",)), (list, (numbers,)), (functools.partial(sum), (numbers,)), (int, ("9" * 400,))]
python = [(leaf_plain, (three,)), (Object(), (three,)), (Object().method, (three,)), (Made, (three,)), (functools.partial(leaf_partial), (three,)),
          (by_key, (three,))]
if sys.version_info >= (3, 9):
    builtin.append((list[int], (numbers,)))
try:
    import numpy
    block = numpy.arange(20000.0)
    builtin += [(numpy.sin, (block,)), (numpy.add.reduce, (block,))]
    python += [(numpy.frompyfunc(leaf_wrapped, 1, 1), (numpy.array([1], dtype=object),))]
except ImportError:
    pass

FORMS = {"position": "f(a[0])", "star": "f(*a)", "keyword": "f(*a, **k)"}


def make(form, number):
    name = "site_%s_%d" % (form, number)
    exec(compile("def %s(f, a, k={}):\n    return %s\n" % (name, FORMS[form]), __file__, "exec"), globals())
    return globals()[name], name


LEGAL = {"leaf_plain": [], "__call__": ["Object"], "method": [], "__init__": ["Made"], "leaf_partial": ["functools.partial.__call__"],
         "leaf_key": ["functools.partial.__call__", "sorted", "list.sort"], "leaf_wrapped": ["numpy"]}
FIRST = {"leaf_key": "functools.partial.__call__"}


# What the site itself called: the outermost C function. As `builtin` and `python` have them.
C_NAMES = [["sum"], ["len"], ["max"], ["sorted"], ["str.upper"], ["repr"], ["list.count"], ["str.split"], ["list"], ["functools.partial.__call__"], ["int"],
           *[["types.GenericAlias.__call__"]] * (sys.version_info >= (3, 9)), ["numpy.ufunc.__call__", "<ufunc 'sin'>"], ["numpy.ufunc.reduce"]]
PYTHON_NAMES = [[], ["Object", "Object.__call__"], [], ["Made", "Made.__init__"], ["functools.partial.__call__"], ["functools.partial.__call__"],
                ["numpy.ufunc.__call__", "<ufunc 'leaf_wrapped (vectorized)'>"]]


def calls(site, what, n, number):
    f, a = what
    begin = clock()
    for _ in range(n):
        site(f, a)
    if number is not None:
        c_spent[number] = c_spent.get(number, 0) + clock() - begin


def main():
    orders = [(40, 40), (1, 1), (1000, 1)]
    number = 0
    todo, leaf, sure = [], {}, {}
    for form in FORMS:
        for i, p in enumerate(python):
            for j in (i, i + 3, i + 7):
                k = j % len(builtin)
                c = builtin[k]
                for first in (True, False):
                    site, name = make(form, number)
                    order = orders[number % 3] if first else orders[number % 2]
                    leaf[name] = C_NAMES[k] + PYTHON_NAMES[i] + ["tuple.__getitem__"] * (form == "position")
                    # Where both may be called the same, or both take their time in C, the C function's time is not known apart.
                    alone = k if i != 5 and not set(C_NAMES[k]) & set(PYTHON_NAMES[i]) else None
                    if alone is not None:
                        sure[name] = k
                    todo.append((site, c, p, alone, None, order) if first else (site, p, c, None, alone, order))
                    number += 1
    # One write: another signal may come meanwhile, and print() does not bear that.
    signal.signal(signal.SIGUSR1, lambda *_: os.write(1, (json.dumps(c_spent) + "\n").encode()))
    print(json.dumps({"between": LEGAL, "first": FIRST, "leaf": leaf, "sure": sure}), flush=True)
    end = time.time() + float(sys.argv[1])
    while time.time() < end:
        for site, one, other, one_is, other_is, (first, second) in todo:
            calls(site, one, first if first < 1000 else 200, one_is)
            calls(site, other, second, other_is)
            if time.time() > end:
                break
    print(json.dumps(spent), flush=True)


main()
