#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Native stacks as the sampler walks them: of a program whose every stack has a known shape (names from nm,
mappings from /proc), and the share of whole walks of CPython with Numba's compiler and in code of LLVM's JIT.

And of whole sessions, from their first sample on: walks that lack a table are done again when it is there, in code
that is loaded or compiled and run at once, too.

    native.py [SECONDS]     default 5 for each target. Needs root."""
import bisect
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from lib import CPROFD, ROOT
from lib.recording import Batches, rows
from lib.wait import few, spread, until, used
from lib.result import check, finish, skip

RAW = os.path.join(ROOT, "build/tests/tools/sampler_raw")
SPIN = """#include <time.h>
static double now(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec * 1e3 + t.tv_nsec / 1e6; }
__attribute__((noinline)) void inner(double until) { while (now() < until) for (volatile int i = 0; i < 10000; i++) ; }
void spin(int ms) { inner(now() + ms); }
"""
SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
CUT = 0.001  # of the samples taken in user space, once tables are there
EXACT = 1 << 63


# innermost first; functions of the program only. spin runs at the bottom of the recursion alone.
WORK = r"work (main _start|thread_main) $"
SHAPES = re.compile(
    "^(" + "|".join([r"spin (recurse ){21}", r"(recurse ){0,21}", r"(compare )?callbacks ", r"(spin )?handler signals ",
                     r"signals ", r"(spin )?room ", r"calls ", ""]) + ")" + WORK + "|^(main )?_start $|^thread_main $")


# A program without shared libraries has libc's functions, too.
OWN = set("spin recurse compare callbacks handler signals room calls work thread_main main _start".split())


def symbols(program):
    text = subprocess.run(["nm", "-nS", "--defined-only", program], capture_output=True, text=True, check=True).stdout
    found = []
    for line in text.splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "tT" and words[3] in OWN:
            found.append((int(words[0], 16), int(words[1], 16), words[3]))
    return sorted(found)


def mappings(pid, program):
    bias = None
    ranges = []
    for line in open(f"/proc/{pid}/maps"):
        words = line.split()
        if len(words) > 5 and words[5] == program:
            start, end = (int(a, 16) for a in words[0].split("-"))
            ranges.append((start, end))
            if int(words[2], 16) == 0:
                bias = start
    return bias, ranges


def native_parts(path):
    """(time, flags of the sample, loss, flags of the part, pcs)"""
    data = open(path, "rb").read()
    at = 0
    while at < len(data):
        size, kind = struct.unpack_from("<IH", data, at)
        if kind == 1:
            flags, _, parts = struct.unpack_from("<IHH", data, at + 72)
            part = at + 80
            for _ in range(parts):
                what, loss, length = struct.unpack_from("<HHI", data, part)
                if what == 16:
                    n, marks = struct.unpack_from("<II", data, part + 8)
                    yield struct.unpack_from("<Q", data, at + 8)[0], flags, loss, marks, struct.unpack_from(f"<{n}Q", data, part + 16)
                part += length
        at += size


# More small functions than are followed in advance: the others are followed when a walk stops in them.
MANY = "".join(f"int small{i}(int a) {{ return a * {i} + {i * 7}; }}\n" for i in range(6000))
BARE = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]


def known_stacks(work, options, stripped=False, more=()):
    program = os.path.join(work, "stacks")
    subprocess.run(["gcc", "-g0", "-fno-ipa-icf", "-fomit-frame-pointer", "-pthread", "-o", program, *options,
                    os.path.join(ROOT, "tests/targets/native_stacks.c"), *more], check=True)
    named = program
    if stripped:
        named = program + ".named"
        shutil.copy(program, named)
        subprocess.run(["strip", program], check=True)
        options = [*options, "stripped"]
    if more:
        options = [*options, "with", *(os.path.basename(m) for m in more)]
    target = subprocess.Popen([program, "600"])
    until(lambda: mappings(target.pid, program)[1] and used(target.pid) > 5)
    bias, ranges = mappings(target.pid, program)
    table = symbols(named)
    starts = [s[0] for s in table]
    record = os.path.join(work, "records")
    # Where others work, too, it takes longer until there are enough.
    for seconds in SECONDS, 2 * SECONDS, 5 * SECONDS, 15 * SECONDS:
        run = subprocess.run([RAW, "-n", "full", str(target.pid), "999", str(seconds), record], capture_output=True, text=True)
        parts = list(native_parts(record))
        if run.returncode or len(parts) > 2000:
            break
    target.kill()
    target.wait()
    if run.returncode:
        print(run.stdout, run.stderr)
    # A program that is not moved has its addresses as they are.
    pie = bias is not None and (not table or table[0][0] < bias)

    def name(pc):
        exact = pc & EXACT
        pc = (pc & ~EXACT) - (0 if exact else 1)
        if not any(a <= pc < b for a, b in ranges):
            return ""
        vaddr = pc - bias if pie else pc
        i = bisect.bisect_right(starts, vaddr) - 1
        return table[i][2] + " " if i >= 0 and vaddr < table[i][0] + table[i][1] else ""

    samples = whole = wrong = kernel = deep = 0
    shapes, odd = {}, {}
    # Tables are being made; of code that is met step by step several, one after the other. On a busy machine later.
    settle = 500e6 if not stripped and not more else 1500e6
    settle += max(0, next((part[0] for part in parts if part[3] & 1), 0) - parts[0][0]) if parts else 0
    for when, flags, loss, marks, pcs in parts:
        if when < parts[0][0] + settle:
            continue
        samples += 1
        kernel += flags & 1
        if not marks & 1:
            odd[f"loss {loss} at {pcs[-1]:x}"] = odd.get(f"loss {loss} at {pcs[-1]:x}", 0) + 1
            continue
        whole += 1
        deep += len(pcs)
        shape = "".join(name(pc) for pc in pcs)
        shapes[shape] = shapes.get(shape, 0) + 1
        if not SHAPES.match(shape):
            wrong += 1
            odd[shape] = odd.get(shape, 0) + 1
    print(f"{' '.join(options)}: {samples} samples, {kernel} of them in the kernel, {100 * whole / max(samples, 1):.3f} % whole, "
          f"{deep / max(whole, 1):.1f} frames, {len(shapes)} shapes, {wrong} wrong")
    for shape, n in sorted(odd.items(), key=lambda o: -o[1])[:8]:
        print(f"    {n} x {shape}")
    check(samples > 300 and samples - whole <= few(samples, CUT), f"walks of {' '.join(options)} come to the thread's entry")
    check(whole > 0 and not wrong, f"every whole stack of {' '.join(options)} has one of its shapes")
    for must in ("spin " + "recurse " * 21, "compare callbacks ", "spin handler signals ", "spin room ", "calls "):
        for root in ("work main _start ", "work thread_main "):
            if must + root not in shapes:
                check(False, f"the stack {must}{root}was never seen")


def share(name, command):
    """A target that says `ready` and runs on; its walks in user space. On a busy machine tables may be late: then once more."""
    for turn in 1, 5:
        good = walked(name, command, 2 * turn, SECONDS * turn)
        if good or good is None:
            break
    if good is not None:
        check(good, f"walks of {name} come to the thread's entry")


def walked(name, command, settle, seconds):
    target = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if "ready" not in target.stdout.readline():
        skip(f"{name}: it does not run here")
        return None
    run = subprocess.run([RAW, "-n", "full", "-w", str(settle), str(target.pid), "999", str(seconds + settle), "-"],
                         capture_output=True, text=True)
    target.kill()
    target.wait()
    for line in run.stdout.splitlines():
        if re.match(r"native:|modules:|  (user|kernel) ", line):
            print("   ", line)
    found = re.search(r"native: (\d+) user samples, ([0-9.]+) % whole", run.stdout)
    samples, whole = (int(found[1]), float(found[2])) if found else (0, 0)
    return samples > 300 and samples * (100 - whole) / 100 <= few(samples, CUT) + 0.001 * samples / 100  # as it is printed


def read_events(lines, function):
    """When the first sample was taken; how many there are, and how many have a function of this name."""
    first = samples = met = 0
    tables, has = Batches(), {}  # has: by stack of the epoch
    for event in lines:
        tables.feed(event)
        if event["ev"] == "epoch":
            has = {}
        for time, stack in rows(event, "stack") if event["ev"] == "samples" else ():
            if stack not in has:
                has[stack] = bool(function) and any(re.search(function, row[0]) for row, _ in tables.path(stack))
            first, samples, met = first or time, samples + 1, met + has[stack]
    return first, samples, met


def attached(name, command, must):
    """The ledger of a session of the program itself, and how many stacks it has, and of these with the function `must`; None: it
    does not run here."""
    target = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if "ready" not in target.stdout.readline():
        return None
    with tempfile.TemporaryDirectory() as work:
        events = os.path.join(work, "events.ndjson")
        began = time.monotonic_ns()
        run = subprocess.run([CPROFD, "attach", str(target.pid), "--native", "-d", str(SECONDS), "-f", "events", "-o", events],
                             capture_output=True, text=True)
        target.kill()
        target.wait()
        if run.returncode:
            print(run.stderr)
        lines = [json.loads(line) for line in open(events)] if os.path.exists(events) else []
    ledgers = [line for line in lines if line["ev"] == "ledger"]
    ledger = ledgers[-1] if ledgers else {"samples": 0, "whole": 0, "losses": {}}
    first, stacks, met = read_events(lines, must)
    print(f"    {name}: {ledger['whole']} of {ledger['samples']} samples whole, {ledger['losses']}; "
          f"the first one {(first - began) / 1e6:.0f} ms after `cprofd attach`; {met} in {must or 'all'}")
    return ledger, stacks, met


def session(name, command, must=None, spare=1):
    """`must`: a function that a quarter of its samples have; `spare`: so many need not be whole, even if that is a larger part.
    On a busy machine the engine may be late for code that is gone by then: then once more."""
    for _ in range(2):
        found = attached(name, command, must)
        if found is None:
            skip(f"{name}: it does not run here")
            return
        ledger, stacks, met = found
        whole = ledger["samples"] > 100 and ledger["samples"] - ledger["whole"] <= max(spare, few(ledger["samples"], CUT))
        if whole:
            break
    check(whole, f"from the first sample on, stacks of {name} are whole")
    check(not must or met >= stacks * (1 / 4 - spread(1 / 4, stacks)), f"{name}: {must} is in a quarter of them at least")


with tempfile.TemporaryDirectory() as work:
    known_stacks(work, ["-O2"])
    known_stacks(work, ["-O1", "-no-pie"])
    known_stacks(work, ["-O2", "-static"])
    # Without call frame information: known by its code.
    known_stacks(work, ["-O2", *BARE])
    known_stacks(work, ["-O0", "-no-pie", *BARE])
    many = os.path.join(work, "many.c")
    open(many, "w").write(MANY)
    known_stacks(work, ["-O2", *BARE], more=[many])
    known_stacks(work, ["-O1", *BARE], stripped=True)
share("Numba's compiler", ["/usr/bin/python3", os.path.join(ROOT, "tests/targets/numba_loop.py")])
share("LLVM's JIT", ["/usr/bin/python3", os.path.join(ROOT, "tests/targets/jit_unwind.py")])
SHORT = os.path.join(ROOT, "tests/targets/short_code.py")
session("Numba's compiler", ["/usr/bin/python3", os.path.join(ROOT, "tests/targets/numba_loop.py")], "^llvm::")
# Of the next two the last ones may have no table yet when the session ends.
session("code that is compiled and run once", ["/usr/bin/python3", SHORT, "jit"], "^once[0-9]+$", 8)
with tempfile.TemporaryDirectory() as work:
    spin = os.path.join(work, "spin.so")
    subprocess.run(["gcc", "-g0", "-O2", "-fomit-frame-pointer", "-shared", "-fPIC", "-x", "c", "-", "-o", spin],
                   input=SPIN, text=True, check=True)
    session("libraries that are run as soon as they are loaded", ["/usr/bin/python3", SHORT, "library", spin, work], "^inner$", 32)
sys.exit(finish())
