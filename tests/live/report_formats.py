# SPDX-License-Identifier: MIT
"""report.py: svg, pprof, collapsed and Firefox Profiler's format, read by others' programs or with nothing but their descriptions."""
import collections
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree

from lib import ROOT
from report_truth import NO_CLASS, Skip, add_up, cprofd, expect, function, report, rows_of, same


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


def unit_labels(units):
    """The innermost compile, and the innermost phase and pass in it."""
    labels = ["", "", ""]
    for unit in units:
        if not labels[unit["kind"]] and not labels[0]:
            labels[unit["kind"]] = unit["name"] + ("" if unit["kind"] else "(%s)" % unit["signature"])
    return tuple(labels)


def test_pprof(recordings):
    for name in ("python", "native"):
        samples = recordings.samples(name)
        profile = Pprof(cprofd("convert", "--interpreter-frames", recordings.path(name), "-f", "pprof", "-o", "-", text=False).out)
        expect(profile.types == [("cpu", "nanoseconds"), ("wall", "nanoseconds")], "sample types", profile.types)
        sums = collections.defaultdict(lambda: [0, 0])
        for stack, (cpu, _), labels in profile.samples:
            expect(set(labels) >= {"thread", "tid", "process", "pid"}, "labels", labels)
            sums[stack[0]][0] += cpu
            for location in set(stack):
                sums[location][1] += cpu
        have = {key: tuple(pair) for key, pair in sums.items() if pair[1]}
        want = add_up(samples, lambda f: (f.name, f.file, f.first, f.line or f.first, f.module), told=lambda stack: stack)
        same(name, have, want)
        told = report(recordings.path(name))["recordings"][0]
        # A thread's end may have more CPU time than wall time (docs/protocol.md): idle time of less than a period makes up for some of that.
        short = [sample.cpu - sample.wall for sample in recordings.rows(name) if sample.cpu > sample.wall]
        more = sum(values[1] for _, values, _ in profile.samples) - told["wall_ns"]
        expect(sum(short) - len(short) * 1e9 / told["rate_hz"] <= more <= sum(short), "wall time", more, short)
        classes = collections.Counter()
        for _, (cpu, _), labels in profile.samples:
            classes[labels.get("class", NO_CLASS)] += cpu
        want = collections.Counter()
        for sample in samples:
            want[sample.class_name] += sample.cpu
        same("classes", {k: v for k, v in classes.items() if v}, {k: v for k, v in want.items() if v})
        units = collections.Counter()
        for _, (cpu, _), labels in profile.samples:
            units[labels.get("unit", ""), labels.get("phase", ""), labels.get("pass", "")] += cpu
        want = collections.Counter()
        for sample in samples:
            want[unit_labels(sample.units)] += sample.cpu
        same("units", {k: v for k, v in units.items() if v}, {k: v for k, v in want.items() if v})
        threads = collections.Counter()
        for _, (cpu, _), labels in profile.samples:
            threads[labels["tid"]] += cpu
        want = collections.Counter()
        for sample in samples:
            want[sample.thread["tid"]] += sample.cpu
        same("threads", {k: v for k, v in threads.items() if v}, {k: v for k, v in want.items() if v})


def firefox_threads(profile):
    """(thread, [(stack leaf first: (name, file, first line, line, module)), category, ms, weight in ms, CPU in ns)])."""
    categories = [c["name"] for c in profile["meta"]["categories"]]
    for thread in profile["threads"]:
        strings, stacks, frames, functions, resources = (thread[k] for k in (
            "stringArray", "stackTable", "frameTable", "funcTable", "resourceTable"))
        for name, table in thread.items():
            if isinstance(table, dict):
                columns = {k: len(v) for k, v in table.items() if isinstance(v, list)}
                expect(set(columns.values()) <= {table["length"]}, "columns of " + name, columns)

        def frame(index):
            at = frames["func"][index]
            text = [strings[i] if i is not None else "" for i in (functions["name"][at], functions["fileName"][at])]
            module = strings[resources["name"][functions["resource"][at]]] if functions["resource"][at] >= 0 else ""
            first = functions["lineNumber"][at] or 0
            return (*text, first, frames["line"][index] or first, module)

        rows, samples = [], thread["samples"]
        for i in range(samples["length"] - 1):
            stack, at = [], samples["stack"][i]
            category = None if at is None else categories[frames["category"][stacks["frame"][at]]]
            while at is not None:
                stack.append(frame(stacks["frame"][at]))
                expect(stacks["prefix"][at] is None or stacks["prefix"][at] < at, "callers come first")
                at = stacks["prefix"][at]
            rows.append((stack, category, samples["time"][i + 1] - samples["time"][i], samples["weight"][i], samples["threadCPUDelta"][i + 1]))
        expect(samples["stack"][-1] is None and samples["weight"][-1] == 0, "the end of the last sample")
        yield thread, rows


