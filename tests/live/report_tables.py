# SPDX-License-Identifier: MIT
"""report.py: the tables, filters, and the forms they are printed in."""
import collections
import csv
import fnmatch
import io
import json
import os
import re
import statistics
import subprocess
import xml.etree.ElementTree

import report_formats
from lib import CPROFD, ROOT
from report_truth import (CAUSES, COMPILE, Frame, INTERPRETER, NO_CLASS, NOT_SAMPLED, PYTHON, REPEATS, add_up, at_line, cprofd, expect, function, module, package,
                          read_recording, report, rows_of, same, shown, stand, told)


def test_tables(recordings):
    for name in ("python", "native"):
        samples = recordings.samples(name)
        result = report(recordings.path(name), "--by=function,line,package,module,file,process,thread,class")
        same(name + " functions", shown(rows_of(result, "function")), add_up(samples, function))
        same(name + " lines", shown(rows_of(result, "line")), add_up(samples, at_line))
        same(name + " packages", shown(rows_of(result, "package")), add_up(samples, package))
        same(name + " modules", shown(rows_of(result, "module")), add_up(samples, module))
        same(name + " files", shown(rows_of(result, "file")), add_up(samples, lambda f: f.file or f.module or "(notes)"))
        total = sum(sample.cpu for sample in samples)
        threads = collections.Counter()
        for sample in samples:
            threads["%s (%d)" % (sample.thread["name"], sample.thread["tid"])] += sample.cpu
        expect({r["pid"] for by in ("process", "thread") for r in rows_of(result, by)} == {result["recordings"][0]["pid"]}, "pids", result)
        told, split, parts = collections.Counter(), collections.Counter(), collections.Counter()
        for row in rows_of(result, "thread"):
            told[row["name"]] += row["exclusive_ns"]
            for part in row["classes"]:
                split[row["name"], part["name"]] += part["exclusive_ns"]
        for sample in samples:
            parts["%s (%d)" % (sample.thread["name"], sample.thread["tid"]), sample.class_name] += sample.cpu
        same(name + " threads", dict(told), {k: v for k, v in threads.items() if v})
        same(name + " classes of threads", dict(split), {k: v for k, v in parts.items() if v})
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


def test_native_frames(recordings):
    # By the target's own CPU clock: a third of it in short(), two thirds in long(), bytecode alone.
    program = os.path.join(recordings.folder, "known.py")
    with open(program, "w") as file:
        file.write("""
import time
def short(end):
    while time.thread_time_ns() < end:
        for _ in range(5): x = y = 1; BYTECODE
def long(end):
    while time.thread_time_ns() < end:
        for _ in range(5): x = y = 1; BYTECODE
clock = time.thread_time_ns
for i in range(50):
    short(clock() + 10000000)
    long(clock() + 20000000)
""".replace("BYTECODE", "x = y; y = x; " * 2000))
    path = os.path.join(recordings.folder, "known.cprof")
    words = cprofd("record", "-o", path, "--", PYTHON, program).err
    samples = stand(read_recording(path))
    expect(any(f.kind == INTERPRETER for s in samples for f in s.stack), "no native frames of the interpreter")
    # The clock's own system call is inside of these frames as well.
    rows = {r["name"]: r["inclusive_share"] for r in report(path, "--by=function")["tables"][0]["rows"]}
    spent = rows["short"] + rows["long"]
    expect(spent > 0.9 and abs(rows["short"] / spent - 1 / 3) < 0.02, "not what the target's clock says", rows)
    own = {r["name"]: r["exclusive_share"] for r in report(path, "--by=function")["tables"][0]["rows"]}
    # Of a stack without Python frames (a tick before they are there) the eval loop's own stays.
    expect(own["short"] + own["long"] > 0.85 and sum(own[name] for name in own if "_PyEval" in name) < 0.002, "time of the eval loop", own)
    # The summary says the same.
    said = dict(re.findall(r"^ *([\d.]+) %  +[\d.]+ %  (\S+)", words.split("CPU time by function:")[1], re.M))
    expect(len(said) > 3 and all(abs(float(share) - 100 * own[name]) < 0.06 for name, share in said.items() if name in own), "the summary", said, own)
    same("with them", shown(report(path, "--by=function", "--native-frames")["tables"][0]["rows"]), add_up(samples, function, told=lambda stack: stack))
    # What is asked for by name is there without the option.
    table = report(path, "--callees", "PyEval_EvalCode")["tables"][0]
    want = sum(s.cpu for s in samples if any(f.name == "PyEval_EvalCode" for f in s.stack))
    expect(table["total_ns"] == want, "callees of one of them", table["total_ns"], want)


def in_their_time(samples):
    """A thread ran last, and did not before: of that what lies before a unit's begin is of the units around it. An end may have more CPU
    time than wall time (docs/protocol.md)."""
    for sample in samples:
        sample = sample._replace(wall=max(sample.wall, sample.cpu))
        rest, until, units = sample.wall - sample.cpu, sample.time - sample.cpu, sample.units
        own = rest if not units else min(rest, max(0, until - units[0]["begin"]))
        yield sample._replace(wall=sample.cpu + own) if rest > 0 else sample
        while rest > 0 and units:
            rest, until, units = rest - own, min(until, units[0]["begin"]), units[1:]
            own = rest if not units else min(rest, max(0, until - units[0]["begin"]))
            if own:
                yield sample._replace(cpu=0, wall=own, units=units, class_name=NO_CLASS)  # it did not run


def add_up_units(samples, kind, subjects=False):
    """{(name, signature): [exclusive, inclusive, elapsed, calls]}, and the lines that caused the compiles. Phases are by name alone, or
    those that are at work on something, by that, too. Units have what their threads ran: not what samples stand for."""
    def key(unit):
        return unit["name"], unit["signature"] if kind == 0 or subjects else ""
    sums, calls, triggers = collections.defaultdict(lambda: [0, 0, 0, 0]), {}, collections.Counter()
    for sample in in_their_time(samples):
        rows, compiled, leaf = set(), False, True
        for unit in sample.units:
            if unit["kind"] == kind and (unit["signature"] or not subjects):
                rows.add(key(unit))
                if not compiled if kind == 0 else leaf:
                    sums[key(unit)][0] += sample.cpu
            compiled |= unit["kind"] == 0
            leaf = False
            calls[unit["serial"]] = unit
        for row in rows:
            sums[row][1] += sample.cpu
            sums[row][2] += sample.wall
        if sample.units:
            trigger = sample.units[-1]["trigger"]
            triggers[at_line(trigger) if trigger else ("(not known)", "", 0, "")] += sample.cpu
        elif kind == 0:
            for i, time in enumerate((sample.cpu, sample.cpu, sample.wall)):
                sums["(outside of compiles)", ""][i] += time
        kinds = [unit["kind"] for unit in sample.units]
        if kind == 2 and 0 in kinds and 2 not in kinds[:kinds.index(0)] and sample.class_name == "compiler native":
            for i, time in enumerate((sample.cpu, sample.cpu, sample.wall)):
                sums["(in no known pass)", ""][i] += time
    for unit in calls.values():
        if unit["kind"] == kind and (unit["signature"] or not subjects):
            sums[key(unit)][3] += 1
    return {k: tuple(v) for k, v in sums.items()}, dict(triggers)


