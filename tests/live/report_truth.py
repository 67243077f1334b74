# SPDX-License-Identifier: MIT
"""Reads a recording line by line as docs/protocol.md defines it, and sums it up: the ground truth for report.py. Also
has what its tests share."""
import collections
import json
import os
import re
import subprocess

from lib import CPROFD

PYTHON = "/usr/bin/python3"
# Recursion, threads, generated code, C code that calls back.
TARGET = """
import ctypes, re, threading, time
def leaf(n):
    return sum(i * i for i in range(n))
def down(n):
    return down(n - 1) + leaf(400) if n else leaf(2000)
def even(n):
    return odd(n - 1) if n else leaf(3000)
def odd(n):
    return even(n - 1) if n else leaf(3000)
space = {}
exec("def made(n):\\n    return sum(i for i in range(n))\\n", space)
def work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        down(6)
        even(5)
        space["made"](5000)
        sorted(range(300), key=lambda i: -i)
        re.sub("a+", lambda m: "b" * leaf(3), "xaxaax" * 20)
        time.sleep(0.001)
def named(seconds):  # the kernel's name, which Python sets from 3.14 on
    ctypes.CDLL(None).prctl(15, b"helper", 0, 0, 0)
    work(seconds)
thread = threading.Thread(target=named, args=(2.5,))
thread.start()
work(2.5)
thread.join()
"""


COMPILE = """
import numba
def total(numbers):
    s = 0
    for n in numbers:
        s += n * n + (n - 1) * (n + 2) - (n + 3) * (n - 4) + (n + 5) * (n - 6)  # so that its types take some ms to infer
    return s
f = numba.njit(total)
f((1, 2, 3))
space = {"f": f}
exec("def call():\\n    f((1.0, 2.0))\\n", space)
space["call"]()
numba.njit(total)((1, 2, 3))
"""
# Which lines cause compiles; one is of <string>, as all code of -c and of exec().
CAUSES = {("<module>", "compile.py", COMPILE.split("\n").index(line) + 1) for line in ("f((1, 2, 3))", "numba.njit(total)((1, 2, 3))")} | {("call", "<string>", 2)}
# By hand: total() is compiled for integers, for other types, and for integers again by another dispatcher.
REPEATS = {("total", "UniTuple(float64 x 2)", "new types"), ("total", "UniTuple(int64 x 3)", "same address")}


class Skip(Exception):
    pass


def expect(condition, what, *details):
    if not condition:
        raise AssertionError(what + "".join("\n      " + str(d)[-1500:] for d in details))


