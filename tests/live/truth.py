#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Truth on targets whose legal stacks are known.

For each interpreter and each target of tests/targets: run it, sample it with `cprofd attach
--stream`, and hold every stack against the target's own source: a frame that calls must stand on a
line that is marked `# call: <callee>`, and a leaf inside its function. What may call what, and
from which line, is told by the source alone, not by cprofd.

A stack may be legal and lack its innermost frame. So the target runs once under the interpreter's
own tracing, which counts the instructions that each function executes: a function that has SHARE
of them or more must be the innermost one in at least a tenth of so many samples (SLACK; instructions
differ in what they cost, and C calls in what they hide). It is traced while another one is sampled.

    truth.py [--samples N] [--rate HZ] [--only TARGET] [NAME ...]
"""
import argparse
import ast
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

from lib import CPROFD, LIVE, ROOT
from lib.wait import few

TARGETS = ["chains", "recursion", "calls", "generated", "generators", "resting"]
# compile() takes nearly all of the time of `generated`: of the rest only what is most is sure to be seen.
SHARE = collections.defaultdict(lambda: 0.02, generated=0.1)
SLACK = collections.defaultdict(lambda: 10, generated=300)
GENERATED = re.compile(r"^([abc])_(\d+)$")


POSITIONS = """
import json, sys
def walk(code, out):
    units = {}
    if hasattr(code, "co_positions"):
        for i, p in enumerate(code.co_positions()):
            units[2 * i] = p[0] or 0
    elif hasattr(code, "co_lines"):
        for start, end, line in code.co_lines():
            for i in range(start, end, 2):
                units[i] = line or 0
    else:
        import ctypes
        line_of = ctypes.pythonapi.PyCode_Addr2Line
        line_of.argtypes = [ctypes.py_object, ctypes.c_int]
        for i in range(0, len(code.co_code), 2):
            units[i] = line_of(code, i)
    out.append([getattr(code, "co_qualname", code.co_name), code.co_firstlineno, units])
    for c in code.co_consts:
        if hasattr(c, "co_code"):
            walk(c, out)
out = []
walk(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), out)
print(json.dumps(out))
"""


# Prints how many instructions each function executed, of the first 300,000.
INSTRUCTIONS = """
import collections, json, os, sys
path, counts, left = sys.argv[1], collections.Counter(), [300000]
def local(frame, event, arg):
    if event == "opcode":
        counts[getattr(frame.f_code, "co_qualname", frame.f_code.co_name)] += 1
        left[0] -= 1
        if not left[0]:
            print(json.dumps(counts), flush=True)
            os._exit(0)
    return local
def tracer(frame, event, arg):
    if frame.f_code.co_filename not in (path, "<string>"):
        return None
    frame.f_trace_opcodes = True
    return local
sys._getframe().f_trace_opcodes = True # 3.12 looks for one at settrace()
code = compile(open(path).read(), path, "exec")
sys.settrace(tracer)
exec(code, {"__name__": "__main__"})
"""


def without_number(name):
    """Generated functions are many, of one kind."""
    return re.sub(r"^([abc])_\d+", r"\1_", name)


def executed(tracing):
    """Function -> its share of the instructions that the target executes."""
    out = tracing.communicate(timeout=300)[0].decode().splitlines()[-1]
    shares = collections.Counter()
    for name, count in json.loads(out).items():
        shares[without_number(name)] += count / 300000
    assert sum(shares.values()) > 0.99, "instructions were not counted"
    return shares


class Source:
    """What the source says: functions by qualified name, their lines, and who calls whom where; and
    what the interpreter itself says of each instruction's line."""

    def __init__(self, path, python):
        self.path = path
        self.positions = {(name, first): units for name, first, units in json.loads(subprocess.check_output(
            [python, "-c", POSITIONS, path]))}
        text = open(path).read()
        self.calls = collections.defaultdict(set)
        self.for_good = set()
        for number, line in enumerate(text.splitlines(), 1):
            mark = re.search(r"# call: ([^(]*)", line)
            if mark:
                self.calls[number] = set(mark.group(1).split())
                if line.endswith("(for good)"):
                    self.for_good.add(number)
        self.functions = {}
        self.short = collections.defaultdict(list)
        self._walk(ast.parse(text), "")
        self.functions["<module>"] = (1, len(text.splitlines()))

    def _walk(self, node, prefix):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                first = min([child.lineno] + [d.lineno for d in child.decorator_list])
                self.functions[prefix + child.name] = (first, child.end_lineno)
                self.short[child.name].append(prefix + child.name)
                self._walk(child, prefix + child.name + ".<locals>.")
            elif isinstance(child, ast.ClassDef):
                self._walk(child, prefix + child.name + ".")
            else:
                self._walk(child, prefix)

    def names(self, name):
        """Qualified names that a frame's name may stand for (before 3.11 code has none)."""
        return [name] if name in self.functions else self.short.get(name, [])


