# SPDX-License-Identifier: MIT
"""Calls C functions in loops, each in a function of its own and in every way that Python has: what is called is known.

    callees.py SECONDS

Prints one JSON object, {name of the function that calls: [name of the callee, ways through it, [[first offset, end], ...] of
the instructions that call]}, then runs. Names are Python's own: module and qualified name of the callee; "": it is no C function."""
import array
import binascii
import bisect
import collections
import dis
import functools
import hashlib
import itertools
import json
import marshal
import math
import operator
import random
import struct
import sys
import time
import zlib

import _json

words = ["w%d" % (i * 7919 % 10007) for i in range(400)]
numbers = [i * 7919 % 10007 for i in range(400)]
pairs = [(w, i) for i, w in enumerate(words)]
text = "hello, World " * 200
data = text.encode()
table = dict(pairs)
packed = marshal.dumps(numbers)
big, big2 = 3 ** 900, 7 ** 500
half = set(words[:200])
whole = set(words)
array_i = array.array("i", numbers)
deque = collections.deque(numbers)
floats = [x * 0.5 for x in numbers]

# expression, callee; "positional", "keyword" and so on by its form.
PLAIN = [
    ("sorted(numbers)", sorted), ("sorted(numbers, reverse=True)", sorted), ("len(text)", len), ("sum(numbers)", sum),
    ("max(numbers)", max), ("min(numbers)", min), ("max(words, default=0)", max), ("any(zeros)", any), ("all(numbers1)", all),
    ("repr(numbers)", repr), ("hash(tuple400)", hash), ("ord(letter)", ord), ("chr(8364)", chr), ("abs(big)", abs),
    ("pow(7, 900, 10007 ** 20)", pow), ("divmod(big, big2)", divmod), ("round(2.567, 1)", round), ("isinstance(text, other)", isinstance),
    ("getattr(text, 'upper')", getattr), ("format(big, 'x')", format), ("bin(big)", bin), ("hex(big)", hex),
    ("list(table)", list), ("tuple(numbers)", tuple), ("set(words)", set), ("dict(pairs)", dict), ("str(big)", str), ("bytes(numbers8)", bytes),
    ("frozenset(words)", frozenset), ("bytearray(data)", bytearray), ("int(digits)", int), ("float(digits)", float),
    ("numbers.copy()", list.copy), ("numbers.index(-1, 0, 0) if 0 else numbers.count(3)", list.count), ("numbers2.sort()", list.sort),
    ("numbers2.sort(reverse=False)", list.sort), ("numbers2.reverse()", list.reverse),
    ("text.split(',')", str.split), ("text.upper()", str.upper), ("text.replace('o', 'oo')", str.replace), ("text.find('xyz')", str.find),
    ("text.encode('utf-16')", str.encode), ("comma.join(words)", str.join), ("text.startswith('x')", str.startswith), ("text.title()", str.title),
    ("text.strip('hd ')", str.strip), ("text.translate(letters)", str.translate), ("'{} {}'.format(text, big)", str.format),
    ("data.decode('latin-1')", bytes.decode), ("data.hex()", bytes.hex), ("table.copy()", dict.copy), ("table.items()", dict.items),
    ("dict.fromkeys(words)", dict.fromkeys), ("half.union(words)", set.union), ("half.issubset(whole)", set.issubset),
    ("whole.difference(half)", set.difference), ("big.bit_length()", int.bit_length), ("big.to_bytes(400, 'little')", int.to_bytes),
]
EXTENSIONS = [
    ("zlib.crc32(data)", zlib.crc32), ("zlib.compress(data, 1)", zlib.compress), ("binascii.hexlify(data)", binascii.hexlify),
    ("math.factorial(60)", math.factorial), ("math.fsum(floats)", math.fsum), ("struct.pack('400i', *numbers)", struct.pack),
    ("struct.unpack(form, raw)", struct.unpack), ("marshal.loads(packed)", marshal.loads), ("marshal.dumps(numbers)", marshal.dumps),
    ("_json.encode_basestring_ascii(text)", _json.encode_basestring_ascii), ("array_i.tolist()", array.array.tolist),
    ("deque.copy()", collections.deque.copy), ("bisect.bisect_left(numbers, 5000)", bisect.bisect_left),
]
SLOTS = [
    ("text + text", "str.__add__"), ("numbers * 9", "list.__mul__"), ("'xyz' in words", "list.__contains__"), ("big * big2", "int.__mul__"),
    ("big // big2", "int.__floordiv__"), ("half | whole", "set.__or__"), ("array_i + array_i", "array.array.__add__"),
    ("text % ()", "str.__mod__"), ("numbers[2:300]", "list.__getitem__"),
]
# Through something that calls what it was given: what it hands on to, and what else may be at work meanwhile.
THROUGH = [
    ("part_sorted(numbers)", sorted, ["functools.partial.__call__"]),
    ("part_split(',')", str.split, ["functools.partial.__call__"]),
    ("consume(map(repr, lists), 0)", repr, ["map.__next__", "collections.deque", "map"]),
    ("consume(map(str.upper, texts), 0)", str.upper, ["map.__next__", "collections.deque", "map"]),
    ("starred(*ones)", sorted, []), ("starred(numbers, **reverse)", sorted, []), ("bound()", list.copy, []),
    ("alias(text)", zlib.adler32 if False else repr, []),
]
# Python functions with the names of C functions: no C function is called there.
PYTHONS = ["vars(big)", "own.bit_length()", "own.swapcase(n=3)"]
DECORATED = [("sorted", "numbers", sorted), ("zlib.compress", "data", zlib.compress), ("str.split", "text", str.split), ("repr", "numbers", repr)]