def test_units(recordings):
    samples = recordings.rows("native")
    result = report(recordings.path("native"), "--by=unit,phase,pass,trigger")
    for kind, by in enumerate(("unit", "phase", "pass")):
        want, triggers = add_up_units(samples, kind)
        have = {(r["name"], r.get("signature", "")): (r["exclusive_ns"], r["inclusive_ns"], r["elapsed_ns"], r["calls"]) for r in rows_of(result, by)}
        same(by, have, want)
    have = {(r["name"], s["name"]): (s["exclusive_ns"], s["inclusive_ns"], s["elapsed_ns"], s["calls"])
            for r in rows_of(result, "phase") for s in r.get("subjects", [])}
    same("subjects of phases", have, add_up_units(samples, 1, subjects=True)[0])
    kinds = {s[s.find(" ["):] for _, s in have if "total(" in s and " [" in s} # whether a sample met one is chance
    expect({r for r, _ in have} == {"Function passes"} and kinds <= {" [cpython wrapper]", " [cfunc wrapper]"}, "functions of Numba's, and their wrappers", have)
    have = {(r["name"], r["file"], r["line"], r["module"]): r["inclusive_ns"] for r in rows_of(result, "trigger")}
    same("triggers", have, triggers)
    expect({(key[0], os.path.basename(key[1]), key[2]) for key in have} - {("(not known)", "", 0)} == CAUSES, "the lines that cause compiles", have)
    names = {(r["name"], r["signature"]) for r in rows_of(result, "unit")}
    # Numba's own spelling of what COMPILE asks for.
    expect({("total", "UniTuple(int64 x 3)"), ("total", "UniTuple(float64 x 2)")} <= names, "the compiles", names)
    text = cprofd("report", recordings.path("native"), "--by=unit,trigger", "--top", "3").out
    expect("caused by" in text and "elapsed" in text and "times" in text, "the text", text)


def add_up_sources(samples):
    """{function: [exclusive, inclusive, elapsed, calls]}, and the same of its signatures."""
    sums, signatures = collections.defaultdict(lambda: [0, 0, 0, 0]), collections.defaultdict(lambda: [0, 0, 0, 0])
    for sample in in_their_time(samples):
        compiles = [u for u in sample.units if u["kind"] == 0]
        keys = [(u["name"],) + u["defined"] for u in compiles] or [("(outside of compiles)", "", 0)] * (not sample.units)
        typed = [key + (u["signature"],) for key, u in zip(keys, compiles)]
        for rows, to in ((keys, sums), (typed, signatures)):
            for row in set(rows):
                to[row][1] += sample.cpu
                to[row][2] += sample.wall
            if rows:
                to[rows[0]][0] += sample.cpu
    for unit in {u["serial"]: u for s in samples for u in s.units if u["kind"] == 0}.values():
        sums[(unit["name"],) + unit["defined"]][3] += 1
        signatures[(unit["name"],) + unit["defined"] + (unit["signature"],)][3] += 1
    return {k: tuple(v) for k, v in sums.items()}, {k: tuple(v) for k, v in signatures.items()}


def test_sources(recordings):
    path = recordings.path("native")
    want, want_each = add_up_sources(recordings.rows("native"))
    have, each = {}, {}
    for row in rows_of(report(path, "--by=source"), "source"):
        key = row["name"], row["file"], row["line"]
        have[key] = tuple(row[k] for k in ("exclusive_ns", "inclusive_ns", "elapsed_ns", "calls"))
        for part in row["signatures"]:
            each[key + (part["name"],)] = tuple(part[k] for k in ("exclusive_ns", "inclusive_ns", "elapsed_ns", "calls"))
    same("functions", have, want)
    same("signatures", each, want_each)
    # By hand: total() was compiled three times, for two types.
    mine = [key for key in have if key[0] == "total"]
    line = COMPILE.split("\n").index("def total(numbers):") + 1
    expect(len(mine) == 1 and mine[0][2] == line and have[mine[0]][3] == 3, "total()", mine, line)
    expect(sorted(key[3] for key in each if key[0] == "total") == ["UniTuple(float64 x 2)", "UniTuple(int64 x 3)"], "its signatures", each)
    text = cprofd("report", path, "--by=source").out
    expect(re.search(r" 3 +2  total +\S*compile.py:%d\n +[\d.]+ %%  for UniTuple\(" % line, text), "the text", text)
    rows = list(csv.DictReader(io.StringIO(cprofd("report", path, "--by=source", "--csv").out)))
    expect({r["name"]: (r["calls"], r["signatures"]) for r in rows}["total"] == ("3", "2"), "the CSV", rows)


def cause(unit):
    trigger = unit["trigger"]
    return at_line(trigger) if trigger else ("(not known)", "", 0, "")


def add_up_tree(samples, phases):
    """{path: [exclusive, inclusive, elapsed, calls]}; a path begins with the line that caused it."""
    sums, calls = collections.defaultdict(lambda: [0, 0, 0, 0]), {}

    def path_of(within):  # innermost first
        return (cause(within[-1]),) + tuple((u["kind"], u["name"], u["signature"]) for u in reversed(within) if phases or u["kind"] == 0)

    for sample in in_their_time(samples):
        if not sample.units:
            for i, time in enumerate((sample.cpu, sample.cpu, sample.wall)):
                sums["(outside of compiles)",][i] += time
            continue
        path = path_of(sample.units)
        for n in range(1, len(path) + 1):
            sums[path[:n]][1] += sample.cpu
            sums[path[:n]][2] += sample.wall
        own = max(n for n in range(1, len(path) + 1) if n == 1 or path[n - 1][0] == 0)
        if own > 1:
            sums[path[:own]][0] += sample.cpu
        if own != len(path):
            sums[path][0] += sample.cpu
        for i, unit in enumerate(sample.units):
            calls[unit["serial"]] = sample.units[i:]
    for within in calls.values():
        if phases or within[0]["kind"] == 0:
            sums[path_of(within)][3] += 1
        if len(within) == 1:
            sums[cause(within[0]),][3] += 1
    return {k: tuple(v) for k, v in sums.items()}


