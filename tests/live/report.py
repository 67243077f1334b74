#!/usr/bin/env python3
"""What report, svg, pprof and collapsed say of real recordings, against sums that this script makes
itself from the lines of the recording.

    report.py [NAME ...]     only the tests whose names contain one of these. Needs root.
"""
import collections
import csv
import gzip
import io
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CPROFD = os.environ.get("CPROFD", os.path.join(ROOT, "build", "cprofd"))
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
        s += n * n
    return s
f = numba.njit(total)
f((1, 2, 3))
f((1.0, 2.0))
"""


class Skip(Exception):
    pass


def expect(condition, what, *details):
    if not condition:
        raise AssertionError(what + "".join("\n      " + str(d)[-1500:] for d in details))


def cprofd(*args, status=0, stdin=None, text=True):
    run = subprocess.run([CPROFD, *map(str, args)], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
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
Sample = collections.namedtuple("Sample", "thread time cpu wall stack class_name")  # stack: Frames, leaf first
NOT_SAMPLED = Frame("(not sampled)", "", 0, 0, "", 3)
NO_STACK = Frame("(no stack)", "", 0, 0, "", 3)
INTERPRETER = 5
NO_CLASS = "not determined"


def read_recording(path):
    """Samples; the CPU time at a thread's end is one without a stack that was taken."""
    lines = subprocess.run(["zstdcat", path], stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()
    functions, frames, stacks, threads, samples, origin, classes = [], [], [None], {}, [], 0, [NO_CLASS]
    for line in map(json.loads, lines):
        event = line["ev"]
        if event == "session":
            origin = line["monotonic"]
        elif event == "epoch":
            functions, frames, stacks, threads, classes = [], [], [None], {}, [NO_CLASS]
        elif event == "classes":
            classes += [row[0] for row in line["rows"]]
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
            columns = [line.get(key, [0] * n) for key in ("wall", "cpu", "thread", "stack", "class")]
            for step, wall, cpu, thread, stack, class_id in zip(line["t"], *columns):
                time += step
                path = []
                while stack:
                    stack, frame = stacks[stack]
                    path.append(frame)
                samples.append(Sample(threads[thread], time - origin, cpu, wall, tuple(path) or (NO_STACK,), classes[class_id]))
        elif event == "thread_end" and line.get("cpu"):
            samples.append(Sample(threads[line["id"]], line["time"] - origin, line["cpu"], line.get("wall", 0), (NOT_SAMPLED,), NO_CLASS))
    return samples


def add_up(samples, key, weight=lambda sample: sample.cpu):
    """{key: [exclusive, inclusive]}"""
    sums = collections.defaultdict(lambda: [0, 0])
    for sample in samples:
        sums[key(sample.stack[0])][0] += weight(sample)
        for row in {key(frame) for frame in sample.stack}:
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
        for name, args in (("python", ["-r", "2k", "--", PYTHON, "-c", TARGET]),
                           ("again", ["-r", "2k", "-d", "1.5", "--", PYTHON, "-c", TARGET]),
                           ("native", ["--native", "--", PYTHON, "-c", COMPILE])):
            path = os.path.join(folder, name + ".cprof")
            run = subprocess.run([CPROFD, "record", "-o", path, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            expect(run.returncode == 0 and os.path.exists(path), "no recording", run.stderr.decode())

    def path(self, name):
        return os.path.join(self.folder, name + ".cprof")

    def samples(self, name):
        if name not in self.known:
            self.known[name] = read_recording(self.path(name))
        return self.known[name]


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


# --- tests ---

def test_tables(recordings):
    for name in ("python", "native"):
        samples = recordings.samples(name)
        result = report(recordings.path(name), "--by=function,line,package,module,file,thread,class")
        same(name + " functions", shown(rows_of(result, "function")), add_up(samples, function))
        same(name + " lines", shown(rows_of(result, "line")), add_up(samples, at_line))
        same(name + " packages", shown(rows_of(result, "package")), add_up(samples, package))
        same(name + " modules", shown(rows_of(result, "module")), add_up(samples, module))
        same(name + " files", shown(rows_of(result, "file")), add_up(samples, lambda f: f.file or f.module or "(notes)"))
        total = sum(sample.cpu for sample in samples)
        threads = collections.Counter()
        for sample in samples:
            threads["%s (%d)" % (sample.thread["name"], sample.thread["tid"])] += sample.cpu
        told = collections.Counter()
        for row in rows_of(result, "thread"):  # a row for each class of the thread
            told[row["name"]] += row["exclusive_ns"]
        same(name + " threads", dict(told), {k: v for k, v in threads.items() if v})
        classes = collections.Counter()
        for sample in samples:
            classes[sample.class_name] += sample.cpu
        same(name + " classes", {r["name"]: r["exclusive_ns"] for r in rows_of(result, "class")}, {k: v for k, v in classes.items() if v})
        expect(result["recordings"][0]["cpu_ns"] == total, "CPU", result["recordings"][0], total)
        expect({t["total_ns"] for t in result["tables"]} == {total}, "totals differ")
        for table in result["tables"]:
            running = 0
            for row in table["rows"]:
                running += row["exclusive_ns"]
                expect(abs(row["running_share"] - running / total) < 1e-6, "running total", row)
            expect(abs(running - total) <= 1, "exclusive times do not add up", table["by"], running, total)


def beside(stack, match, outwards):
    """The frame that called the outermost match, or that the innermost one called."""
    places = [i for i, frame in enumerate(stack) if match(frame.name)]
    if not places:
        return None
    at = places[-1] if outwards else places[0]
    others = stack[at + 1:] if outwards else stack[:at][::-1]
    for frame in others:
        if frame.kind != INTERPRETER:
            return frame
    return "(outermost)" if outwards else "(itself)" if at == 0 else "(interpreter)"


def test_callers_and_callees(recordings):
    for name, pattern, match in (("python", "down", lambda n: n == "down"), ("python", "odd", lambda n: n == "odd"),
                                 ("native", "run_pass", lambda n: n.split(".")[-1] == "run_pass"),
                                 ("native", "*PassManager*", lambda n: "PassManager" in n)):
        samples = recordings.samples(name)
        for option, outwards in (("--callers", True), ("--callees", False)):
            for lines in (False, True) if name == "python" else (False,):
                want = collections.Counter()
                for sample in samples:
                    other = beside(sample.stack, match, outwards)
                    if other:
                        key = (other, "", 0, "") if isinstance(other, str) else (at_line if lines else function)(other)
                        want[key] += sample.cpu
                table = report(recordings.path(name), option, pattern, *["--lines"] * lines)["tables"][0]
                have = {key: pair[1] for key, pair in shown(table["rows"]).items()}
                same("%s %s" % (option, pattern), have, {k: v for k, v in want.items() if v})
                expect(table["total_ns"] == sum(want.values()), "not the function's inclusive time", table["total_ns"])


def callees_of(stack):
    """(callee, Python frame that called it, is the innermost) of one stack, outermost last."""
    segment, result, first = [], [], True
    for frame in stack:
        if frame.kind == 0:
            native = [f for f in segment if f.kind in (1, 4, 6)]
            real = [f for f in native if not (f.name if f.kind == 6 else f.module).startswith(("_ctypes.", "libffi.so"))]
            if native:
                result.append(((real or native)[-1] if real else native[0], frame, first))
            segment, first = [], False
        else:
            segment.append(frame)
    return result


def test_c_callees(recordings):
    want = collections.defaultdict(lambda: [0, 0])
    lines = collections.Counter()
    for sample in recordings.samples("native"):
        found = callees_of(sample.stack)
        for callee in {function(c) for c, _, _ in found}:
            want[callee][1] += sample.cpu
        for callee in {function(c) for c, _, inner in found if inner}:
            want[callee][0] += sample.cpu
        for pair in {(function(c), (caller.name, caller.file, caller.line or caller.first)) for c, caller, _ in found}:
            lines[pair] += sample.cpu
    rows = report(recordings.path("native"), "--by=callee")["tables"][0]["rows"]
    same("callees", shown(rows), {k: tuple(v) for k, v in want.items() if v[1]})
    have = {}
    for row in rows:
        for line in row["lines"]:
            have[(row["name"], row["file"], row["line"], row["module"]), (line["name"], line["file"], line["line"])] = line["inclusive_ns"]
    same("lines that called callees", have, {k: v for k, v in lines.items() if v})
    expect(any("LLVM" in row["name"] for row in rows), "LLVM is no callee")


def test_cuts(recordings):
    path = recordings.path("native")
    full = report(path, "--by=function")["tables"][0]
    expect([r["exclusive_ns"] for r in full["rows"]] == sorted((r["exclusive_ns"] for r in full["rows"]), reverse=True), "order")
    expect(report(path, "--by=function", "--top", "7")["tables"][0]["rows"] == full["rows"][:7], "--top")
    until = report(path, "--by=function", "--until", "80%")["tables"][0]["rows"]
    expect(until == full["rows"][:len(until)] and until[-1]["running_share"] >= 0.8 > until[-2]["running_share"], "--until")
    least = report(path, "--by=function", "--min-share", "0.5%")["tables"][0]["rows"]
    expect(least == [r for r in full["rows"] if r["exclusive_share"] >= 0.005], "--min-share")
    inclusive = report(path, "--by=function", "--sort=inclusive")["tables"][0]["rows"]
    expect([r["inclusive_ns"] for r in inclusive] == sorted((r["inclusive_ns"] for r in full["rows"]), reverse=True), "--sort")
    text = cprofd("report", path, "--by=function", "--top", "3").out
    expect(full["rows"][0]["name"][:40] in text and "not sampled" in text, "the text", text)


def overlap(low, high, from_ns, to_ns):
    return max(0, min(high, to_ns) - max(low, from_ns))


def test_filters(recordings):
    path, samples = recordings.path("python"), recordings.samples("python")
    have = report(path, "--by=function", "--function", "down")["tables"][0]["rows"]
    same("--function", shown(have), add_up([s for s in samples if any(f.name == "down" for f in s.stack)], function))
    have = report(path, "--by=function", "--thread", "helper")
    mine = [s for s in samples if s.thread["name"] == "helper"]
    same("--thread", shown(rows_of(have, "function")), add_up(mine, function))
    tid = samples[0].thread["tid"]
    have = report(path, "--by=function", "--thread", tid)["tables"][0]["rows"]
    same("--thread TID", shown(have), add_up([s for s in samples if s.thread["tid"] == tid], function))
    low, high = 1_000_000_000, 1_700_000_000
    have = report(path, "--by=function", "--window", "1,1.7")["tables"][0]["rows"]
    same("--window", shown(have), add_up(samples, function, lambda s: overlap(s.time - s.cpu, s.time, low, high)))
    path, samples = recordings.path("native"), recordings.samples("native")
    for pattern, match in (("libLLVM*", lambda m: m.startswith("libLLVM")), ("numba.core.typing", lambda m: (m + ".").startswith("numba.core.typing."))):
        want = add_up([s for s in samples if any(match(module(f)) for f in s.stack)], function)
        same("--module", shown(report(path, "--by=function", "--module", pattern)["tables"][0]["rows"]), want)
    want = [s for s in samples if any(f.name.split(".")[-1] == "run_pass" for f in s.stack) and any(module(f).startswith("libLLVM") for f in s.stack)]
    both = ["--module", "libLLVM*", "--function", "run_pass"]
    result = report(path, "--by=function", *both)
    same("both", shown(result["tables"][0]["rows"]), add_up(want, function))
    told, total = result["recordings"][0], sum(s.cpu for s in samples)
    expect(told["shown_cpu_ns"] + told["left_out_cpu_ns"] == told["cpu_ns"] == total, "what is left out", told, total)
    # Each other format has the same time.
    shown_cpu = told["shown_cpu_ns"]
    collapsed = cprofd("convert", path, "-f", "collapsed", "-o", "-", *both).out
    expect(abs(sum(int(line.rsplit(" ", 1)[1]) for line in collapsed.splitlines()) - shown_cpu // 1000) <= 1, "collapsed")
    profile = Pprof(cprofd("convert", path, "-f", "pprof", "-o", "-", *both, text=False).out)
    expect(sum(values[0] for _, values, _ in profile.samples) == shown_cpu, "pprof")
    speedscope = json.loads(cprofd("convert", path, "-f", "speedscope", "-o", "-", *both).out)
    first = speedscope["profiles"][0]
    expect(sum(w for s, w in zip(first["samples"], first["weights"]) if s) == shown_cpu, "speedscope")
    svg = picture(cprofd("convert", path, "-f", "svg", "-o", "-", *both).out)
    expect(abs(svg[0][3] * 1e9 - shown_cpu) < 1e6, "svg", svg[0], shown_cpu)
    cut = os.path.join(recordings.folder, "cut.cprof")
    cprofd("convert", path, "-f", "events", "-o", cut, *both)
    again = [s for s in read_recording(cut) if s.stack[0].name not in ("(left out)", "(not sampled)")]
    same("a recording that was filtered", add_up(again, function), add_up(want, function))
    same("and is read again", {k: v for k, v in shown(report(cut, "--by=function")["tables"][0]["rows"]).items() if k[0] not in ("(left out)", "(not sampled)")},
         add_up(want, function))


def test_several_files(recordings):
    paths = [recordings.path("python"), recordings.path("again"), recordings.path("native")]
    each = [add_up(recordings.samples(name), function) for name in ("python", "again", "native")]
    result = report(*paths, "--by=function")
    for row in result["tables"][0]["rows"]:
        pairs = [sums.get((row["name"], row["file"], row["line"], row["module"]), (0, 0)) for sums in each]
        for i, time in enumerate(("exclusive", "inclusive")):
            values = [pair[i] for pair in pairs]
            expect([e[time + "_cpu_ns"] for e in row["each"]] == values, "each", row, values)
            expect(abs(row[time + "_ns"] - statistics.mean(values)) <= 1, "mean", row, values)
            expect(abs(row[time + "_sd_ns"] - statistics.stdev(values)) <= 1, "sd", row, values)
    expect(len(result["recordings"]) == 3, "recordings")
    expect(" sd " in cprofd("report", *paths).out, "the text has no spread")


TYPES = {"string": str, "int": int, "float": (int, float), "bool": bool, "object": dict, "array": list}


def schema():
    text = open(os.path.join(ROOT, "docs", "report.md")).read()
    table = text.split("<!-- schema -->")[1].split("<!-- /schema -->")[0]
    known = collections.defaultdict(dict)
    for line in table.strip().splitlines()[2:]:
        where, key, kind, when = [cell.strip().strip("`") for cell in line.split("|")[1:5]]
        known[where][key] = kind, when
    return known


def test_json_is_as_documented(recordings):
    known, met = schema(), set()

    def check(where, item, *given):
        for key, value in item.items():
            expect(key in known[where], "%r of %r is not documented" % (key, where))
            kind = known[where][key][0]
            expect(isinstance(value, TYPES[kind]) and (kind == "bool" or not isinstance(value, bool)), "type", where, key, value)
            expect(kind != "int" or value >= 0, "negative", where, key, value)
            met.add((where, key))
        for key, (_, when) in known[where].items():
            needed = not when or any(word in given for word in when.replace(",", " ").split())
            expect(key in item or not needed, "%r is missing in %r" % (key, where), item)

    def check_rows(table, rows, several):
        kind = {"thread": "thread", "callee": "callee"}.get(table["by"], "")
        named = table["by"] in ("function", "line", "callee", "callers", "callees")
        for row in rows:
            check("rows", row, kind, *(["function"] if named else []), *(["several"] if several else []))
            for each in row["each"]:
                check("each", each)
            for line in row.get("lines", []):
                check("rows", line, "function", *(["several"] if several else []))

    every = "--by=class,thread,function,line,package,module,file,callee"
    one, two = recordings.path("native"), recordings.path("python")
    for args in ([one, every, "--callers", "run_pass", "--callees", "run_pass"], [one, two, every],
                 [two, "--thread", "python3", "--window", "0,2", "--function", "down", "--module", "(generated code)"][:7],
                 [two, "--module", "json"][:1] + ["--class", "not determined"]):
        result = report(*args)
        check("", result)
        check("filters", result["filters"])
        expect(result["schema"] == "cprofd-report" and result["major"] == 1, "version")
        for recording in result["recordings"]:
            check("recordings", recording)
        for table in result["tables"]:
            check("tables", table, table["by"])
            check_rows(table, table["rows"], len(result["recordings"]) > 1)
    missing = {(w, k) for w, keys in known.items() for k in keys} - met - {("filters", "module")}
    expect(not missing, "documented, but never met", missing)


def test_csv(recordings):
    path = recordings.path("native")
    rows = list(csv.DictReader(io.StringIO(cprofd("report", path, "--csv", "--by=function,thread").out, newline="")))
    result = report(path, "--by=function,thread")
    for by in ("function", "thread"):
        have = [(r["name"], int(r["exclusive_ns"]), int(r["inclusive_ns"])) for r in rows if r["table"] == by]
        expect(have == [(r["name"], r["exclusive_ns"], r["inclusive_ns"]) for r in rows_of(result, by)], by)


# --- other formats ---

class Pprof:
    """profile.proto, read with nothing but its description."""

    def __init__(self, data):
        self.strings, self.samples, raw = [], [], collections.defaultdict(list)
        for field, value in self.fields(gzip.decompress(data)):
            raw[field].append(value)
        self.strings = [value.decode() for value in raw[6]]
        expect(self.strings[0] == "", "string 0")
        self.mappings, self.functions, self.locations = {}, {}, {}
        for value in raw[3]:
            item = dict(self.fields(value))
            self.mappings[item[1]] = self.strings[item[5]]
        for value in raw[5]:
            item = dict(self.fields(value))
            self.functions[item[1]] = self.strings[item[2]], self.strings[item.get(4, 0)], item.get(5, 0)
        for value in raw[4]:
            item = dict(self.fields(value))
            line = dict(self.fields(item[4]))
            self.locations[item[1]] = self.functions[line[1]] + (line.get(2, 0), self.mappings[item[2]] if 2 in item else "")
        for value in raw[2]:
            item = collections.defaultdict(list)
            for field, part in self.fields(value):
                item[field].append(part)
            stack = [self.locations[i] for i in self.packed(item[1][0])]
            labels = {}
            for label in item[3]:
                label = dict(self.fields(label))
                labels[self.strings[label[1]]] = self.strings[label[2]] if 2 in label else label.get(3, 0)
            self.samples.append((stack, self.packed(item[2][0]), labels))
        self.types = [tuple(self.strings[v] for _, v in self.fields(value)) for value in raw[1]]

    @staticmethod
    def varint(data, at):
        value = shift = 0
        while True:
            value |= (data[at] & 127) << shift
            shift += 7
            at += 1
            if data[at - 1] < 128:
                return value, at

    @classmethod
    def packed(cls, data):
        values, at = [], 0
        while at < len(data):
            value, at = cls.varint(data, at)
            values.append(value)
        return values

    @classmethod
    def fields(cls, data):
        at = 0
        while at < len(data):
            tag, at = cls.varint(data, at)
            value, at = cls.varint(data, at)
            if tag & 7 == 2:
                value, at = data[at:at + value], at + value
            yield tag >> 3, value


def test_pprof(recordings):
    for name in ("python", "native"):
        samples = recordings.samples(name)
        profile = Pprof(cprofd("convert", recordings.path(name), "-f", "pprof", "-o", "-", text=False).out)
        expect(profile.types == [("cpu", "nanoseconds"), ("wall", "nanoseconds")], "sample types", profile.types)
        sums = collections.defaultdict(lambda: [0, 0])
        for stack, (cpu, _), labels in profile.samples:
            expect(set(labels) >= {"thread", "tid", "process", "pid"}, "labels", labels)
            sums[stack[0]][0] += cpu
            for location in set(stack):
                sums[location][1] += cpu
        have = {key: tuple(pair) for key, pair in sums.items() if pair[1]}
        want = add_up(samples, lambda f: (f.name, f.file, f.first, f.line or f.first, f.module))
        same(name, have, want)
        told = report(recordings.path(name))["recordings"][0]
        expect(sum(values[1] for _, values, _ in profile.samples) == told["wall_ns"], "wall time")
        classes = collections.Counter()
        for _, (cpu, _), labels in profile.samples:
            classes[labels.get("class", NO_CLASS)] += cpu
        want = collections.Counter()
        for sample in samples:
            want[sample.class_name] += sample.cpu
        same("classes", {k: v for k, v in classes.items() if v}, {k: v for k, v in want.items() if v})
        threads = collections.Counter()
        for _, (cpu, _), labels in profile.samples:
            threads[labels["tid"]] += cpu
        want = collections.Counter()
        for sample in samples:
            want[sample.thread["tid"]] += sample.cpu
        same("threads", {k: v for k, v in threads.items() if v}, {k: v for k, v in want.items() if v})


def test_go_tool_pprof(recordings):
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if not go or subprocess.run([go, "tool", "pprof", "-h"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode not in (0, 2):
        raise Skip("go tool pprof is missing (apt-get install golang-go)")
    path = os.path.join(recordings.folder, "native.pb.gz")
    cprofd("convert", recordings.path("native"), "-f", "pprof", "-o", path)
    result = report(recordings.path("native"), "--by=function")

    def pprof(*args):
        run = subprocess.run([go, "tool", "pprof", *args, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=200)
        expect(run.returncode == 0, "go tool pprof", run.stderr.decode())
        return run.stdout.decode()

    text = pprof("-top", "-unit=ns", "-nodecount=20", "-symbolize=none")
    total = int(re.search(r"([\d.]+)ns total", text)[1].split(".")[0])
    expect(abs(total - result["recordings"][0]["cpu_ns"]) <= 1, "total", text[:400])
    told = [(int(float(m[1])), int(float(m[2]))) for m in re.finditer(r"^\s*([\d.]+)ns\s+[\d.]+%\s+[\d.]+%\s+([\d.]+)ns", text, re.M)]
    rows = [(r["exclusive_ns"], r["inclusive_ns"]) for r in rows_of(result, "function")[:200]]
    expect(told and sum(pair in rows for pair in told[:10]) >= 8, "the top rows", told[:10], rows[:10])
    expect("not determined" in pprof("-tags") and "python3" in pprof("-tags"), "labels")
    expect(".py:" in pprof("-top", "-lines", "-cum", "-nodecount=60"), "lines")
    wall = pprof("-top", "-sample_index=wall", "-unit=ns")
    expect("(idle)" in wall, "idle is wall time", wall[:500])


def picture(text):
    """(name, x, width, seconds, share) of each frame, by an XML reader."""
    root = xml.etree.ElementTree.fromstring(text)
    space = "{http://www.w3.org/2000/svg}"
    frames = []
    for group in root.iter(space + "g"):
        if group.get("id"):
            continue
        title, rect = group.find(space + "title").text.split("\n"), group.find(space + "rect")
        number, unit, share, _ = title[-1].replace(",", "").split(" ")
        frames.append((title[0], float(rect.get("x")), float(rect.get("width")), float(number) * {"s": 1, "ms": 1e-3}[unit], float(share), float(rect.get("y"))))
    return frames


def test_svg(recordings):
    for name in ("python", "native"):
        frames = picture(cprofd("convert", recordings.path(name), "-f", "flamegraph", "-o", "-").out)
        samples = recordings.samples(name)
        total = sum(sample.cpu for sample in samples)
        expect(abs(frames[0][3] * 1e9 - total) <= 1e6, "the whole", frames[0], total)
        expect(all(x >= -1e-3 and x + w <= 1200.001 for _, x, w, _, _, _ in frames), "out of the picture")
        rows = collections.defaultdict(list)
        for frame in frames:
            rows[frame[5]].append((frame[1], frame[2]))
        for row in rows.values():
            row.sort()
            expect(all(a + w <= b + 1e-3 for (a, w), (b, _) in zip(row, row[1:])), "frames overlap")
        # The frames of one name at its outermost place have its inclusive time.
        inclusive = {f[0]: n for f, (_, n) in add_up(samples, function).items() if f[0] != "down"}
        entries = collections.Counter()
        for sample in samples:
            entries[sample.stack[-1].name] += sample.cpu
        second = collections.Counter()
        for frame in frames:
            if frame[5] == 60 + 17 * (2 if any(re.search(r"\(\d+\)$", f[0]) for f in frames[1:2]) else 1):
                second[frame[0]] += frame[3] * 1e9
        for frame, ns in entries.most_common(3):
            expect(abs(second[frame] - ns) <= 0.005 * total, "outermost frames", frame, second[frame], ns)
        expect(inclusive, "nothing")


def gprof2dot():
    """Debian has none; PyPI's, below build/."""
    venv = os.path.join(ROOT, "build", "report-venv")
    program = shutil.which("gprof2dot") or os.path.join(venv, "bin", "gprof2dot")
    if not os.path.exists(program):
        for command in ([sys.executable, "-m", "venv", venv], [os.path.join(venv, "bin", "pip"), "install", "-q", "gprof2dot"]):
            if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120).returncode:
                raise Skip("gprof2dot is missing, and PyPI's could not be installed")
    return program


def test_collapsed_is_read_by_others(recordings):
    path = os.path.join(recordings.folder, "native.txt")
    cprofd("convert", recordings.path("native"), "-f", "raw", "-o", path)
    total = 0
    for line in open(path):  # flamegraph.pl's own expression
        match = re.fullmatch(r"(.*)\s+?(\d+(?:\.\d*)?)\n", line)
        expect(match and match[1] and ";;" not in match[1], "a line", line)
        total += int(match[2])
    expect(abs(total - sum(s.cpu for s in recordings.samples("native")) // 1000) <= 1, "total", total)
    run = subprocess.run([gprof2dot(), "-f", "collapse", "-n0", "-e0", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    expect(run.returncode == 0 and b"digraph" in run.stdout and b"run_pass" in run.stdout, "gprof2dot", run.stderr.decode())


# --- what goes wrong ---

def test_bad_input(recordings):
    path, folder = recordings.path("python"), recordings.folder
    whole = open(path, "rb").read()

    def fails(*args, says, status=1):
        err = cprofd(*args, status=status).err
        for words in says:
            expect(words in err, "stderr does not say %r" % words, err)

    for name, data in (("empty", b""), ("noise", os.urandom(5000)), ("damaged", whole[:3000] + b"xxxx" + whole[3004:])):
        bad = os.path.join(folder, name)
        open(bad, "wb").write(data)
        if name != "empty":
            fails("report", bad, says=["not a recording, or it is damaged"])
            for form in ("svg", "pprof"):
                fails("convert", bad, "-f", form, "-o", os.path.join(folder, "never"), says=["not a recording"])
    run = cprofd("report", os.path.join(folder, "empty"))
    expect("nothing is left" in run.err, "an empty file", run.err)
    cut = os.path.join(folder, "truncated.cprof")
    open(cut, "wb").write(whole[:len(whole) * 2 // 3])
    result = report(cut, "--by=function")
    expect(result["recordings"][0]["cut"] and result["tables"][0]["rows"], "a truncated recording")
    expect("ends in the middle" in cprofd("report", cut).out, "it is not said that it is truncated")
    same("a truncated recording", shown(result["tables"][0]["rows"]), add_up(read_truncated(cut), function))
    fails("report", path, "--callers", "dwn", says=["no sample has a function dwn", "down"])
    fails("report", path, "--function", "evne", says=["has no function evne", "even"])
    fails("convert", path, "-f", "svg", "-o", os.path.join(folder, "never"), "--module", "numbaa", says=["has no module numbaa"])
    fails("report", path, "--thread", "pyton3", says=["no thread pyton3", "python3"])
    fails("report", path, "--class", "interpretre", says=["no class interpretre"])
    expect(not os.path.exists(os.path.join(folder, "never")), "a file was written")
    run = cprofd("report", path, "--window", "1000,1001")
    expect("nothing is left" in run.err and "0 of 0 rows" in run.out, "an empty result", run.err, run.out)
    fails("report", says=["which recording"], status=2)
    fails("report", os.path.join(folder, "not there"), says=["cannot be read"])
    fails("report", path, "--by=nonsense", says=["is not one of"], status=2)
    fails("report", path, "--top=-3", says=["is not a number of rows"], status=2)
    fails("report", path, "--until=200%", says=["is not a share"], status=2)
    fails("report", path, "--json", "--csv", says=["one of them"], status=2)
    # From a pipe, and as plain lines.
    plain = subprocess.run(["zstdcat", path], stdout=subprocess.PIPE, check=True).stdout
    result = json.loads(cprofd("report", "-", "--json", "--by=function", stdin=plain).out)
    same("plain lines from a pipe", shown(result["tables"][0]["rows"]), add_up(recordings.samples("python"), function))


def read_truncated(path):
    run = subprocess.run(["zstdcat", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    text = run.stdout[:run.stdout.rfind(b"\n") + 1]
    with tempfile.NamedTemporaryFile(suffix=".zst") as file:
        subprocess.run(["zstd", "-q", "-f", "-o", file.name], input=text, check=True)
        return read_recording(file.name)


def main():
    if os.geteuid():
        sys.exit("report.py needs root")
    tests = [(name[5:], value) for name, value in sorted(globals().items()) if name.startswith("test_")]
    wanted = [(name, test) for name, test in tests if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]
    counts = collections.Counter()
    folder = tempfile.mkdtemp(prefix="cprofd-report-")
    try:
        recordings = Recordings(folder)
        for name, test in wanted:
            begin = sum(os.times()[:4])
            try:
                test(recordings)
                print("ok      %s (%.1f s of CPU)" % (name, sum(os.times()[:4]) - begin))
                counts["passed"] += 1
            except Skip as skip:
                print("skipped %s: %s" % (name, skip))
                counts["skipped"] += 1
            except Exception as error:  # each is a failure of its own
                print("FAILED  %s: %s: %s" % (name, type(error).__name__, error))
                counts["failed"] += 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("%d passed, %d failed, %d skipped" % (counts["passed"], counts["failed"], counts["skipped"]))
    sys.exit(1 if counts["failed"] else 0)


main()