zeros, numbers1, numbers2, numbers8 = [0] * 400, [1] * 400, list(numbers), [x % 256 for x in numbers]
tuple400, letter, other, digits, comma, letters = tuple(numbers), "x", (int, bytes), "9" * 30, ",", {i: i + 1 for i in range(128)}
form, raw = "400i", struct.pack("400i", *numbers)
part_sorted, part_split = functools.partial(sorted, reverse=True), functools.partial(text.split)
def vars(x):
    return x


class Own:
    def bit_length(self):
        return 0

    def swapcase(self, n):
        return n


own = Own()
consume, lists, texts = collections.deque, [numbers] * 5, [text] * 20
starred, ones, reverse, bound, alias = sorted, [numbers], {"reverse": True}, numbers.copy, repr


def name_of(callee):
    """As Python tells it."""
    if isinstance(callee, str):
        return callee
    owner = getattr(callee, "__objclass__", None)
    module = (owner or callee).__module__
    if module is None:  # a class method
        module = "builtins"
    name = callee.__qualname__
    if getattr(callee, "__self__", None) is dict:
        name = "dict." + callee.__name__
    return name if module == "builtins" else module + "." + name


def spans(code, opcodes):
    """Offsets of the instructions of the last line whose name begins with one of these."""
    first = max(dis.findlinestarts(code), key=lambda row: row[1] or 0)[0]
    rows = list(dis.get_instructions(code))
    ends = [row.offset for row in rows[1:]] + [len(code.co_code)]
    return [[row.offset, end] for row, end in zip(rows, ends)
            if row.offset >= first and row.opname.startswith(opcodes) and "INTRINSIC" not in row.opname]


cases, known = [], {}


def add(expression, callee, ways, opcodes, decorated=None):
    name = "case_%d" % len(cases)
    source = "def %s(n):\n    while n:\n        n -= 1\n        %s\n" % (name, expression)
    if decorated:
        source = "def decorate(f):\n    def %s_inner(*a, **k):\n        return f(*a, **k)\n    return %s_inner\n" \
                 "case_f = decorate(%s)\n" % (name, name, decorated) + source
    code = compile(source, __file__, "exec")
    exec(code, globals())
    function = globals()[name]
    if decorated:
        inner = case_f.__code__
        known[inner.co_name] = [name_of(callee), ways, spans(inner, opcodes), "%s decorated" % decorated]
    else:
        known[name] = [name_of(callee), ways, spans(function.__code__, opcodes), expression]
    function(1)
    began = time.perf_counter()
    function(20)
    cases.append((function, max(1, int(20 * 0.01 / (time.perf_counter() - began)))))


CALLS = ("CALL", "PRECALL")
# A frozenset has the same functions as a set: they are named without the type.
SHARED = ["union", "issubset", "difference", "__or__"]
for expression, callee in PLAIN + EXTENSIONS:
    add(expression, callee, [name for name in SHARED if name == getattr(callee, "__name__", "")], CALLS)
for expression, callee in SLOTS:
    add(expression, callee, [name for name in SHARED if callee == "set." + name], ("BINARY", "CONTAINS", "COMPARE", "SLICE"))
for expression, callee, ways in THROUGH:
    add(expression, callee, ways, CALLS)
for expression in PYTHONS:
    add(expression, "", [], CALLS)
for function, argument, callee in DECORATED:
    add("case_f(%s)" % argument, callee, [], CALLS, decorated=function)
    globals()["deco_%d" % len(cases)] = case_f
    # each has its own
    exec(compile("def case_%d(n, case_f=deco_%d):\n    while n:\n        n -= 1\n        case_f(%s)\n" %
                 (len(cases) - 1, len(cases), argument), __file__, "exec"))
    cases[-1] = (globals()["case_%d" % (len(cases) - 1)], cases[-1][1])

print(json.dumps(known), flush=True)
end = time.time() + float(sys.argv[1])
while time.time() < end:
    random.shuffle(cases)
    for function, n in cases:
        function(n)