def branches(rows, above=(), depth=1):
    for row in rows:
        kind = ["unit", "phase", "pass"].index(row["what"]) if row["what"] in ("unit", "phase", "pass") else None
        key = (row["name"] if row["what"] == "outside" else (row["name"], row["file"], row["line"], row["module"])) if kind is None \
            else (kind, row["name"], row.get("signature", ""))
        yield above + (key,), row, depth
        yield from branches(row["rows"], above + (key,), depth + 1)


def test_tree(recordings):
    path, samples = recordings.path("native"), recordings.rows("native")
    for phases in (False, True):
        rows = report(path, "--tree", *["--phases"] * phases)["tables"][0]["rows"]
        have = {key: (r["exclusive_ns"], r["inclusive_ns"], r["elapsed_ns"], r["calls"]) for key, r, _ in branches(rows)}
        same("tree, phases: %s" % phases, have, add_up_tree(samples, phases))
        for key, row, _ in branches(rows):
            order = [r["inclusive_ns"] for r in row["rows"]]
            expect(order == sorted(order, reverse=True) and sum(order) <= row["inclusive_ns"], "order or sums", row)
    rows = list(branches(rows))
    cut = list(branches(report(path, "--tree", "--phases", "--depth", "3", "--top", "2", "--min-share", "1%")["tables"][0]["rows"]))
    total = sum(s.cpu for s in samples)
    expect(max(depth for *_, depth in cut) == 3 and all(r["inclusive_ns"] >= total / 100 and len(r["rows"]) <= 2 for _, r, _ in cut), "cuts", cut)
    text = cprofd("report", path, "--tree", "--phases").out
    at = {name: text.split(name)[0].split("\n")[-1] for name in ("caused by <module>", "total(UniTuple", "native_lowering")}
    widths = [len(line) for line in at.values()]
    expect(widths[0] < widths[1] < widths[2] and "by tree" in text, "indentation", at)
    told = [line for line in csv.DictReader(io.StringIO(cprofd("report", path, "--tree", "--phases", "--csv").out, newline=""))]
    expect([(r["name"], int(r["inclusive_ns"]), int(r["depth"])) for r in told] == [(r["name"], r["inclusive_ns"], d) for _, r, d in rows], "CSV")


def each_compile(samples):
    """The compiles in the order of their begin, with their own CPU time by innermost phase of a stage."""
    rules = open(os.path.join(ROOT, "rules/numba.rules")).read()
    stages = {name: patterns.split() for name, patterns in re.findall(r'^stage "(.*)" (.*)', rules, re.M)}
    found = {}
    for sample in samples:
        for unit in reversed(sample.units):
            if unit["kind"] == 0:
                found.setdefault(unit["serial"], dict(unit, own=collections.Counter(), cpu=0))["cpu"] += sample.cpu
        inner = next((i for i, u in enumerate(sample.units) if u["kind"] == 0), None)
        if inner is None:
            continue
        own = found[sample.units[inner]["serial"]]["own"]
        own["all"] += sample.cpu
        own[next((s for u in sample.units[:inner] for s, ps in stages.items() if any(fnmatch.fnmatch(u["name"], p) for p in ps)), "")] += sample.cpu
    return list(found.values()), stages


def test_chains(recordings):
    path, samples = recordings.path("native"), recordings.rows("native")
    compiles, _ = each_compile(samples)
    table = report(path, "--by=chain")["tables"][0]
    roots = [c for c in compiles if not c["parent"]]
    expect(len(roots) == 3 and {(r["trigger"]["name"], os.path.basename(r["trigger"]["file"]), r["trigger"]["line"]) for r in table["rows"]} == CAUSES,
           "three calls compile", table["rows"])
    have = [(r["name"], r["signature"], r["start_ns"], r["elapsed_ns"], r["inclusive_ns"], r["compiles"]) for r in table["rows"]]
    want = []
    for root in roots:
        inside = 0
        for compile in compiles:
            at = compile
            while at["parent"]:
                at = at["parent"]
            inside += at["serial"] == root["serial"]
        want.append((root["name"], root["signature"], root["begin"], root["end"] - root["begin"], root["cpu"], inside))
    expect(have == want, "chains", have, want)
    after = [r.get("after_ns") for r in table["rows"]]
    expect(after == [None] + [max(0, b["begin"] - a["end"]) for a, b in zip(roots, roots[1:])], "between them", after)
    lengths = [r["inclusive_ns"] for r in report(path, "--by=chain", "--sort=inclusive")["tables"][0]["rows"]]
    expect(lengths == sorted((r["inclusive_ns"] for r in table["rows"]), reverse=True), "longest first", lengths)
    for text in (cprofd("report", path, "--by=chain").out, cprofd("report", path, "--by=unit").out):
        expect("3 outermost compiles, caused by 3 lines" in text, "the text", text)


def test_repeats(recordings):
    path, samples = recordings.path("native"), recordings.rows("native")
    compiles, stages = each_compile(samples)
    rows = report(path, "--by=repeat")["tables"][0]["rows"]
    have = {(r["name"], r["signature"], r["reason"]): ({s["stage"]: s["exclusive_ns"] for s in r["saved"]}, r["exclusive_ns"], r["calls"])
            for r in rows if r["name"] == "total"}
    expect(set(have) == REPEATS, "what is compiled again, and why", have)
    want = {}
    for compile in [c for c in compiles if c["name"] == "total"][1:]:
        reason = next(r for n, s, r in REPEATS if s == compile["signature"])
        want["total", compile["signature"], reason] = ({s: compile["own"][s] for s in [*stages, "all"]}, compile["own"]["all"], 1)
    expect(have == want, "what caches had saved", have, want)
    for saved, own, _ in have.values():
        expect(0 < saved["typing"] < saved["object code"] and saved["typing"] + saved["object code"] <= own, "stages", saved)
    text = cprofd("report", path).out
    expect("by repeat" in text and "typing" in text and "by repeat" not in cprofd("report", recordings.path("python")).out, "the text", text)