def thread_lives(path):
    """{tid: [how long its threads were there]}, ms, of the recording's lines: before exec and after it are two."""
    begun, lives = {}, collections.defaultdict(list)
    for line in map(json.loads, subprocess.run(["zstdcat", path], stdout=subprocess.PIPE, check=True).stdout.splitlines()):
        if line["ev"] == "thread":
            begun.setdefault(line["id"], line)
        elif line["ev"] == "thread_end":
            thread = begun[line["id"]]
            lives[thread["tid"]].append((line["time"] - thread["time"]) / 1e6)
    return lives


def test_firefox(recordings):
    """Its tables give the sums of the recording; the version is the last one whose threads have tables of their own, for Perfetto."""
    for name in ("python", "native"):
        path, samples = recordings.path(name), recordings.samples(name)
        profile = json.loads(cprofd("convert", "--interpreter-frames", path, "-f", "firefox", "-o", "-").out)
        lives = thread_lives(path)
        expect(profile["meta"]["preprocessedProfileVersion"] == 55, "version", profile["meta"]["preprocessedProfileVersion"])
        sums, classes, threads = collections.defaultdict(lambda: [0, 0]), collections.Counter(), collections.Counter()
        for thread, rows in firefox_threads(profile):
            lasts = sum(row[2] for row in rows)
            # A sample may have more CPU time than wall time (docs/protocol.md), which idle time makes up for if there is any.
            more = sum(sample.cpu - sample.wall for sample in recordings.rows(name) if sample.cpu > sample.wall) / 1e6
            expect(any(-0.001 < lasts - life < more + 0.001 for life in lives[thread["tid"]]), "a thread's time", lasts, lives[thread["tid"]], more)
            for stack, category, _, weight, cpu in rows:
                expect(abs(weight * 1e6 - (cpu if stack else 0)) < 1, "weight", weight, cpu)
                if stack and stack[0][0] != "(not recorded)":
                    threads[thread["tid"]] += cpu
                    classes[category] += cpu
                    sums[stack[0]][0] += cpu
                    for place in set(stack):
                        sums[place][1] += cpu
        have = {key: tuple(pair) for key, pair in sums.items() if pair[1]}
        same(name, have, add_up(samples, lambda f: (f.name, f.file, f.first, f.line or f.first, f.module), told=lambda stack: stack))
        want = collections.Counter()
        for sample in samples:
            want[sample.class_name] += sample.cpu
        same("classes", {k: v for k, v in classes.items() if v}, {k: v for k, v in want.items() if v})
        want = collections.Counter()
        for sample in samples:
            want[sample.thread["tid"]] += sample.cpu
        same("threads", {k: v for k, v in threads.items() if v}, {k: v for k, v in want.items() if v})
        marked = collections.Counter()
        for thread in profile["threads"]:
            markers = thread["markers"]
            schemas = {schema["name"]: {f["key"] for f in schema["fields"]} for schema in profile["meta"]["markerSchema"]}
            for at, begin, end, data in zip(markers["name"], markers["startTime"], markers["endTime"], markers["data"]):
                expect(0 <= begin < end <= profile["meta"]["profilingEndTime"] + 1, "times of a marker", begin, end)
                expect(data["type"] == "cprofd-" + thread["stringArray"][at] and set(data) - {"type"} <= schemas[data["type"]], "schema", data)
                if data["type"] != "cprofd-wait":
                    marked[data["type"], data["name"]] += 1
        calls = {unit["serial"]: unit for sample in recordings.rows(name) for unit in sample.units}
        want = collections.Counter(("cprofd-" + ("compile", "phase", "pass")[unit["kind"]], unit["name"]) for unit in calls.values()
                                   if unit["begin"] < unit["end"])
        expect(bool(want) == (name == "native"), "compiles of the truth", want)
        expect(marked == want, "markers", marked - want, want - marked)


