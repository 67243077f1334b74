#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Woven stacks through the real sampler: Python that calls C that calls Python. Each stack is compared with
the target's source (tests/targets/mixed.py): Python frames by name and line, native ones by function and
module, nothing missing between them, and the whole way from the thread's entry.

    tests/live/mixed.py [--samples N] [--rate HZ] [--only TARGET]... [--native full|leaf] [PYTHON...]

In a long run (100,000 samples and more) a single wrong stack fails its target; in a short run, one that occurs
again in a second run. (docs/sampler.md, "What a stack must survive", has the one that is known.)

PYTHON: a path or a name of tests/live/pythons.sh's; `all`; default: the system's. The extension modules are of the
stable ABI, compiled here with the system Python's headers, with several options. Needs root.
"""
import argparse
import collections
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from truth import CPROFD, ROOT, Recording  # noqa: E402
from eval_ranges import module_of, output  # noqa: E402
from lib.wait import few  # noqa: E402

TARGET = os.path.join(ROOT, "tests/targets/mixed.py")
EXTENSION = os.path.join(ROOT, "tests/targets/mixed_ext.c")
TARGETS = ["calls", "frames", "recursion", "callbacks", "generators", "slots", "destroying", "signals", "threads", "bare"]
WHOLE = 99.9  # percent, of those samples that did not wait for a table
# Code without call frame information: assembly; where glibc's clone3 comes back from the kernel, twice. At most this share of the
# samples may be cut there.
CUT_IN = {"bare": (100, "native_no_rule"), "threads": (1, "native_no_rule")}
CLOSURE = "(unknown native code)"  # libffi's, in memory of nobody's; of a stack that is whole
VARIANTS = {
    "mx_o0": ["gcc", "-O0"],
    "mx_o2": ["gcc", "-O2", "-fomit-frame-pointer"],
    "mx_o2_fp": ["gcc", "-O2", "-fno-omit-frame-pointer"],
    "mx_o3": ["gcc", "-O3", "-fomit-frame-pointer", "-mno-red-zone", "-fstack-clash-protection"],
    "mx_os": ["gcc", "-Os", "-fcf-protection=none", "-fno-plt"],
    "mx_clang": ["clang", "-O2"],
}


def compile_modules(directory):
    include = output("/usr/bin/python3", "-c", "import sysconfig; print(sysconfig.get_paths()['include'])").strip()
    names = []
    for name, command in VARIANTS.items():
        if shutil.which(command[0]):
            subprocess.run(command + ["-std=gnu17", "-g0", "-shared", "-fPIC", *(["-fno-ipa-icf"] if command[0] == "gcc" else []),
                                      "-I" + include, "-DVARIANT=" + name, EXTENSION, "-o",
                                      os.path.join(directory, name + ".abi3.so")], check=True)
            names.append(name)
    return names


def losses_by_sentence():
    text = open(os.path.join(ROOT, "include/cprofd/loss.h")).read()
    return {m.group(2): m.group(1) for m in re.finditer(r'"(\w+)",\s*"([^"]*)"\)', text)}


SENTENCES = losses_by_sentence()


# --- what the source says ---

TAIL = "(?:[iElqfv];)*"
GLUE = {"ffi": "(?:[fi];)*f;(?:[fi];)*", "sort": "(?:l;)*q;(?:[lq];)*", "*": "(?:i;)+", "~": "(?:i;)*", "E": "(?:[iE];)*"}  # and "made"


def is_c(token):
    return token.startswith("mx_")


class Chain:
    """One alternative: native frames as regular expressions, from a Python function to the next one."""

    def __init__(self, words, direct):
        steps, last = [], "python"
        self.python = None
        self.functions = {word.partition("*")[0] for word in words if is_c(word)}
        self.made = words[0] == "made"
        words = words[self.made:]
        for word in words:
            if word in GLUE:
                steps.append(GLUE[word])
                last = "glue"
            elif is_c(word):
                name, _, times = word.partition("*")
                steps.append(("" if last in ("glue", "C") else "(?:i;)*") + "(?:%s;){%s}" % (name, times or 1))
                last = "C"
            else:
                assert self.python is None, words
                steps.append({"C": "(?:i;)+", "glue": "", "python": direct}[last])
                self.python = word
        self.whole = re.compile("".join(steps) + "$") if self.python else None
        # Each part of it, and what the innermost function of C may be in: itself, mx_burn, the interpreter.
        prefix = "(?:mx_burn;)?"
        for word, step in zip(reversed(words), reversed(steps)):
            if not is_c(word) and word not in GLUE:
                continue
            name, _, times = word.partition("*")
            if times:
                step = step.replace("{%s}" % times, "{1,%s}" % times)
            prefix = "(?:" + step + "(?:mx_burn;)?" + prefix + ")?" if is_c(word) else "(?:" + step + prefix + ")?"
        self.prefix = prefix


class Source:
    def __init__(self, path, version):
        self.direct = "" if version >= (3, 11) else "(?:i;)*"
        self.lines, self.files, self.anywhere, self.depth = collections.defaultdict(list), {}, [], []
        text = open(path).read()
        code = text.index('"""', text.index('"""') + 3) + 3  # behind the words at the beginning
        for number, line in enumerate(text[code:].splitlines(), text.count("\n", 0, code) + 1):
            mark = re.search(r"# (call|file|anywhere|depth): (.*)$", line)
            if not mark:
                continue
            words = mark.group(2).split()
            if mark.group(1) == "call":
                self.lines[number] += [Chain(a.split(), self.direct) for a in mark.group(2).split("|")]
            elif mark.group(1) == "file":
                self.files[words[0]] = [Chain(words[1:], self.direct)]
            elif mark.group(1) == "anywhere":
                self.anywhere += words
            else:
                self.depth.append((words[0], words[1], int(words[2])))


# --- stacks ---

class Stack:
    """Outermost first: [[native tokens before it], (name, file, line)] for each Python frame, and the native ones inside."""

    def __init__(self, frames, interpreter, program, kinds):
        self.python, self.between, self.notes = [], [[]], []
        self.misplaced = None
        variant = None
        for number, (name, file, line, module, kind, first, _) in enumerate(frames, 1):
            if kind == 6:  # the name of a call, callees.py's; its native frames follow
                continue
            if kind == 0:
                self.python.append((name.rsplit(".", 1)[-1], file, line, line == first))
                self.between.append([])
                variant = None
                continue
            if kind == 3 and name == CLOSURE and number == len(frames):
                self.between[-1].append("f")
                continue
            if kind == 3:
                self.notes.append(name)
                self.between[-1].append("note")
                continue
            token = self.token(name, module, kind, interpreter, program)
            kinds[module or "?", kind] += 1
            if is_c(token):
                if variant and module != variant and token != "mx_handler":
                    self.misplaced = "%s of %s called by one of %s" % (token, module, variant)
                variant = module
            elif token == "?":
                self.misplaced = "a frame of %s (%s)" % (module, name)
            elif (kind == 5) != (module == interpreter):
                self.misplaced = "a frame of %s is of kind %d" % (module, kind)
            self.between[-1].append(token)
        self.between = ["".join(t + ";" for t in tokens) for tokens in self.between]

    @staticmethod
    def token(name, module, kind, interpreter, program):
        if name.endswith("@plt") and module != interpreter:
            return "l"
        if module.startswith("mx_"):
            name = name.split(".", 1)[0]
            return name if is_c(name) else "?"
        if module == interpreter:
            return "E" if name.startswith(("_PyEval_EvalFrameDefault", "_TAIL_CALL_")) else "i"
        if module == program:
            return "x"
        if re.match(r"_ctypes|libffi", module):
            return "f"
        if re.match(r"libc\.|libc-|ld-linux|libpthread|libm\.", module):
            return "q" if "sort" in name else "l"
        if kind == 2 or module == "[vdso]":
            return "v"
        if re.match(r"_\w+\.cpython|\w+\.cpython|libz|libgcc", module):
            return "i"  # modules of the standard library
        return "?"


BOOTSTRAP = ["_bootstrap", "_bootstrap_inner", "run"]
THREAD = re.compile(r"(?:l;)*(?:i;)*$")


def thread_of_c(inside):
    return r"(?:l;)*mx_thread_main;" + inside


@functools.lru_cache(None)
def compiled(text):
    return re.compile(text)


def problem(source, stack, target):
    """Why this stack is not legal, or None."""
    python, between = stack.python, stack.between
    inside = "(?:l;mx_handler;(?:mx_signal_burn;)?)?" if target == "signals" else ""
    if stack.misplaced:
        return stack.misplaced
    if not python:
        root = r"(?:[sxil];)*" if target != "threads" else thread_of_c("(?:mx_burn;|mx_thread_call;)?") + TAIL + "|(?:l;)*" + TAIL
        return None if compiled("(?:%s)%s$" % (root, inside)).match(between[0]) else "no Python frame, native ones %s" % between[0]
    first = python[0][0]
    begin = 0
    if first == "<module>" and python[0][1] == TARGET:
        if not re.match(r"[xi];(?:[xil];)*$", between[0]):
            return "<module> begins with %s" % between[0]
    elif target == "threads" and first == "threaded":
        if not re.match(thread_of_c("mx_thread_call;(?:i;)+$"), between[0]):
            return "%s begins with %s" % (first, between[0])
    elif target == "threads" and os.path.basename(python[0][1]) == "threading.py":
        if not re.match(r"(?:l;)+(?:i;)+$", between[0]):
            return "a thread begins with %s" % between[0]
        while begin < len(python) and os.path.basename(python[begin][1]) == "threading.py":
            if begin and not re.match("(?:i;)*$", between[begin]):
                return "between %s and %s: %s" % (python[begin - 1][0], python[begin][0], between[begin])
            begin += 1
        names = [p[0] for p in python[:begin]]
        if begin == len(python) or names != BOOTSTRAP[:begin] or python[begin][0] != "thread_main":
            # Locks, and what a thread does before and after.
            return None if names[:1] == BOOTSTRAP[:1] and begin == len(python) else "a thread begins with %s" % python[:begin + 1]
        if not re.match("(?:i;)*$", between[begin]):
            return "between run and thread_main: %s" % between[begin]
    else:
        return "it begins with %s of %s" % python[0][:2]
    for i in range(begin, len(python)):
        name, file, line, _ = python[i]
        chains = source.lines.get(line, []) if file == TARGET else source.files.get(file)
        if chains is None:
            return "a frame of %s" % file
        native = between[i + 1]
        if i + 1 == len(python):
            if any(compiled("%s%s%s$" % (c.prefix, TAIL, inside)).match(native) for c in chains) or \
                    compiled("%s%s$" % (TAIL, inside)).match(native):
                break
            return "inside of %s:%d: %s" % (name, line, native)
        callee = python[i + 1][0] if python[i + 1][1] == TARGET else python[i + 1][1]
        if any(c.python == callee and c.whole.match(native) and (python[i + 1][3] or not c.made) for c in chains):
            continue
        if callee in source.anywhere and (re.match("(?:[iE];)+$", native) or
                                          any(compiled(c.prefix + "(?:i;)+$").match(native) for c in chains)):
            continue
        return "between %s:%d and %s: %s" % (name, line, callee, native or "nothing")
    names = [p[0] for p in python]
    for recursive, bottom, depth in source.depth:
        n = names.count(recursive)
        if n > depth or bottom in names and n != depth:
            return "%d of %s, %s" % (n, recursive, bottom in names)
    return None


def problem_of_leaf(source, stack, target):
    """The same where the innermost native frame alone was asked for."""
    tokens = stack.between[-1].split(";")[:-1]
    if stack.misplaced or any(stack.between[:-1]) or len(tokens) > 1:
        return stack.misplaced or "native frames: %s" % stack.between
    if not stack.python:
        return None if tokens else "an empty stack"
    own = [t for t in tokens if is_c(t) and t not in ("mx_burn", "mx_handler", "mx_signal_burn")]
    _, file, line, _ = stack.python[-1]
    if own and not any(own[0] in c.functions for c in source.lines.get(line if file == TARGET else 0, [])):
        return "%s inside of %s:%d" % (own[0], *stack.python[-1][1:3])
    return projection(source, stack)


def projection(source, stack):
    """Of a stack that is cut: do its Python frames call each other?"""
    for (name, file, line, _), inner in zip(stack.python, stack.python[1:]):
        if file != TARGET or inner[1] != TARGET or inner[0] in source.anywhere:
            continue
        if not any(c.python == inner[0] for c in source.lines.get(line, [])):
            return "%s:%d calls %s (in a stack that is not whole)" % (name, line, inner[0])
    return None


class Woven(Recording):
    def frame(self, number):
        frames = []
        while number:
            number, frame = self.stacks[number]
            function, offset, line, _ = self.frames[frame]
            name, file, first, module, kind = self.functions[function]
            frames.append((name, file, line, module, kind, first, offset))
        return frames[::-1]


def run(name, python, target, directory, modules, args):
    version = tuple(map(int, output(python, "-c", "import sys; print(*sys.version_info[:2])").split()))
    source = Source(TARGET, version)
    interpreter, program = os.path.basename(module_of(python)), os.path.basename(os.path.realpath(python))
    process = subprocess.Popen([python, TARGET, target, directory, *modules], stdout=subprocess.PIPE)
    if process.stdout.readline().strip() != b"ready":
        print("%-8s %-11s FAILED: it does not run" % (name, target))
        return False
    tally, wrong, kinds = collections.Counter(), collections.Counter(), collections.Counter()
    losses, notes, stops, seen = collections.Counter(), collections.Counter(), collections.Counter(), set()
    out = os.path.join(directory, "events")
    judge = problem if args.native == "full" else problem_of_leaf
    try:
        while tally["samples"] < args.samples:
            left = args.samples - tally["samples"]
            with open(out, "w") as stream:
                subprocess.run([CPROFD, "attach", str(process.pid), "-d", str(max(0.8 if args.native == "full" else 2.5, min(left / args.rate * 1.2 + 0.2, 12))),
                                "-r", str(args.rate), "--native=" + args.native, "--stream"],
                               check=True, stdout=stream, stderr=subprocess.PIPE)
            recording = Woven(out)
            for key, count in (recording.ledger.get("losses") or {}).items():
                losses[key] += count
            began, verdicts, first = False, {}, 0
            for when, thread, number in sorted(recording.samples):
                first = first or when
                if number not in verdicts:
                    frames = recording.frame(number)
                    stack = Stack(frames, interpreter, program, kinds)
                    if [f[0] for f in frames] == ["(exiting)"]:
                        verdicts[number] = ("whole", None, None, frames)  # there is nothing else: the thread gives its memory back
                    elif stack.notes:
                        verdicts[number] = ("cut", stack.notes, projection(source, stack), frames)
                    else:
                        verdicts[number] = ("whole", None, judge(source, stack, target), frames)
                    seen.update(p[0] for p in stack.python)
                how, why_cut, why, frames = verdicts[number]
                # A leaf is whole at once, but modules have no names yet.
                began = began or (how == "whole" if args.native == "full" else when > first + 1e9)
                if not began:
                    tally["at the beginning"] += 1
                    continue
                tally["samples"] += 1
                tally[how] += 1
                if how == "cut":
                    notes[" ".join(sorted({"native_mapping" if "unknown" in n else SENTENCES.get(n[6:-1], n) for n in why_cut}))] += 1
                    stop = next((f for f in reversed(frames[:-1]) if f[4] == 3), frames[-1])
                    stops[next((f[3] + ": " + f[0] for f in frames[frames.index(stop) + 1:] if f[4] in (1, 4, 5)), "?")] += 1
                if why:
                    key = re.sub(r"\d+", "N", why)
                    wrong[key] += 1
                    if wrong[key] <= 2 and len(wrong) < 12:
                        print("  illegal: %s\n    %s" % (why, " > ".join(
                            "%s+%x" % (f[0], f[6]) if f[4] else "`%s`:%d" % (f[0], f[2]) for f in frames)[-1500:]))
    finally:
        process.kill()
        process.wait()
    waiting = sum(n for key, n in notes.items() if "native_pending" in key)
    share, *allowed = CUT_IN.get(target, (0,))
    there = sum(n for key, n in notes.items() if any(a in key for a in allowed))
    cut = tally["cut"] - waiting - there
    settled = tally["samples"] - waiting
    never = expected(target) - seen
    good = not wrong and not never and cut <= few(settled, 1 - WHOLE / 100) and there <= few(settled, share / 100)
    if os.environ.get("V"):
        print("  kinds: %s" % dict(kinds))
    if os.environ.get("V") or not good:
        print("  ended at: %s" % stops.most_common(6))
    print("%-8s %-11s %7d samples, %d illegal, %.3f %% whole, %d before the first whole one, then %d pending; cut: %s; "
          "losses: %s%s %s" % (
        name, target, tally["samples"], sum(wrong.values()), 100 * tally["whole"] / max(settled, 1),
        tally["at the beginning"], waiting, dict(notes), dict(losses), "; never seen: %s" % sorted(never) if never else "",
        "ok" if good else "FAILED"), flush=True)
    return good


EXPECTED = {
    "calls": "by_call by_vector by_dict method evaluated __getattr__ __lt__",
    "frames": "by_frame by_deep", "bare": "by_frame", "recursion": "bottom",
    "callbacks": "compare compare_outer applied applied_outer",
    "generators": "inner outer looping __await__ waits waits_twice key catching closing",
    "slots": "__new__ __init__ __eq__ __hash__ __iter__ __next__ __getitem__ __enter__ __exit__ __call__ value cached key",
    "destroying": "__del__ destroyed watched closing catches raises",
    "signals": "on_signal compare outer by_call", "threads": "threaded by_call",
}


def expected(target):
    """Python functions that take so much of the target's time that they must have been seen."""
    return set(EXPECTED[target].split())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--rate", type=int, default=9999)
    parser.add_argument("--only", action="append")
    parser.add_argument("--native", default="full", choices=["full", "leaf"])
    parser.add_argument("pythons", nargs="*")
    args = parser.parse_args()
    known = [line.split(None, 1) for line in output(os.path.join(HERE, "pythons.sh")).splitlines()]
    if not args.pythons:
        chosen = [k for k in known if k[1] == os.path.realpath("/usr/bin/python3")]
    else:
        chosen = [k for k in known if "all" in args.pythons or k[0] in args.pythons]
        chosen += [[os.path.basename(p), p] for p in args.pythons if "/" in p]
    passed = failed = skipped = 0
    with tempfile.TemporaryDirectory() as directory:
        modules = compile_modules(directory)
        for name, python in chosen:
            version, _, mark = name.partition("-")
            if version.endswith("t") or mark == "musl":
                print("skipped: %s has %s" % (name, "another C library" if mark == "musl" else "no stable ABI"))
                skipped += 1
                continue
            for target in args.only or TARGETS:
                good = run(name, python, target, directory, modules, args)
                if not good and args.samples < 100000:
                    print("         once more: what one stack in 100,000 shows, a run of so many judges")
                    good = run(name, python, target, directory, modules, args)
                passed, failed = passed + good, failed + (not good)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