def test_other_object(recordings):
    """By hand: a closure made twice, then the first of them by another dispatcher."""
    program, path = os.path.join(recordings.folder, "closures.py"), os.path.join(recordings.folder, "closures.cprof")
    with open(program, "w") as file:
        file.write("import numba\ndef make():\n    def inner(x):\n" + "        x = x * x + 1 if x > 3 else x - 2\n" * 40 + "        return x\n    return inner\n"
                   "kept = make(), make()\nfor f in kept + kept[:1]:\n    numba.njit(f)(1)\n")
    for _ in range(3):  # on a busy machine a compile may be over before its types were read
        cprofd("record", "--native=off", "-o", path, "--", PYTHON, program)
        have = [(r["name"], r["signature"], r["reason"], r["calls"]) for r in rows_of(report(path, "--by=repeat"), "repeat") if "inner" in r["name"]]
        if not any(row[1] == "?" for row in have):
            break
    expect(sorted(have) == [("make.<locals>.inner", "int64", why, 1) for why in ("other object", "same address")], "why they were compiled again", have)


def test_convert_takes_rules(recordings):
    """--rules is about what a recording has: stages of the page's repeats. What a compile is, it does not have."""
    path, rules, page = recordings.path("native"), os.path.join(recordings.folder, "mine.rules"), os.path.join(recordings.folder, "mine.html")
    with open(rules, "w") as file:
        file.write('compiler Numba\nstage "of mine" native_lowering\nunit\n\tfile */mine.py\n\tfunction build\n\tname @function\n')
    cprofd("convert", path, "-o", page, "--rules", rules)
    rows = rows_of(report(path, "--by=repeat", "--rules", rules), "repeat")
    want = [(r["name"], r["signature"], r["saved"]) for r in rows]
    with open(page) as file:
        data = json.loads(re.search(r'<script[^>]* id="data">(.*?)</script>', file.read(), re.S)[1])
    have = [(r["name"], r["signature"], r["saved"]) for r in rows_of(data, "repeat")]
    expect(have == want and any(s["stage"] == "of mine" and s["exclusive_ns"] for _, _, saved in have for s in saved), "stages", have, want)
    for form in ("speedscope", "collapsed", "svg", "pprof", "events"):
        run = cprofd("convert", path, "-f", form, "-o", os.path.join(recordings.folder, "never"), "--rules", rules, status=2)
        expect("--rules is for html here, and this is " + form in run.err and "when it was recorded" in run.err, form, run.err)
    for form in ("speedscope", "events"):
        run = cprofd("convert", path, "-f", form, "-o", os.path.join(recordings.folder, "never"), "--units", status=2)
        expect("--units is for collapsed, svg, html, pprof, and this is " + form in run.err, form, run.err)
    run = cprofd("convert", path, "-f", "html", "-o", os.path.join(recordings.folder, "never"), "--rules", rules + "x", status=1)
    expect("No such file" in run.err and not os.path.exists(os.path.join(recordings.folder, "never")), "rules that are not there", run.err)


def test_what_says_nothing_is_left_out(recordings):
    plain, full = cprofd("report", recordings.path("python")).out, cprofd("report", recordings.path("native")).out
    for words in ("by class", "by unit", "by phase", "by pass", "not determined"):
        expect(words not in plain, "said without need: " + words, plain)
    expect("--native" in plain and "by thread, CPU time" in plain, "what --native adds is not said", plain)
    for words in ("by class, CPU time", "by unit, CPU time", "by phase, CPU time", "by function, CPU time"):
        expect(words in full, "missing: " + words, full)
    expect("by class" in cprofd("report", recordings.path("python"), "--by=class").out, "asked for by name")


def beside(stack, match, outwards):
    """The frame that called the outermost match, or that the innermost one called."""
    places = [i for i, frame in enumerate(stack) if match(frame.name)]
    if not places:
        return None
    at = places[-1] if outwards else places[0]
    others = stack[at + 1:] if outwards else stack[:at][::-1]
    return others[0] if others else "(outermost)" if outwards else "(itself)"


HIDDEN = Frame("(hidden)", "", 0, 0, "", 3)


def test_python_frames_alone(recordings):
    """Of each stack what is Python's, or a note; and not a nanosecond less."""
    samples = recordings.samples("native")
    kept = [s._replace(stack=tuple(f for f in s.stack if f.kind in (0, 3)) or (HIDDEN,)) for s in samples]
    result = report(recordings.path("native"), "--by=line,class", "--native=off")
    same("lines of Python", shown(rows_of(result, "line")), add_up(kept, at_line))
    every = report(recordings.path("native"), "--by=line,class", "--native=full")
    expect(rows_of(result, "class") == rows_of(every, "class"), "classes are as they were", rows_of(result, "class"), rows_of(every, "class"))
    expect(len(rows_of(result, "line")) < len(rows_of(every, "line")), "no line of native code was there")
    expect(result["filters"] == {"native": "off"} and not every["filters"], "it is no filter", result["filters"], every["filters"])


def test_callers_and_callees(recordings):
    for name, pattern, match in (("python", "down", lambda n: n == "down"), ("python", "odd", lambda n: n == "odd"),
                                 ("native", "run_pass", lambda n: n.split(".")[-1] == "run_pass"),
                                 ("native", "*PassManager*", lambda n: "PassManager" in n)):
        samples = recordings.samples(name)
        for option, outwards in (("--callers", True), ("--callees", False)):
            for lines in (False, True) if name == "python" else (False,):
                want = collections.Counter()
                for sample in samples:
                    other = beside(told(sample.stack), match, outwards)
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
        # The outermost call of each callee: what is found last.
        for pair in {function(c): (caller.name, caller.file, caller.line or caller.first) for c, caller, _ in found}.items():
            lines[pair] += sample.cpu
    rows = report(recordings.path("native"), "--by=callee")["tables"][0]["rows"]
    same("callees", shown(rows), {k: tuple(v) for k, v in want.items() if v[1]})
    have = {}
    for row in rows:
        for line in row["lines"]:
            have[(row["name"], row["file"], row["line"], row["module"]), (line["name"], line["file"], line["line"])] = line["inclusive_ns"]
    same("lines that called callees", have, {k: v for k, v in lines.items() if v})
    for row in rows:
        for time in ("inclusive_ns", "exclusive_ns"):
            expect(sum(line[time] for line in row["lines"]) == row[time], "a callee's lines do not add up to it", row)
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
    expect(full["rows"][0]["name"][:40] in text and "Samples cannot show how often" in text, "the text", text)


def overlap(low, high, from_ns, to_ns):
    return max(0, min(high, to_ns) - max(low, from_ns))


def inside(row, low, high):
    """What of a row lies in a window. Time without samples stays with those that stand for it, wherever these are."""
    ran = overlap(row.time - row.cpu, row.time, low, high)
    return row._replace(cpu=ran, given=min(row.given, ran))