def problem(source, frames):
    """Why this stack (outermost first: (name, file, line, offset, first line)) is not legal, or None."""
    if not frames:
        return "empty"
    if frames[0][0] != "<module>" or frames[0][1] != source.path:
        return "outermost frame is %s" % (frames[0],)
    number = None
    for i, (name, file, line, offset, first_line) in enumerate(frames):
        inner = frames[i + 1] if i + 1 < len(frames) else None
        generated = GENERATED.match(name)
        if generated or file == "<string>":
            if file != "<string>" or line > 1:
                return "generated frame in %s:%d" % (file, line)
            if generated:
                if number is not None and generated.group(2) != number:
                    return "numbers mixed: %s in %s" % (name, number)
                number = generated.group(2)
                order = "abc".index(generated.group(1))
                if order and (i == 0 or not frames[i - 1][0].startswith("ab"[order - 1] + "_")):
                    return "%s called by %s" % (name, frames[i - 1][0])
            elif not name.endswith("<listcomp>") and name != "<module>":
                return "unknown generated frame %s" % name
            elif name.endswith("<listcomp>") and not frames[i - 1][0].startswith("c_"):
                return "listcomp called by %s" % frames[i - 1][0]
            elif name == "<module>" and (frames[i - 1][0] != "make" or inner):
                return "exec called by %s, calls %s" % (frames[i - 1][0], inner)
            continue
        if file != source.path:
            return "foreign frame %s (%s:%d)" % (name, file, line)
        names = source.names(name)
        if not names:
            return "unknown function %s" % name
        first, last = source.functions[names[0]]
        truth = first_line if offset < 0 else source.positions.get((name, first_line), {}).get(str(offset))
        if line != truth:
            return "%s+%d at line %d, the interpreter says %s" % (name, offset, line, truth)
        if line == 0 and not inner:
            continue  # an instruction that has no line, as co_positions() says
        if not first <= line <= last and not (name == "<module>" and line == 0):
            return "%s at line %d, but it spans %d-%d" % (name, line, first, last)
        if not inner and line in source.for_good:
            return "%s line %d, and nothing in it" % (name, line)
        if inner:
            allowed = source.calls.get(line, set())
            if inner[1] == "<string>":
                wanted = {"generated"}
                if name == "make" and inner[0] == "<module>":
                    continue
            else:
                wanted = set(source.names(inner[0]))
            if not wanted & allowed:
                return "%s line %d calls %s, source allows %s" % (name, line, inner[0], sorted(allowed))
    return None


class Recording:
    """An event stream, read with nothing but the written protocol."""

    def __init__(self, path):
        self.functions, self.frames, self.stacks = [], [], [(0, None)]
        self.of_epoch = 0, 0, 0  # where its rows begin
        self.samples = []
        self.ledger = {}
        self.end = None
        for line in open(path, errors="surrogateescape"):
            self._event(json.loads(line))

    def _event(self, e):
        kind = e["ev"]
        if kind == "functions":
            self.functions += e["rows"]
        elif kind == "frames":
            self.frames += [[r[0] + self.of_epoch[0]] + r[1:] for r in e["rows"]]
        elif kind == "stacks":
            self.stacks += [(parent and parent + self.of_epoch[2], frame + self.of_epoch[1]) for parent, frame in e["rows"]]
        elif kind == "samples":
            time = 0
            for i, delta in enumerate(e["t"]):
                time += delta
                stack = e.get("stack", [0] * len(e["t"]))[i]
                self.samples.append((time, e.get("thread", [0] * len(e["t"]))[i], stack and stack + self.of_epoch[2]))
        elif kind == "ledger":
            self.ledger = e
        elif kind == "epoch":
            self.of_epoch = len(self.functions), len(self.frames), len(self.stacks) - 1
        elif kind == "end":
            self.end = e

    def stack(self, number):
        frames = []
        while number:
            number, frame = self.stacks[number]
            function, offset, line, _ = self.frames[frame]
            name, file, first_line = self.functions[function][:3]
            frames.append((name, file, line, offset, first_line))
        return frames[::-1]