def test_go_tool_pprof(recordings):
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")
    if not go or subprocess.run([go, "tool", "pprof", "-h"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode not in (0, 2):
        raise Skip("go tool pprof is missing (apt-get install golang-go)")
    path = os.path.join(recordings.folder, "native.pb.gz")
    cprofd("convert", "--interpreter-frames", recordings.path("native"), "-f", "pprof", "-o", path)
    result = report(recordings.path("native"), "--by=function", "--native-frames")

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
    expect("interpreter" in pprof("-tags") and "python3" in pprof("-tags"), "labels")
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
        frames = picture(cprofd("convert", "--interpreter-frames", recordings.path(name), "-f", "flamegraph", "-o", "-").out)
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
        inclusive = {f[0]: n for f, (_, n) in add_up(samples, function, told=lambda stack: stack).items() if f[0] != "down"}
        entries = collections.Counter()
        for sample in samples:
            entries[sample.stack[-1].name] += sample.cpu
        # From the top: the whole, threads where they are told apart, their outermost frames.
        outermost = sorted(rows)[2 if any(re.search(r"\(\d+\)$", f[0]) for f in frames[1:2]) else 1]
        second = collections.Counter()
        for frame in frames:
            if frame[5] == outermost:
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
    cprofd("convert", "--interpreter-frames", recordings.path("native"), "-f", "raw", "-o", path)
    total = 0
    for line in open(path):  # flamegraph.pl's own expression
        match = re.fullmatch(r"(.*)\s+?(\d+(?:\.\d*)?)\n", line)
        expect(match and match[1] and ";;" not in match[1], "a line", line)
        total += int(match[2])
    expect(abs(total - sum(s.cpu for s in recordings.samples("native")) // 1000) <= 1, "total", total)
    run = subprocess.run([gprof2dot(), "-f", "collapse", "-n0", "-e0", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    expect(run.returncode == 0 and b"digraph" in run.stdout and b"run_pass" in run.stdout, "gprof2dot", run.stderr.decode())


def test_diff_limits(recordings):
    """diff --fail-on: of recordings that are twice the same, any growth is sure; of one a side none is."""
    short, long = recordings.path("again"), recordings.path("python")
    cpu = [sum(sample.cpu for sample in recordings.rows(name)) for name in ("again", "python")]
    growth = 100 * (cpu[1] / cpu[0] - 1)
    expect(growth > 10, "the longer one has more CPU time", cpu)
    twice = ("diff", short, short, "vs", long, long)
    run = cprofd(*twice, "--fail-on", "total>%.1f%%" % (growth - 1), status=3)
    expect("cprofd: grew: CPU time: %.3f s -> %.3f s" % (cpu[0] / 1e9, cpu[1] / 1e9) in run.err, "what grew", run.err)
    run = cprofd(*twice, "--fail-on", "total>%.1f%%" % (growth + 1), "--markdown")
    expect(run.out.startswith("**cprofd diff: nothing surely grew") and "| CPU time | %.3f s | %.3f s | %+.1f %% |" % (
        cpu[0] / 1e9, cpu[1] / 1e9, growth) in run.out and not run.err, "Markdown", run.out, run.err)
    for line in run.out.splitlines():
        expect(not line.startswith("|") or len(re.findall(r"(?<!\\)\|", line)) == 6, "cells of a row", line)
    run = cprofd(*twice, "--fail-on", "total>%.1f%%,compiles>5%%" % (growth - 1), "--junit", status=3)
    suite = xml.etree.ElementTree.fromstring(run.out)
    expect([suite.get(key) for key in ("tests", "failures", "errors")] == ["2", "1", "0"], "JUnit's counts", run.out)
    expect([(case.get("name").split()[0], case.find("failure") is not None) for case in suite] == [("total", True), ("compiles", False)], "its cases", run.out)
    expect("CPU time: %.3f s -> %.3f s" % (cpu[0] / 1e9, cpu[1] / 1e9) in suite[0].find("failure").get("message"), "its message", run.out)
    suite = xml.etree.ElementTree.fromstring(cprofd("diff", short, long, "--fail-on", "total>3%", "--junit", status=1).out)
    expect(suite.get("errors") == "1" and "several of each side" in suite[0].find("error").get("message"), "JUnit: one a side")
    expect("--fail-on has none" in cprofd(*twice, "--junit", status=2).err, "--junit alone")
    run = cprofd("diff", short, long, "--fail-on", "total>3%", status=1)
    expect("cannot say whether total surely grew" in run.err and "several of each side" in run.err, "one a side", run.err)
    run = cprofd("diff", short, long, "--fail-on", "total>3", status=2)
    expect("is not of the form" in run.err, "not a limit", run.err)