FAMILY = """
import os, sys, time
def alpha(): spin()
def beta(): spin()
def spin():
    end = time.thread_time() + 0.4
    while time.thread_time() < end:
        sum(range(300))
if sys.argv[1:] == ["worker"]:
    beta()
else:
    child = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, os.path.dirname(sys.argv[0]) + "/worker.py", "worker"])
    alpha()
    os.waitpid(child, 0)
"""


def test_processes(recordings):
    """--process: each function's process is known by its source, and what both have is all that there is."""
    folder, path = recordings.folder, recordings.path("family")
    for name in ("parent.py", "worker.py"):
        with open(os.path.join(folder, name), "w") as file:
            file.write(FAMILY)
    run = subprocess.run([CPROFD, "record", "-s", "--native=off", "-o", path, "--", PYTHON, os.path.join(folder, "parent.py")], capture_output=True)
    expect(run.returncode == 0, "a recording", run.stderr)
    everything = report(path, "--by=function")
    cpu = 0
    for own, other, patterns in (("alpha", "beta", ("parent.py", "*/parent*")), ("beta", "alpha", ("worker.py", "*worker"))):
        for pattern in patterns:
            have = report(path, "--by=function", "--process", pattern)
            names = {row["name"]: row["exclusive_ns"] + row["inclusive_ns"] for row in rows_of(have, "function")}
            # Of a child before its exec, which is mostly too short for a sample, others' samples stand for the time.
            expect(names.get(own, 0) > 20 * names.get(other, 0), "functions of " + pattern, names)
            expect(have["filters"]["process"] == pattern, "filters", have["filters"])
            one = os.path.join(folder, "one.cprof")
            cprofd("convert", path, "--process", pattern, "-f", "events", "-o", one)
            again = {row["name"]: row["exclusive_ns"] + row["inclusive_ns"] for row in rows_of(report(one, "--by=function"), "function")}
            expect(abs(again.get(own, 0) - names[own]) < 0.05 * names[own] and other not in again, "functions of the recording of " + pattern, again)
        cpu += have["recordings"][0]["cpu_ns"]
    expect(cpu == everything["recordings"][0]["cpu_ns"], "the CPU time of both", cpu, everything["recordings"][0])
    expect("has no process worker.pz" in cprofd("report", path, "--process", "worker.pz", status=1).err, "no such process")
    with open(path, "rb") as file:
        run = subprocess.run([CPROFD, "convert", "-", "--process", "worker.py", "-f", "events", "-o", os.path.join(folder, "never")], input=file.read(),
                             capture_output=True)
    expect(run.returncode == 1 and b"is a pipe" in run.stderr, "a pipe", run.stderr)


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
    same("--window", shown(have), add_up(stand([inside(row, low, high) for row in recordings.rows("python")]), function))
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
    profile = report_formats.Pprof(cprofd("convert", path, "-f", "pprof", "-o", "-", *both, text=False).out)
    expect(sum(values[0] for _, values, _ in profile.samples) == shown_cpu, "pprof")
    speedscope = json.loads(cprofd("convert", path, "-f", "speedscope", "-o", "-", *both).out)
    first = speedscope["profiles"][0]
    expect(sum(w for s, w in zip(first["samples"], first["weights"]) if s) == shown_cpu, "speedscope")
    svg = report_formats.picture(cprofd("convert", path, "-f", "svg", "-o", "-", *both).out)
    expect(abs(svg[0][3] * 1e9 - shown_cpu) < 1e6, "svg", svg[0], shown_cpu)
    cut = os.path.join(recordings.folder, "cut.cprof")
    cprofd("convert", path, "-f", "events", "-o", cut, *both)
    again = [s for s in stand(read_recording(cut)) if s.stack[0].name != "(not sampled)"]
    same("a recording that was filtered", add_up(again, function), add_up(want, function))
    same("and is read again", {k: v for k, v in shown(report(cut, "--by=function")["tables"][0]["rows"]).items() if k[0] != "(not sampled)"},
         add_up(want, function))


def skipped(samples, first):
    """Serial numbers of the first compiles of each function and signature."""
    compiles = {u["serial"]: u for s in samples for u in s.units if u["kind"] == 0}
    counts, result = collections.Counter(), set()
    for unit in sorted(compiles.values(), key=lambda u: (u["begin"], u["serial"])):
        key = unit["name"], unit["signature"], unit["defined"]
        counts[key] += 1
        if counts[key] <= first:
            result.add(unit["serial"])
    return result


def test_order_of_time(recordings):
    path, begins = recordings.path("native"), collections.defaultdict(lambda: 1 << 62)

    def note(*key, time):
        begins[key] = min(begins[key], time)

    for within in {s.units[i]["serial"]: s.units[i:] for s in recordings.samples("native") for i in range(len(s.units))}.values():
        unit, time = within[0], within[0]["begin"]
        note(("unit", "phase", "pass")[unit["kind"]], unit["name"], unit["signature"] if unit["kind"] == 0 else "", time=time)
        if unit["kind"] == 0:
            note("source", unit["name"], "", time=time)
        if len(within) == 1:
            note("trigger", cause(unit)[0], cause(unit)[2], time=time)
    result = report(path, "--by=unit,source,phase,pass,trigger,tree,chain,repeat,function", "--phases", "--sort=start")
    for table in result["tables"]:
        rows, by = table["rows"], table["by"]
        expect(table["sort"] == ("start" if by != "function" else "exclusive"), by, table["sort"])
        starts = [row["start_ns"] for row in rows if "start_ns" in row]
        expect(starts == sorted(starts) and (starts or by == "function"), "the order of " + by, starts)
        expect(not any("start_ns" in row for row in rows[len(starts):]), "what never began is last", by)
        if by in ("unit", "source", "phase", "pass"):
            have = {(by, r["name"], r.get("signature", "")): r["start_ns"] for r in rows if "start_ns" in r}
        elif by == "trigger":
            have = {(by, r["name"], r["line"]): r["start_ns"] for r in rows}
        else:
            continue
        same(by, have, {key: time for key, time in begins.items() if key[0] == by})
    tree = [part["start_ns"] for row in rows_of(result, "tree") for part in row["rows"]]
    expect(tree == sorted(tree) and len(tree) == 3, "in the tree", tree)
    cut = report(path, "--by=unit", "--sort=start", "--min-share", "30%")["tables"][0]
    want = [r["name"] for r in rows_of(result, "unit") if r["inclusive_share"] >= 0.3]
    expect([r["name"] for r in cut["rows"]] == want, "--min-share", cut["rows"], want)
    rows = list(csv.DictReader(io.StringIO(cprofd("report", path, "--by=unit", "--csv", "--sort=start").out)))
    expect([int(r["start_ns"] or -1) for r in rows] == [r.get("start_ns", -1) for r in rows_of(result, "unit")], "the CSV", rows)
    expect("in the order of time" in cprofd("report", path, "--by=unit", "--sort=start").out, "the text")
    cprofd("diff", path, path, "--sort=start", status=2)


