# SPDX-License-Identifier: MIT
"""A recording of a living target, and its samples. For the tests beside it."""
import collections
import json
import os
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CPROFD = os.environ.get("CPROFD", os.path.join(ROOT, "build", "cprofd"))

# time: ns since the begin; name: what of the class; frames: [(function's row, offset)], innermost first; cpu, wall: ns; at:
# CLOCK_MONOTONIC.
Sample = collections.namedtuple("Sample", "time kind name frames cpu wall thread at")


def kind_of(function):
    """Of a function's row: docs/protocol.md; 0 is Python's."""
    return function[4] if len(function) > 4 else 0


def record(pid, seconds, rate, *options):
    """The events of a recording with native stacks."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "x.cprof")
        done = subprocess.run([CPROFD, "attach", str(pid), "-d", str(seconds), "-r", str(rate), "--native=full", *options, "-f", "events",
                               "-o", out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=seconds + 120)
        if done.returncode:
            raise RuntimeError(done.stderr.decode())
        lines = subprocess.run(["zstdcat", out], stdout=subprocess.PIPE, check=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def samples(events, innermost=False):
    """Each sample; `innermost`: its frames out to the innermost Python one only."""
    begin = None
    for e in events:
        kind = e["ev"]
        if kind == "epoch":
            classes, functions, frames, stacks = [("", "")], [], [], [None]
        elif kind == "classes":
            classes += [tuple(r) for r in e["rows"]]
        elif kind in ("functions", "frames", "stacks"):
            {"functions": functions, "frames": frames, "stacks": stacks}[kind].extend(e["rows"])
        elif kind == "samples":
            n = len(e["stack"])
            begin = begin or e["t"][0]
            time = 0
            zeros = [0] * n
            for delta, stack, klass, cpu, wall, thread in zip(e["t"], e["stack"], e.get("class", zeros), e.get("cpu", zeros),
                                                              e.get("wall", zeros), e.get("thread", zeros)):
                time += delta
                path = []
                while stack:
                    stack, frame = stacks[stack]
                    row = frames[frame]
                    path.append((functions[row[0]], row[1]))
                    if innermost and not kind_of(path[-1][0]):
                        break
                yield Sample(time - begin, *classes[klass], path, cpu, wall, thread, time)
