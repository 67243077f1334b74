# SPDX-License-Identifier: MIT
"""A target of tests/live/triggers.py: a compiler of our own (compile() below, whose rule is there), and a clock for what it did.

    slow_compile.py STEP ...

STEPs: `short=N`: N compiles of 20 ms, with pauses; `long=SECONDS`: one that runs for so long; `sleepy=SECONDS`: one that waits for half of it;
`idle=SECONDS`; `spin=SECONDS`: no compile, all of a CPU. Each prints [step, begin, end, CPU time in it] by CLOCK_MONOTONIC, in s; "ready" comes
first, and last {"marks": [[time, CPU time], ...]}, some of each 10 ms in which it ran. CPU time is that of the process."""
import json
import sys
import time


marks = []
SHORT = ["short%d" % i for i in range(3)]  # names that outlive the compile (docs/rules.md)


def mark():
    marks.append((time.monotonic(), time.process_time()))


def spin(seconds):
    end = time.monotonic() + seconds
    mark()
    while time.monotonic() < end:
        sum(range(500))
        if time.monotonic() > marks[-1][0] + 0.01:
            mark()
    mark()


def lower(seconds):
    spin(seconds)


def build(name, seconds, asleep=0.0):
    spin(seconds / 4)
    time.sleep(asleep)
    lower(seconds * 3 / 4)


def run(step, amount):
    if step == "short":
        for i in range(int(amount)):
            build(SHORT[i % 3], 0.02)
            time.sleep(0.03)
    elif step == "long":
        build("long", amount)
    elif step == "sleepy":
        build("sleepy", amount / 2, amount / 2)
    elif step == "idle":
        time.sleep(amount)
    else:
        spin(amount)


print("ready", flush=True)
for word in sys.argv[1:]:
    step, _, amount = word.partition("=")
    begin, before = time.monotonic(), time.process_time()
    run(step, float(amount))
    print(json.dumps([step, begin, time.monotonic(), time.process_time() - before]), flush=True)
    time.sleep(0.05)  # compiles that directly follow each other are those of neighbours.py
print(json.dumps({"marks": marks}))