def test_skip_first(recordings):
    path, samples = recordings.path("native"), recordings.rows("native")
    for first in (1, 2):
        left = skipped(samples, first)
        gone = [any(u["serial"] in left for u in s.units) for s in samples]
        kept = [s for s in stand([s._replace(stack=()) if g else s for s, g in zip(samples, gone)]) if s.stack and s.stack[0] != NOT_SAMPLED]
        ran = [s for s, g in zip(samples, gone) if not g and s.stack[0] != NOT_SAMPLED]
        result = report(path, "--by=unit,phase,function,class", "--skip-first", first)
        have = {(r["name"], r["signature"]): (r["exclusive_ns"], r["inclusive_ns"], r["elapsed_ns"], r["calls"]) for r in rows_of(result, "unit")}
        same("--skip-first %d" % first, have, add_up_units(ran, 0)[0])
        functions = {k: v for k, v in shown(rows_of(result, "function")).items() if k[0] != "(not sampled)"}
        same("its functions", functions, add_up(kept, function))
        # By hand: of total() only integers are compiled twice.
        names = {key for key in have if key[0] == "total"}
        expect(names == ({("total", "UniTuple(int64 x 3)")} if first == 1 else set()), "which are left", names)
    collapsed = cprofd("convert", path, "-f", "collapsed", "-o", "-", "--skip-first", "1", "--units").out
    compiled = re.findall(r"(?:^|;)(total\(.*?\)\))", collapsed, re.M)  # the kernel and its wrapper are __main__.total(...)
    expect("total(UniTuple(int64 x 3))" in compiled and "total(UniTuple(float64 x 2))" not in compiled, "collapsed", compiled)
    run = cprofd("report", recordings.path("python"), "--skip-first", "1", "--function", "down", status=1)
    expect("has no compile" in run.err, "a recording without compiles", run.err)
    with open(path, "rb") as file:
        run = cprofd("report", "-", "--skip-first", "1", status=1, stdin=file.read())
    expect("is a pipe" in run.err, "from a pipe", run.err)


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


SOURCE = "def f():\n    a = 1  # </td><script>\n\tb = '\x1b[31m'\n\n\n\n\n\n\n    return b\n"


def recording_with_lines(folder, name, source, samples=((2, 100), (3, 300), (3, 300), (10, 50))):
    """Of compiles of two functions, one in `source`, at (line, ns of CPU time); the other's source is gone."""
    path, clock = os.path.join(folder, name), {"t": [len(samples) and 1100, *[100] * (len(samples) - 1)], "thread": [0] * len(samples), "unit": [1] * len(samples)}
    lines = [[0, 1, source, line] for line, _ in samples]
    events = [{"ev": "hello", "major": 1, "minor": 11}, {"ev": "session", "id": 1, "pid": 7, "rate": 1000, "monotonic": 1000, "command": "c"},
              {"ev": "process", "id": 0, "pid": 7, "time": 1000, "name": "p"}, {"ev": "thread", "id": 0, "process": 0, "tid": 7, "time": 1000, "name": "main"},
              {"ev": "units", "first": 1, "rows": [[0, 0, 0, "C", "f", "i", 1000, 0, source, 1], [0, 0, 0, "C", "gone", "i", 1000, 0, "/nowhere/gone.py", 5]]},
              {"ev": "lines", "first": 1, "rows": [*lines, [0, 1, "/nowhere/gone.py", 6]]},
              {"ev": "samples", **clock, "wall": [100] * len(samples), "cpu": [ns for _, ns in samples], "line": list(range(1, len(samples) + 1))},
              {"ev": "samples", "t": [1900], "thread": [0], "unit": [2], "wall": [100], "cpu": [10], "line": [len(samples) + 1]}, {"ev": "end", "time": 9000}]
    with open(path, "w") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)
    return path


def test_sources(recordings):
    source = os.path.join(recordings.folder, "source.py")
    with open(source, "w") as file:
        file.write(SOURCE)
    path = recording_with_lines(recordings.folder, "lines.ndjson", source)
    result = report(path, "--annotate")
    expect([t["by"] for t in result["tables"]] == ["source-line"], "--annotate chooses a table", result)
    first, gone = result["sources"]
    expect((first["name"], first["file"], first["defined"]) == ("f", source, 1) and "warning" not in first, "a listing", first)
    expect("No such file" in gone["warning"] and [line["text"] for line in gone["lines"]] == [""], "a source that is gone", gone)
    times = {line["line"]: line["exclusive_ns"] for line in first["lines"] if "each" in line}
    expect(times == {2: 100, 3: 600, 10: 50}, "times of lines", times)
    expect([line["line"] for line in first["lines"]] == [1, 2, 3, 4, 5, 8, 9, 10], "lines around", first["lines"])
    texts = {line["line"]: line["text"] for line in first["lines"]}
    expect((texts[2], texts[3], texts[10]) == ("    a = 1  # </td><script>", "        b = '\\x1b[31m'", "    return b"), "texts", texts)
    page = os.path.join(recordings.folder, "sources.html")
    cprofd("convert", "--annotate", path, "-o", page)
    with open(page) as file:
        text = file.read()
    for what in ("a = 1  # &lt;/td&gt;&lt;script&gt;", "b = &#39;\\x1b[31m&#39;", "No such file", 'id="sources"'):
        expect(what in text, "in the page", what)
    expect("a = 1  #" not in open_page(recordings, path), "a page without --annotate has no sources")
    run = cprofd("convert", "--annotate", path, "-o", page + ".svg", status=2)
    expect("--annotate is for html" in run.err and not os.path.exists(page + ".svg"), "only html has sources", run)
    expect("not with --csv" in cprofd("report", "--annotate", "--csv", path, status=2).err, "a listing is no table")


def open_page(recordings, path):
    page = os.path.join(recordings.folder, "plain.html")
    cprofd("convert", path, "-o", page)
    with open(page) as file:
        return file.read()


TYPES = {"string": str, "int": int, "float": (int, float), "bool": bool, "object": dict, "array": list}


