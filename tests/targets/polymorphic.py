"""Calls of many kinds through the same instructions: what the site called before must not be taken for what it calls now.

    polymorphic.py SECONDS

Prints one JSON object, {"between": {Python function: [C functions that may stand between it and the site that called it]}}, then
runs. What Python functions are called burns its time in Python."""
import functools
import json
import sys
import time

clock = time.thread_time
spent = {}


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
    return globals()[name]


LEGAL = {"leaf_plain": [], "__call__": ["Object"], "method": [], "__init__": ["Made"], "leaf_partial": ["functools.partial.__call__"],
         "leaf_key": ["functools.partial.__call__", "sorted", "list.sort"], "leaf_wrapped": ["numpy"]}


def pair(site, one, other, first, second):
    """So many calls of the one, then of the other."""
    f, a = one
    for _ in range(first):
        site(f, a)
    f, a = other
    for _ in range(second):
        site(f, a)


def main():
    orders = [(40, 40), (1, 1), (1000, 1)]
    number = 0
    todo = []
    for form in FORMS:
        for i, p in enumerate(python):
            for j in (i, i + 3, i + 7):
                c = builtin[j % len(builtin)]
                todo += [(make(form, number), c, p, orders[number % 3]), (make(form, number + 1), p, c, orders[(number + 1) % 2])]
                number += 2
    print(json.dumps({"between": LEGAL}), flush=True)
    end = time.time() + float(sys.argv[1])
    while time.time() < end:
        for site, one, other, (first, second) in todo:
            pair(site, one, other, first if first < 1000 else 200, second)
            if time.time() > end:
                break
    print(json.dumps(spent), flush=True)


main()
