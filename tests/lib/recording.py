# SPDX-License-Identifier: MIT
"""The stream of events (docs/protocol.md): read from a recording, decoded into tables and samples.

    for sample in samples(read("x.cprof")): ...          # each with its stack
    for time, cpu in rows(event, "cpu"): ...             # the columns of one event `samples`
    class Mine(Tables): ...                              # state that a test keeps from batch to batch
"""
import collections
import json
import os
import subprocess
import tempfile

from lib import CPROFD

# time: ns since the begin; name: what of the class; frames: [(function's row, offset)], innermost first; cpu, wall: ns; at:
# CLOCK_MONOTONIC.
Sample = collections.namedtuple("Sample", "time kind name frames cpu wall thread at")


def read(path):
    """All events of a recording."""
    return [json.loads(line) for line in subprocess.run(["zstd", "-dcqf", path], stdout=subprocess.PIPE, check=True).stdout.splitlines()]


def record(pid, seconds, rate, *options):
    """The events of a recording with native stacks."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "x.cprof")
        done = subprocess.run([CPROFD, "attach", str(pid), "-d", str(seconds), "-r", str(rate), "--native=full", *options, "-f", "events",
                               "-o", out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=seconds + 120)
        if done.returncode:
            raise RuntimeError(done.stderr.decode())
        return read(out)


def kind_of(function):
    """Of a function's row: docs/protocol.md; 0 is Python's."""
    return function[4] if len(function) > 4 else 0


def rows(event, *columns):
    """(time, value of each column ...) of the samples of an event; a column that is not there is zeros."""
    time, zeros = 0, [0] * len(event["t"])
    for delta, *values in zip(event["t"], *(event.get(column, zeros) for column in columns)):
        time += delta
        yield (time, *values)


class Tables:
    """Decodes a stream of events: tables by id, those of the epoch that goes on, and samples as words."""

    def __init__(self):
        self.clear()
        self.samples, self.kinds, self.gaps, self.session = [], [], [], None

    def clear(self):
        self.processes, self.threads = {}, {}
        self.functions, self.frames, self.stacks, self.classes = [], [], [None], [("", "")]

    def feed(self, line):
        """A line, or an event."""
        event = line if isinstance(line, dict) else json.loads(line)
        kind = event["ev"]
        self.kinds.append(kind)
        if kind == "session":
            self.session = event
        elif kind == "epoch":
            self.clear()
        elif kind == "process":
            self.processes[event["id"]] = event
        elif kind == "thread":
            self.threads[event["id"]] = event
        elif kind == "classes":
            self.classes[event["first"]:] = event["rows"]
        elif kind in ("functions", "frames", "stacks"):
            table = getattr(self, kind)
            assert event["first"] == len(table), f"{kind}: row {event['first']} after {len(table)}"
            table += event["rows"]
        elif kind == "samples":
            self.batch(event)
        elif kind == "gap":
            self.gaps.append(event)
        elif kind == "ledger":
            self.ledger = event
        elif kind == "end":
            self.end = event
        return event

    def batch(self, event):
        for time, thread, wall, cpu, stack in rows(event, "thread", "wall", "cpu", "stack"):
            self.samples.append((self.threads[thread]["tid"], time, wall, cpu, self.words(stack)))

    def path(self, stack):
        """(function's row, frame's row) from the innermost frame outwards."""
        while stack:
            stack, frame = self.stacks[stack][:2]
            row = self.frames[frame]
            yield self.functions[row[0]], row

    def words(self, stack):
        """(function name, line) from the outermost frame to the leaf."""
        return tuple((function[0], row[2] if len(row) > 2 else 0) for function, row in reversed(list(self.path(stack))))


def decode(lines):
    tables = Tables()
    for line in lines:
        tables.feed(line)
    return tables


class Batches(Tables):
    """The samples of one event at a time; tables stay those of the epoch."""

    def batch(self, event):
        pass


def samples(events, innermost=False):
    """Each sample; `innermost`: its frames out to the innermost Python one only."""
    begin, tables = None, Batches()
    for event in events:
        tables.feed(event)
        if event["ev"] != "samples":
            continue
        begin = begin or event["t"][0]
        for time, stack, klass, cpu, wall, thread in rows(event, "stack", "class", "cpu", "wall", "thread"):
            path = []
            for function, row in tables.path(stack):
                path.append((function, row[1]))
                if innermost and not kind_of(function):
                    break
            yield Sample(time - begin, *tables.classes[klass], path, cpu, wall, thread, time)
