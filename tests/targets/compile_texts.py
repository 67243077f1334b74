# SPDX-License-Identifier: MIT
"""A compiler whose units, phases and passes are named by texts that are made for the call and freed with it: the next call's text mostly lies
where this one lay. Rules: tests/live/names_of_texts.py.

    compile_texts.py MS COMPILES THREADS

A unit's name is logged with its signature."""
import time

from named_compiles import COMPILES, FIRST, GAPS, LEVELS, MS, PASS, PHASE, UNIT, Text, main, spin

WAYS = [
    lambda i: f"kernel_{i:06d}",
    lambda i: "kernel_%06d" % i,
    lambda i: (b"kernel_%06d" % i).decode(),
    lambda i: ("<kernel_%06d>" % i)[1:-1],
    lambda i: Text("kernel_%06d" % i),
    lambda i: "k\xe9rnel_%06d" % i,             # UCS1
    lambda i: "\u044f\u0434\u0440\u043e_%06d" % i,  # UCS2
    lambda i: "\U0001d528ernel_%06d" % i,       # UCS4
    lambda i: Text("\u044f\u0434\u0440\u043e_%06d" % i),
    lambda i: "%070d" % i,                      # differs from the next at its end only
    lambda i: "kernel" + "_" * 300 + "%06d" % i,
    lambda i: "\u044f" * 400 + "%06d" % i,
    lambda i: "x" * 3000 + "%06d" % i,
    lambda i: 2000000000 + i,                   # a number
]


def polish(text, kind, log, way, i, ms):
    begin = time.monotonic_ns()
    spin(ms)
    log.put(PASS, way, i, begin)


def lower(log, way, i, ms):
    text = WAYS[way](i)
    begin = time.monotonic_ns()
    polish(WAYS[way](i + 1), "kind", log, way, i + 1, ms)
    log.put(PHASE, way, i, begin)


def analyse(text, log, way, i, ms):
    begin = time.monotonic_ns()
    spin(ms)
    log.put(PHASE, way, i, begin)


def needed(text, kind, log, way, i, ms):
    begin = time.monotonic_ns()
    analyse(WAYS[way](i + 1), log, way, i + 1, ms / 2)
    lower(log, way, i + 2, ms / 2)
    log.put(UNIT, way, i, begin)


def build(text, kind, log, way, i, ms, of=UNIT):
    begin = time.monotonic_ns()
    lower(log, way, i + 1, ms * 0.3)
    needed(WAYS[way](i + 3), WAYS[0](i + 3), log, way, i + 3, ms * 0.4)
    analyse(WAYS[way](i + 6), log, way, i + 6, ms * 0.3)
    log.put(of, way, i, begin)


def compiles(log, number):
    # What is captured is known once the code has been sampled.
    build(WAYS[0](number), WAYS[0](number), log, 0, number, 600, FIRST)
    for way in range(len(WAYS)):
        for i in range(COMPILES):
            n = number + LEVELS * (1 + way * COMPILES + i)
            build(WAYS[way](n), WAYS[0](n), log, way, n, MS)
            if GAPS[i % len(GAPS)]:
                time.sleep(GAPS[i % len(GAPS)])


def name_of(kind, way, i):
    return str(WAYS[way](i)) + ("(%s)" % WAYS[0](i) if kind in (UNIT, FIRST) else "")


main(compiles, name_of)