def cprofd(*args, status=0, stdin=None, text=True):
    run = subprocess.run([CPROFD, *map(str, args)], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
    run.err = run.stderr.decode(errors="replace")
    expect(run.returncode == status, "cprofd %s: exit status %d" % (" ".join(map(str, args)), run.returncode), run.err)
    run.out = run.stdout.decode() if text else run.stdout
    return run


def report(*args, **more):
    return json.loads(cprofd("report", "--json", *args, **more).out)


def rows_of(result, by):
    return next(table for table in result["tables"] if table["by"] == by)["rows"]


# --- the truth: the recording's lines, read as docs/protocol.md says ---

Frame = collections.namedtuple("Frame", "name file first line module kind")
# stack: Frames, leaf first; units: the calls of compiles, phases and passes that it is in, innermost first
# others, given: CPU time of others that it stands for, and what of its own others stand for (docs/protocol.md)
Sample = collections.namedtuple("Sample", "thread time cpu wall stack class_name units others given", defaults=(0, 0))
NOT_SAMPLED = Frame("(not sampled)", "", 0, 0, "", 3)
NO_STACK = Frame("(no stack)", "", 0, 0, "", 3)
INTERPRETER = 5
NO_CLASS = "not determined"


def read_recording(path):
    """Samples; the CPU time at a thread's end is one without a stack that was taken."""
    lines = subprocess.run(["zstdcat", path], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    functions, frames, stacks, threads, samples, origin, classes = [], [], [None], {}, [], 0, [NO_CLASS]
    units, serial = [None], 0
    for line in map(json.loads, lines):
        event = line["ev"]
        if event == "session":
            origin = line["monotonic"]
        elif event == "epoch":
            expect(len(units) == 1, "a second epoch: units that go on would have to be joined")
            functions, frames, stacks, threads, classes = [], [], [None], {}, [NO_CLASS]
        elif event == "classes":
            classes += [row[0] for row in line["rows"]]
        elif event == "units":
            for parent, thread, kind, _, name, signature, begin, trigger, *defined in (row + [0, "", 0][len(row) - 7:] for row in line["rows"]):
                serial += 1
                units.append({"serial": serial, "parent": units[parent], "kind": kind, "name": name or "(name unknown)",
                              "signature": signature, "trigger": trigger and stacks[trigger][1], "thread": thread,
                              "begin": begin - origin, "end": begin - origin, "defined": tuple(defined[:2]) or ("", 0)})
        elif event == "unit_end":
            if line.get("name"):
                units[line["id"]].update(name=line["name"], signature=line.get("signature", ""), defined=(line.get("file", ""), line.get("line", 0)))
        elif event == "thread":
            threads.setdefault(line["id"], {}).update(line)
        elif event == "functions":
            functions += line["rows"]
        elif event == "frames":
            for row in line["rows"]:
                name, file, first, module, kind = (functions[row[0]] + ["", 0])[:5]
                frames.append(Frame(name, file, first, (row + [0, 0])[2], module, kind))
        elif event == "stacks":
            stacks += [(parent, frames[frame]) for parent, frame in line["rows"]]
        elif event == "samples":
            time, n = 0, len(line["t"])
            columns = [line.get(key, [0] * n) for key in ("wall", "cpu", "thread", "stack", "class", "unit", "others", "given")]
            for step, wall, cpu, thread, stack, class_id, unit, others, given in zip(line["t"], *columns):
                time += step
                within, unit = [], units[unit]
                while unit:
                    within.append(unit)
                    unit["end"] = time - origin
                    unit = unit["parent"]
                path = []
                while stack:
                    stack, frame = stacks[stack]
                    path.append(frame)
                samples.append(Sample(threads[thread], time - origin, cpu, wall, tuple(path) or (NO_STACK,), classes[class_id], tuple(within),
                                      others, given))
        elif event == "thread_end":
            samples.append(Sample(threads[line["id"]], line["time"] - origin, line.get("cpu", 0), line.get("wall", 0), (NOT_SAMPLED,), NO_CLASS, ()))
    return samples


def stand(samples):
    """The same time, but as shares have it: what samples give, and what ended without one, is of those that stand for it, the oldest first."""
    result, not_sampled = [], collections.deque()
    for sample in samples:
        given = sample.cpu if sample.stack == (NOT_SAMPLED,) else sample.given
        result.append(sample._replace(cpu=sample.cpu - given))
        if given:
            not_sampled.append([sample, given])
        left = sample.others
        while left and not_sampled:
            taken = min(left, not_sampled[0][1])
            result.append(sample._replace(thread=not_sampled[0][0].thread, cpu=taken, wall=0))
            left -= taken
            not_sampled[0][1] -= taken
            if not not_sampled[0][1]:
                not_sampled.popleft()
    return result + [sample._replace(cpu=ns, wall=0, stack=(NOT_SAMPLED,), class_name=NO_CLASS, units=()) for sample, ns in not_sampled]


def told(stack):
    """Without the interpreter's own frames, but for the innermost of them where no Python code is."""
    alone = stack[0].kind == INTERPRETER and all(frame.kind for frame in stack)
    return stack[:alone] + tuple(frame for frame in stack[alone:] if frame.kind != INTERPRETER)


def add_up(samples, key, weight=lambda sample: sample.cpu, told=told):
    """{key: [exclusive, inclusive]}"""
    sums = collections.defaultdict(lambda: [0, 0])
    for sample in samples:
        stack = told(sample.stack)
        sums[key(stack[0])][0] += weight(sample)
        for row in {key(frame) for frame in stack}:
            sums[row][1] += weight(sample)
    return {row: tuple(pair) for row, pair in sums.items() if pair[1]}


def function(frame):
    return frame.name, frame.file, frame.first, frame.module


def at_line(frame):  # without a line of its own, the function's
    return frame.name, frame.file, frame.line or frame.first, frame.module


def shown(rows):
    result = {}
    for row in rows:
        key = (row["name"], row["file"], row["line"], row["module"]) if "file" in row else row["name"]
        expect(key not in result, "two rows alike", key)
        result[key] = row["exclusive_ns"], row["inclusive_ns"]
    return result


def same(what, have, want):
    differ = [(key, have.get(key), want.get(key)) for key in sorted(set(have) | set(want), key=str)
              if have.get(key) != want.get(key)]
    expect(not differ, "%s: %d of %d rows differ (row, told, true)" % (what, len(differ), len(want)), *differ[:3])
    expect(want, what + ": there is nothing to compare")


class Recordings:
    """Made once, in a folder of their own."""

    def __init__(self, folder):
        self.folder, self.known = folder, {}
        program = os.path.join(folder, "compile.py")
        with open(program, "w") as file:
            file.write(COMPILE)
        for name, args in (("python", ["-r", "2k", "--native=off", "--", PYTHON, "-c", TARGET]),
                           ("again", ["-r", "2k", "-d", "1.5", "--native=off", "--", PYTHON, "-c", TARGET]),
                           ("native", ["-r", "5k", "--", PYTHON, program])):
            path = os.path.join(folder, name + ".cprof")
            run = subprocess.run([CPROFD, "record", "-o", path, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
            expect(run.returncode == 0 and os.path.exists(path), "no recording", run.stderr.decode())

    def path(self, name):
        return os.path.join(self.folder, name + ".cprof")

    def rows(self, name):
        if name not in self.known:
            self.known[name] = read_recording(self.path(name))
        return self.known[name]

    def samples(self, name):
        return stand(self.rows(name))


def tags(path):
    """(is below packages, is of the library, rest of the path) by paths alone."""
    match = re.match(r".*/(?:site|dist)-packages/(.*)", path)
    if match:
        return "package", match[1]
    match = re.match(r".*/lib\d*/python[\d.]+t?/(.*)", path)
    return ("library", match[1]) if match else ("", path)


GROUPS = {1: None, 2: "(kernel)", 3: "(notes)", 4: "(JIT code)", INTERPRETER: "(interpreter)", 6: "(C calls)"}


def package(frame):
    if frame.kind:
        return GROUPS[frame.kind] or os.path.basename(frame.module) or "(unknown)"
    where, rest = tags(frame.file)
    if where == "package":
        return rest.split("/")[0] if "/" in rest else re.sub(r"\.\w+$", "", rest)
    if where or frame.file.startswith("<frozen "):
        return "(standard library)"
    return "(generated code)" if frame.file.startswith("<") else os.path.dirname(frame.file)


def module(frame):
    if frame.kind:
        return package(frame)
    if frame.file.startswith("<"):
        return frame.file[8:-1] if frame.file.startswith("<frozen ") else "(generated code)"
    where, rest = tags(frame.file)
    rest = rest if where else os.path.basename(rest)
    return re.sub(r"(?<=.)\.__init__$", "", re.sub(r"\.\w+$", "", rest).replace("/", "."))