def schema(document="report.md"):
    text = open(os.path.join(ROOT, "docs", document)).read()
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
        kinds = [table["by"]] + ["several"] * several
        if table["by"] == "chain":
            for row in rows:
                check("chains", row)
            return
        kinds += ["function"] * (table["by"] in ("function", "line", "callee", "callers", "callees", "trigger"))
        counted = ["trigger"] * (table["by"] in ("unit", "source", "source-line", "phase", "pass", "trigger", "tree", "repeat", "failed"))
        for row in rows:
            what = {"trigger": ["function"], "unit": ["compile"], "phase": ["phase"], "pass": ["phase"]}.get(row.get("what"), [])
            check("rows", row, *kinds, *counted, *what)
            if table["by"] == "tree":
                check_rows(table, row["rows"], several)
            for stage in row.get("saved", []):
                check("saved", stage)
            for each in row["each"]:
                check("each", each, *counted)
            for line in row.get("lines", []):
                check("rows", line, "function", *(["several"] if several else []))
            for part in row.get("classes", []):
                check("rows", part, *(["several"] if several else []))
            for line in row.get("triggers", []):
                check("rows", line, "function", "trigger", *(["several"] if several else []))
            for line in row.get("signatures", []) + row.get("phases", []) + row.get("subjects", []):
                check("rows", line, "trigger", *(["several"] if several else []))

    every = "--by=class,process,thread,unit,source,source-line,phase,pass,trigger,tree,chain,repeat,failed,function,line,package,module,file,callee"
    one, two = recordings.path("native"), recordings.path("python")
    lines = recording_with_lines(recordings.folder, "documented.ndjson", os.path.join(recordings.folder, "known.py"))
    for args in ([lines, "--annotate"], [lines, lines, "--annotate"], [one, every, "--callers", "run_pass", "--callees", "run_pass"], [one, two, every], [one, "--tree", "--phases"],
                 [two, "--thread", "python3", "--process", "*python3*", "--window", "0,1000", "--function", "down", "--module", "(generated code)"][:9],
                 [two, "--module", "json"][:1] + ["--class", "not determined"], [one, "--skip-first", "1"]):
        result = report(*args)
        several = len(result["recordings"]) > 1
        check("", result, *(["annotate"] if "--annotate" in args else []))
        check("filters", result["filters"])
        expect(result["schema"] == "cprofd-report" and result["major"] == 3, "version")
        for recording in result["recordings"]:
            check("recordings", recording)
        for listing in result.get("sources", []):
            check("sources", listing, "annotate")
            for line in listing["lines"]:
                check("source lines", line, *(["timed"] if "each" in line else []), *(["several"] if "each" in line and several else []))
        for table in result["tables"]:
            check("tables", table, table["by"])
            check_rows(table, table["rows"], len(result["recordings"]) > 1)
    # units_failed.py, cli_processes.py, triggers.py have these.
    elsewhere = {("filters", "module"), ("rows", "left_in"), ("recordings", "unsupported"), ("recordings", "triggers"), *(("triggers", key) for key in known["triggers"])}
    missing = {(w, k) for w, keys in known.items() for k in keys} - met - elsewhere
    expect(not missing, "documented, but never met", missing)


def test_csv(recordings):
    path = recordings.path("native")
    rows = list(csv.DictReader(io.StringIO(cprofd("report", path, "--csv", "--by=function,thread,unit").out, newline="")))
    result = report(path, "--by=function,thread,unit")
    for by in ("function", "thread", "unit"):
        have = [(r["name"], int(r["exclusive_ns"]), int(r["inclusive_ns"])) for r in rows if r["table"] == by and not r["class"]]
        expect(have == [(r["name"], r["exclusive_ns"], r["inclusive_ns"]) for r in rows_of(result, by)], by)
    have = [(r["name"], r["class"], int(r["exclusive_ns"])) for r in rows if r["class"]]
    expect(have == [(r["name"], c["name"], c["exclusive_ns"]) for r in rows_of(result, "thread") for c in r["classes"]], "classes of threads")


