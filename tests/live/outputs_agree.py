#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""All outputs agree on totals: of recordings of CPU and wall time, with children, threads that hardly run, a compiler, all outputs give the same shares of
classes, functions and units: the summary, report as text, JSON and CSV, the HTML page, SVG, collapsed stacks, pprof, speedscope, Firefox Profiler, Perfetto, OpenTelemetry. And classes add up
to all there is. Needs root.

    outputs_agree.py [--seconds N]

run-live: beside"""
import argparse
import collections
import csv
import gzip
import html
import io
import json
import os
import re
import subprocess
import sys
import tempfile

import report_perfetto
from lib import CPROFD, recording
from lib.result import check_figures, finish, skip

PYTHON = "/usr/bin/python3"
POINT = 0.1 + 0.051  # what is told has one digit
WORK = """
import sys, threading, time, os
def leaf(n):
    s = 0
    for i in range(n):
        s += i
    return s
def compute(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        leaf(3000)
        sorted(range(20000), key=lambda x: -x)
def rest(seconds):
    time.sleep(seconds)
"""
# Two that work, three that hardly run.
THREADS = WORK + """
for i in range(3):
    threading.Thread(target=rest, args=(1000,), daemon=True, name="idle-%d" % i).start()
def both():
    while True:
        compute(0.02)
        rest(0.02)
threading.Thread(target=both, daemon=True).start()
print("up", flush=True)
both()
"""
CHILDREN = WORK + """
print("up", flush=True)
while True:
    pid = os.fork()
    if not pid:
        compute(0.4)
        os._exit(0)
    compute(0.1)
    os.waitpid(pid, 0)
"""
NUMBA = """
import threading, time
import numba
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
def make(i):
    space = {"numba": numba}
    exec("@numba.njit\\ndef kernel_%d(x):\\n    s = 0.0\\n    for i in range(x.shape[0]):\\n        s += x[i] ** %d\\n    return s" % (i, i), space)
    return space["kernel_%d" % i]
import numpy
block = numpy.arange(100.0)
make(0)(block)
print("up", flush=True)
i = 0
while True:
    i += 1
    make(i)(block)
    time.sleep(0.05)
"""


def run(*arguments, **how):
    done = subprocess.run([CPROFD, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, **how)
    if done.returncode:
        raise RuntimeError("%s: %s" % (" ".join(arguments), done.stderr.decode()))
    return done.stdout, done.stderr.decode()


def percent(text):
    return {name.strip(): float(share) for share, name in re.findall(r"^ *[\d.]+ +([\d.]+) +(?:[\d.]+ +)*(\S.*?)$", text, re.M)}


# --- classes: {name: per cent} ---

def summary_classes(err):
    """"    Wall time by class: waiting 52.0 %, interpreter 40.1 %,", in as many lines as it takes."""
    lines = re.search(r"time by class[^:]*: ((?:.*,\n)*.*)$", err, re.M)
    return {name.strip(" ,:"): float(share) for name, share in re.findall(r"([A-Za-z][A-Za-z ]*?) ([\d.]+) %", " ".join(lines[1].split()))} if lines else {}


def csv_shares(text, table):
    return {row["name"]: 100 * float(row["exclusive_share"]) for row in csv.DictReader(io.StringIO(text))
            if row["table"] == table and not row["class"]}


def json_shares(told, table, inclusive=False):
    for found in told["tables"]:
        if found["by"] == table:
            return {row["name"]: 100 * row["inclusive_share" if inclusive else "exclusive_share"] for row in found["rows"]}, found["total_ns"]
    return {}, 0


def page_classes(page):
    legend = re.search(r'<p class="legend">(.*?)</p>', page, re.S)
    return {html.unescape(name).strip(): float(share) for name, share in
            re.findall(r'</b>([^<]+?) ([\d.]+)[\s\u202f\u00a0]*%', legend[1])} if legend else {}


# --- functions, by the share of stacks that they are in ---

def collapsed_functions(text):
    total, of = 0, collections.Counter()
    for line in text.splitlines():
        stack, weight = line.rsplit(" ", 1)
        total += int(weight)
        for name in {re.sub(r" \([^()]*\)$", "", frame) for frame in stack.split(";")}:
            of[name] += int(weight)
    return {name: 100 * n / total for name, n in of.items()}, total * 1000


def svg_functions(text):
    of = collections.Counter()
    for title in re.findall(r"<title>(.*?)</title>", text, re.S):
        lines = html.unescape(title).split("\n")
        share = re.search(r"([\d.]+) %$", lines[-1])
        if share:
            of[lines[0]] += float(share[1])
    return of


def speedscope_functions(told):
    frames = [f["name"] for f in told["shared"]["frames"]]
    profile = told["profiles"][0]
    of, total = collections.Counter(), sum(profile["weights"])
    for stack, weight in zip(profile["samples"], profile["weights"]):
        if any(frames[f] == "(idle)" for f in stack):
            total -= weight  # it keeps the place of what is no stack's
            continue
        for name in {frames[f] for f in stack}:
            of[name] += weight
    return {name: 100 * n / total for name, n in of.items()}, total


def fields(data):
    """(number, value) of a message of protocol buffers."""
    at = 0

    def varint():
        nonlocal at
        n = shift = 0
        while True:
            byte = data[at]
            at += 1
            n |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return n
    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        elif tag & 7 == 1:
            yield tag >> 3, int.from_bytes(data[at:at + 8], "little")
            at += 8
        else:
            size = varint()
            yield tag >> 3, data[at:at + size]
            at += size


def numbers(data):
    n = shift = 0
    for byte in data:
        n |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield n
            n = shift = 0


def pprof_functions(data, wall):
    strings, functions, locations, rows = [], {}, {}, []
    for field, value in fields(gzip.decompress(data)):
        if field == 6:
            strings.append(value.decode("utf-8", "replace"))
        elif field == 5:
            row = dict(fields(value))
            functions[row[1]] = row[2]
        elif field == 4:
            row = dict(fields(value))
            locations[row[1]] = dict(fields(row[4]))[1]
        elif field == 2:
            row = dict(fields(value))
            rows.append((list(numbers(row.get(1, b""))), list(numbers(row[2]))))
    total, of = 0, collections.Counter()
    for stack, values in rows:
        weight = values[-1] if wall else values[0]
        total += weight
        for name in {strings[functions[locations[at]]] for at in stack}:
            of[name] += weight
    return {name: 100 * n / total for name, n in of.items()}, total


def otlp_functions(data, wall):
    """Of the first profile of each process, and the shares of classes. tests/live/otlp.py reads all of it."""
    request, tables, rows = list(fields(gzip.decompress(data))), collections.defaultdict(list), []
    for field, value in fields(dict(request)[2]):
        tables[field].append(value)
    text = [value.decode() for value in tables[5]]
    names = [text[dict(fields(value)).get(1, 0)] for value in tables[3]]
    locations = [names[dict(fields(dict(fields(value))[3])).get(1, 0)] if value else "" for value in tables[2]]
    attributes = [{text[row[1]]: dict(fields(row[2])).get(1)} if row else {} for row in (dict(fields(value)) for value in tables[6])]
    for resource in (value for field, value in request if field == 1):
        profiles = [value for field, value in fields(dict(fields(resource))[2]) if field == 2]
        kinds = [text[dict(fields(dict(fields(profile))[1]))[1]] for profile in profiles]
        check_figures(kinds == (["wall", "cpu"] if wall else ["cpu"])[:len(kinds)], "OpenTelemetry's types", kinds)
        for sample in (dict(fields(value)) for field, value in fields(profiles[0]) if field == 2):
            of = {}
            for at in numbers(sample[2]):
                of.update(attributes[at])
            rows.append(([locations[at] for at in numbers(dict(fields(tables[7][sample[1]]))[1])], sum(numbers(sample[4])), of["cprofd.class"].decode()))
    total, of, classes = 0, collections.Counter(), collections.Counter()
    for stack, weight, kind in rows:
        total += weight
        classes[kind] += weight
        for name in set(stack):
            of[name] += weight
    return ({name: 100 * n / total for name, n in counts.items()} for counts in (of, classes)), total


def firefox_functions(told):
    """And the shares of classes."""
    total, of, classes = 0, collections.Counter(), collections.Counter()
    for index in told["meta"]["initialVisibleThreads"]:
        thread = told["threads"][index]
        strings, stacks, frames, functions = (thread[k] for k in ("stringArray", "stackTable", "frameTable", "funcTable"))
        for at, weight in zip(thread["samples"]["stack"], thread["samples"]["weight"]):
            if at is None:
                continue
            total += weight
            classes[told["meta"]["categories"][frames["category"][stacks["frame"][at]]]["name"]] += weight
            names = set()
            while at is not None:
                names.add(strings[functions["name"][frames["func"][stacks["frame"][at]]]])
                at = stacks["prefix"][at]
            for name in names:
                of[name] += weight
    return ({name: 100 * n / total for name, n in counts.items()} for counts in (of, classes)), total * 1e6


def perfetto_functions(trace, tids):
    """Of the threads that are shown: Perfetto has a track for each, also for those that hardly ran."""
    total, of = 0, collections.Counter()
    for sample in trace.samples:
        if sample.tid in tids:
            total += sample.weights[0]
            for name in {frame[0] for frame in sample.frames}:
                of[name] += sample.weights[0]
    return {name: 100 * n / total for name, n in of.items()}, total


def compare(name, what, expected, told, names, slack=0):
    off = {n: (round(expected[n], 2), round(told.get(n, 0), 2)) for n in names if abs(expected[n] - told.get(n, 0)) > POINT + slack}
    check_figures(told and not off, "%s: %s" % (name, what), off)


def judge(name, code, seconds, *options):
    wall = "--mode=wall" in options
    with tempfile.TemporaryDirectory() as folder:
        env = {k: v for k, v in os.environ.items() if not k.startswith("SUDO_")}
        target = subprocess.Popen([PYTHON, "-c", code], stdout=subprocess.PIPE, text=True)
        try:
            target.stdout.readline()
            path = os.path.join(folder, "x.cprof")
            _, summary = run("attach", str(target.pid), "-d", str(seconds), "--native=full", "-o", path, *options, env=env)
        finally:
            target.kill()
            target.wait()

        def convert(format, *more):
            out = os.path.join(folder, "x." + format)
            run("convert", path, "-f", format, "-o", out, *more, env=env)
            with open(out, "rb") as file:
                return file.read()
        told = json.loads(run("report", path, "--json", env=env)[0])
        classes, total = json_shares(told, "class")
        check_figures(abs(sum(classes.values()) - 100) < 0.01, "%s: classes are all" % name, sum(classes.values()))
        big = [c for c, share in classes.items() if share >= 1]
        compare(name, "classes of the text", classes, percent(run("report", path, "--by=class", env=env)[0].decode()), big)
        compare(name, "classes of the CSV", classes, csv_shares(run("report", path, "--by=class", "--csv", env=env)[0].decode(), "class"), big)
        compare(name, "classes of the page", classes, page_classes(convert("html").decode()), big)
        short = summary_classes(summary)
        compare(name, "classes of the summary", classes, short, big)
        check_figures(abs(sum(short.values()) - 100) < 0.06 * len(short), "%s: the summary's classes add up" % name, short)
        functions, _ = json_shares(told, "function", True)
        once = collections.Counter(row["name"] for table in told["tables"] if table["by"] == "function" for row in table["rows"])
        most = [f for f in sorted(functions, key=lambda f: -functions[f]) if once[f] == 1 and not f.startswith("(")][:12]
        idle = ["-i"] if wall else []
        sums = {}
        # Of waits the stacks are asked for; what is idle without one is in no share.
        shares, sums["collapsed"] = collapsed_functions(convert("collapsed", *idle).decode())
        compare(name, "functions of collapsed stacks", functions, shares, most)
        shares, sums["pprof"] = pprof_functions(convert("pprof", *idle), wall)
        compare(name, "functions of pprof", functions, shares, most)
        (shares, kinds), sums["otlp"] = otlp_functions(convert("otlp", *idle), wall)
        compare(name, "functions of OpenTelemetry", functions, shares, most)
        compare(name, "classes of OpenTelemetry", classes, kinds, big)
        check_figures(sums["otlp"] == total, "%s: the sum of OpenTelemetry's values" % name, (sums["otlp"], total))
        shares, sums["speedscope"] = speedscope_functions(json.loads(convert("speedscope", *idle)))
        # Time lines keep in its place what samples of other threads stand for.
        stood = sum(sum(event.get("others", [])) for event in recording.read(path) if event["ev"] == "samples")
        compare(name, "functions of speedscope", functions, shares, most, 100 * stood / sums["speedscope"])
        profile = json.loads(gzip.decompress(convert("firefox", *idle)))
        (shares, kinds), sums["firefox"] = firefox_functions(profile)
        compare(name, "functions of Firefox Profiler", functions, shares, most, 100 * stood / sums["firefox"])
        compare(name, "classes of Firefox Profiler", classes, kinds, big, 100 * stood / sums["firefox"])
        tids = {profile["threads"][index]["tid"] for index in profile["meta"]["initialVisibleThreads"]}
        try:
            shares, sums["perfetto"] = perfetto_functions(report_perfetto.Trace(convert("perfetto", *idle)), tids)
            compare(name, "functions of Perfetto", functions, shares, most, 100 * stood / sums["perfetto"])
        except report_perfetto.Skip as why:
            skip("%s: %s" % (name, why))
        top = [f for f in most if "<" not in f][:6]
        shares = svg_functions(convert("svg", *idle).decode())
        # One that is in a stack twice has two boxes.
        compare(name, "functions of SVG", functions, shares, [f for f in top if shares[f] <= 100])
        print("    total %.3f s; %s" % (total / 1e9, ", ".join("%s %.3f" % (k, v / 1e9) for k, v in sums.items())))


CASES = {"threads, wall time": (THREADS, "--mode=wall"), "threads, CPU time": (THREADS,), "children, wall time": (CHILDREN, "--mode=wall", "-s"),
         "children, CPU time": (CHILDREN, "-s"), "Numba, wall time": (NUMBA, "--mode=wall")}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("only", nargs="*")
    arguments = parser.parse_args()
    for name, (code, *options) in CASES.items():
        if os.geteuid() or (code is NUMBA and subprocess.call([PYTHON, "-c", "import numba"], stderr=subprocess.DEVNULL)):
            skip(name + ": needs root" if os.geteuid() else name + ": python3 has no numba")
        elif not arguments.only or any(word in name for word in arguments.only):
            judge(name, code, arguments.seconds, *options)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