def run(name, python, target, samples, rate, keep):
    path = os.path.join(ROOT, "tests", "targets", target + ".py")
    source = Source(path, python)
    seconds = samples / rate * 1.15 + 0.1
    out = tempfile.NamedTemporaryFile(suffix=".events", delete=False)
    process = subprocess.Popen([python, path], stdout=subprocess.PIPE)
    assert process.stdout.readline().strip() == b"ready"
    tracing = subprocess.Popen([python, "-c", INSTRUCTIONS, path], stdout=subprocess.PIPE)
    wrong = collections.Counter()
    innermost = collections.Counter()
    total = cut = 0
    try:
        # A busy neighbour takes ticks away: go on until there are enough.
        while total < samples:
            with open(out.name, "w") as stream:
                subprocess.run([CPROFD, "attach", str(process.pid), "-d", str(seconds), "-r", str(rate),
                                "--native=off", "--stream"], check=True, stdout=stream, stderr=None if keep else subprocess.PIPE)
            recording = Recording(out.name)
            verdicts = {}
            last = -1
            for _, thread, stack in sorted(recording.samples):
                total += 1
                if stack not in verdicts:
                    frames = recording.stack(stack)
                    if any(f[0].startswith("(cut") or f[0].startswith("(no Python") for f in frames):
                        verdicts[stack] = ("cut", frames, None)
                    else:
                        numbers = [int(GENERATED.match(f[0]).group(2)) for f in frames if GENERATED.match(f[0])]
                        verdicts[stack] = (problem(source, frames), frames, numbers[0] if numbers else None)
                why, frames, number = verdicts[stack]
                innermost[without_number(frames[-1][0]) if frames else ""] += 1
                if why == "cut":
                    cut += 1
                elif why is None and number is not None:
                    if number < last:
                        why = "number went back: %d after %d" % (number, last)
                    last = max(last, number)
                if why and why != "cut":
                    wrong[re.sub(r"\d+", "N", why)] += 1
                    if wrong[re.sub(r"\d+", "N", why)] <= 2:
                        print("  illegal: %s\n    %s" % (why, " > ".join("%s:%d+%d" % (f[0], f[2], f[3]) for f in frames)[-400:]))
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        if not keep:
            os.unlink(out.name)
    illegal = sum(wrong.values())
    shares = executed(tracing)
    rare = {name: share for name, share in shares.items()
            if share >= SHARE[target] and innermost[name] < total * share / SLACK[target]}
    if os.environ.get("V"):
        print("  innermost: " + ", ".join("%s %.1f %% (%.1f)" % (n, 100 * k / total, 100 * shares[n])
                                          for n, k in innermost.most_common(12)))
    for name, share in rare.items():
        print("  rare: %s is innermost in %d samples, but executes %.1f %% of the instructions" % (
            name, innermost[name], 100 * share))
    # One in a thousand is the bar of 100,000 samples; of fewer chance has its part.
    ok = illegal == 0 and not rare and cut <= few(total, 0.001) and total >= samples
    losses = {k: v for k, v in recording.ledger.get("losses", recording.ledger.get("loss", {})).items() if v} \
        if recording.ledger else {}
    print("%-8s %-11s %8d samples %6d stacks %4d illegal %5d cut (%.3f %%) %s %s" % (
        name, target, total, len(recording.stacks), illegal, cut, 100.0 * cut / max(total, 1), losses,
        "ok" if ok else "FAILED"), flush=True)
    return ok


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--rate", type=int, default=9999)
    parser.add_argument("--only", action="append")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    pythons = subprocess.run([os.path.join(LIVE, "pythons.sh")], stdout=subprocess.PIPE, check=True,
                             universal_newlines=True).stdout.split("\n")
    pythons = [p.split(None, 1) for p in pythons if p.strip()]
    passed = failed = 0
    for name, python in pythons:
        if args.names and name not in args.names:
            continue
        for target in args.only or TARGETS:
            try:
                ok = run(name, python, target, args.samples, args.rate, args.keep)
            except (subprocess.SubprocessError, AssertionError) as e:
                print("%-8s %-11s FAILED: %s %s" % (name, target, e, getattr(e, "stderr", b"") or b""))
                ok = False
            passed += ok
            failed += not ok
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