def test_diff(recordings):
    one, two = recordings.path("python"), recordings.path("again")
    every = "--by=class,unit,phase,pass,function,line,package,module,file"
    known, met = schema("diff.md"), set()

    def check(where, item, *given):
        for key, value in item.items():
            expect(key in known[where], "%r of %r is not documented" % (key, where))
            kind = known[where][key][0]
            expect(isinstance(value, TYPES[kind]) and (kind == "bool" or not isinstance(value, bool)), "type", where, key, value)
            met.add((where, key))
        for key, (_, when) in known[where].items():
            needed = not when or any(word in given for word in when.replace(",", " ").split())
            expect(key in item or not needed, "%r is missing in %r" % (key, where), item)

    native = [recordings.path("native")] * 4
    for args in ([one, two], native[:2], [one, two, "vs", two, one], [*native, "vs", *native, "--per=compile"]):
        result = json.loads(cprofd("diff", "--json", every, *args).out)
        check("", result)
        for recording in result["recordings"]:
            check("recordings", recording)
        expect([r["side"] for r in result["recordings"]].count("after") == len(result["recordings"]) // 2, "sides")
        for total in result["totals"]:
            check("totals", total, *["two"] * (len(result["recordings"]) > 2))
            expect(total["before"] == total["after"] and not total["differs"] or args == [one, two], "both sides have the same recordings", total)
        for side in ("before", "after"):
            mine = [r for r in result["recordings"] if r["side"] == side]
            for what, key in (("time", "time_ns"), ("span", "span_ns"), ("compiles", "compiles"), ("compiling", "compiling_ns")):
                told = next(t[side] for t in result["totals"] if t["what"] == what)
                true = sum(r[key] for r in mine) / len(mine)
                expect(abs(told - true) <= 1e-8 * true, "the mean of recordings", what, told, true)
        for table in result["tables"]:
            check("tables", table)
            for row in table["rows"]:
                check("rows", row, table["by"], *["before"] * (row["before"] > 0), *["rest"] * ("rest_ratio" in row))
                expect("rest_ratio" not in row or row["rest_ratio"] == 1 and not row["rest_differs"], "a recording differs from itself", row)
                expect(row["differs"] <= ("margin" in row) and abs(row["after"] - row["before"] - row["change"]) < 1e-6, "a row", row)
                expect(args[0] != args[1] or not row["differs"], "a recording differs from itself", row)
            expect(table["differ"] == sum(row["differs"] for row in table["rows"]), "how many differ")
            expect(table["rest_differ"] == sum(row.get("rest_differs", False) for row in table["rows"]), "how many differ against the rest")
    missing = {(w, k) for w, keys in known.items() for k in keys} - met - {("rows", "only")}  # tests/unit/test_diff.c has it
    expect(not missing, "documented, but never met", missing)
    # The shares are those of the recordings' lines; nothing is known of GC without native stacks.
    result = json.loads(cprofd("diff", "--json", "--by=module", one, two).out)
    for side, name in (("before", "python"), ("after", "again")):
        samples = recordings.samples(name)
        total = sum(sample.cpu for sample in samples)
        want = {k: v[0] / total for k, v in add_up(samples, module).items() if v[0]}
        have = {row["name"]: row[side] for row in result["tables"][0]["rows"] if row[side]}
        expect(set(want) == set(have) and all(abs(want[k] - have[k]) < 1e-6 for k in want), side, want, have)
    text = cprofd("diff", one, two, "--top", "3").out
    expect("shares of the CPU time" in text and "by function" in text and "before %" in text, "the text", text)
    expect("do not compile the same" in cprofd("diff", one, two, "--per=compile", status=1).err, "nothing is compiled")
    for args in ([one], [one, two, two], ["vs", one], [one, "vs"], [one, two, "--by=thread"], [one, two, "--level=100"], [one, two, "--per=run"]):
        cprofd("diff", *args, status=2)
    expect("cannot be read" in cprofd("diff", one, one + "x", status=1).err, "a missing file")


ADDRESSES = """
import os, time
def work(end):
    while time.process_time() < end: pass
name = "handler_0x7f" + os.urandom(5).hex()
exec("def %s(end): work(end)" % name)
globals()[name](0.7)
print(name)
"""


def test_diff_of_names_with_addresses(recordings):
    """A function whose name holds an address is the same one in each run."""
    paths, names = [os.path.join(recordings.folder, name) for name in ("run1.cprof", "run2.cprof")], set()
    for path in paths:
        names.add(cprofd("record", "-o", path, "--", PYTHON, "-c", ADDRESSES).out.split()[-1])
    rows = [row for row in json.loads(cprofd("diff", *paths, "--by=function", "--sort=inclusive", "--json").out)["tables"][0]["rows"] if row["name"].startswith("handler")]
    expect(len(names) == 2, "the names are the same", names)
    expect([row["name"] for row in rows] == ["handler_0x\N{HORIZONTAL ELLIPSIS}"] and rows[0]["before"] > 0.3 and rows[0]["after"] > 0.3, "no row of both", rows)


def test_diff_pictures(recordings):
    """Stacks of both sides: the shares are those of the recordings' lines, in all three files."""
    pair, truth = [("before", "python"), ("after", "again")], {}
    for side, name in pair:
        samples = recordings.samples(name)
        total = sum(sample.cpu for sample in samples)
        paths = collections.Counter()
        # The program's script may be called otherwise on the other side: its functions are those of __main__.
        outermost = [next((f for f in reversed(sample.stack) if not f.kind), None) for sample in samples]
        script = next((module(f) for f in outermost if f and f.name == "<module>" and module(f)[0] != "(" and package(f) != "(standard library)"), None)
        for sample in samples:
            path = tuple((f.name, "__main__" if not f.kind and module(f) == script else module(f)) for f in reversed(sample.stack))
            for n in range(len(path) + 1):
                paths[path[:n]] += sample.cpu / total
        truth[side] = paths

    def inclusive(frames, profile):
        sums = collections.Counter()
        for stack, weight in zip(profile["samples"], profile["weights"]):
            path = tuple((frames[i]["name"], frames[i]["file"]) for i in stack)
            for n in range(len(path) + 1):
                sums[path[:n]] += weight / 100
        return sums

    files = {end: os.path.join(recordings.folder, "difference" + end) for end in (".speedscope.json", ".svg", ".html")}
    for path in files.values():
        cprofd("diff", *(recordings.path(name) for _, name in pair), "-o", path)
    with open(files[".speedscope.json"]) as file:
        told = json.load(file)
    profiles = {profile["name"]: inclusive(told["shared"]["frames"], profile) for profile in told["profiles"]}
    width = {path: (truth["before"][path] + truth["after"][path]) / 2 for path in set(truth["before"]) | set(truth["after"])}
    wide = [path for path in width if width[path] > 1 / 4700]
    expect(len(wide) > 10, "few stacks", len(wide))
    for side in truth:
        wrong = [(path[-1:], profiles[side][path], truth[side][path]) for path in wide if abs(profiles[side][path] - truth[side][path]) > 1e-6]
        expect(not wrong, "speedscope: " + side, wrong[:3])
    for path in wide:
        change = profiles["more than before"][path] - profiles["less than before"][path]
        expect(abs(change - truth["after"][path] + truth["before"][path]) < 1e-6, "more and less", path, change)
    # The picture: each frame below the one that is there where it begins.
    svg = "{http://www.w3.org/2000/svg}"
    frames = {}
    for group in xml.etree.ElementTree.parse(files[".svg"]).getroot().iter(svg + "g"):
        if group.get("id"):
            continue
        words, rect = group.find(svg + "title").text.split("\n"), group.find(svg + "rect")
        x, y, end = float(rect.get("x")), float(rect.get("y")), float(rect.get("x")) + float(rect.get("width"))
        above = next((f for f in frames.get(y - 17, []) if f[0] - 1e-3 <= x and end <= f[0] + f[1] + 1e-3), None)
        path = above[2] + ((words[0], words[1] if len(words) > 2 else ""),) if above else ()
        frames.setdefault(y, []).append((x, float(rect.get("width")), path))
        expect(path in width and abs(float(rect.get("width")) - 1200 * width[path]) < 1e-3, "its width", path[-1:], rect.attrib)
        want = "%.3f %% before, %.3f %% after: " % (100 * truth["before"][path], 100 * truth["after"][path])
        expect(words[-1].startswith(want), "its words", words, want)
        sure = "surely more" in words[-1], "surely less" in words[-1]
        expect(("hsl(4," in rect.get("fill"), "hsl(214," in rect.get("fill")) == sure, "its colour", rect.attrib, words)
    met = {path for row in frames.values() for _, _, path in row}
    expect(set(wide) <= met, "not in the picture", list(set(wide) - met)[:3])
    with open(files[".html"]) as file:
        page = file.read()
    expect(page.count("<rect x=") == sum(map(len, frames.values())) and "by function: " in page and "</pre>" in page, "the page")
    cprofd("diff", *(recordings.path(name) for _, name in pair), "-o", "x.png", status=2)
