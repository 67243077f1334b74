#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Native stacks against other unwinders.

1. The sampler's own walks against libunwind's, pc by pc, over registers and stack bytes recorded with each
   sample, and against the same tables walked in user space (tests/tools/oracle).
2. `cprofd dump` against gdb's backtraces, pc by pc, of a program that is held in places whose way there is known.

    oracle.py [SAMPLES [STATES]]     default 1000 and 16; of each target SAMPLES samples. Needs root and gdb.

run-live: beside"""
import copy
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time

from lib import CPROFD, ROOT
from lib.wait import burned, until
from lib.result import check, finish, skip

TOOL = os.path.join(ROOT, "build/tests/tools/oracle")
TARGETS = os.path.join(ROOT, "tests/targets")
SAMPLES = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
STATES = int(sys.argv[2]) if len(sys.argv) > 2 else 16
WHOLE = 0.5  # of samples at least: stacks deeper than the copy (32 KB) are compared as far as it goes


# --- recorded samples ---

def recorded(name, command, must=lambda found: True):
    target = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    if "ready" not in target.stdout.readline():
        skip(f"{name}: it does not run here")
        return
    # A shell has become the program.
    until(lambda: not os.readlink("/proc/%d/exe" % target.pid).endswith(("/sh", "/dash", "/bash")))
    burned(target.pid, 0.1)
    try:
        run = subprocess.run([TOOL, str(target.pid), str(SAMPLES), "997", "2", str(120 + SAMPLES / 10)],
                             capture_output=True, text=True)
    finally:
        target.kill()
        target.wait()
    found = {m[1]: int(m[2]) for m in re.finditer(r"^(\w+) (\d+)", run.stdout, re.M)}
    print(run.stdout + run.stderr, end="")
    check(run.returncode == 0 and found["samples"] >= SAMPLES, f"{name}: {SAMPLES} samples with their stacks")
    check(run.returncode == 0 and not found["differ"], f"{name}: no walk differs from libunwind's")
    check(run.returncode == 0 and not found["tables_differ"], f"{name}: no walk differs from that in user space")
    check(run.returncode == 0 and found["whole_equal"] >= WHOLE * found["samples"] and must(found),
          f"{name}: walks to the thread's entry are equal")


# --- known places ---

GDB = r"""
import gdb, json
told = {}
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frames = []
    frame = gdb.newest_frame()
    while frame is not None and frame.is_valid():
        # Neither what was inlined nor what gdb infers of a call that was made a jump is on the stack.
        if frame.type() not in (gdb.INLINE_FRAME, gdb.TAILCALL_FRAME) and frame.pc():
            frames.append([frame.pc(), frame.name() or "?", frame.type() == gdb.SIGTRAMP_FRAME])
        try:
            frame = frame.older()
        except gdb.error:
            break
    told[thread.ptid[1]] = frames
print("TOLD " + json.dumps(told))
"""


def build(work):
    source = os.path.join(TARGETS, "states.c")
    flags = ["-O2", "-g0", "-fomit-frame-pointer", "-fno-ipa-icf", "-pthread"]
    library = os.path.join(work, "libstates.so")
    program = os.path.join(work, "states")
    subprocess.run(["gcc", *flags, "-fPIC", "-shared", "-DLIBRARY", "-o", library, source], check=True)
    subprocess.run(["gcc", *flags, "-o", program, source, library, f"-Wl,-rpath,{work}", "-Wl,-z,lazy"], check=True)
    return program


def paths(count):
    """The first ones have each kind of frame and each end; the others are drawn."""
    yield from ["r5lx", "qlay", "bsqw", "sap", "tqbn", "v", "r9lv", "tlx", "sstw", "qabsly"][:count]
    draw = random.Random(11)
    for _ in range(count - 10):
        way = ""
        for _ in range(draw.randint(1, 8)):
            letter = draw.choice("rlqabst")
            way += letter + (str(draw.randint(0, 9)) if letter == "r" else "")
        yield way + draw.choice("xypvwn")


def by_gdb(pid, script):
    run = subprocess.run(["gdb", "-nx", "-q", "-batch", "-iex", "set debuginfod enabled off", "-ex",
                          "set backtrace past-main on", "-ex", "set backtrace past-entry on", "-p", str(pid), "-x", script],
                         capture_output=True, text=True, stdin=subprocess.DEVNULL)
    found = re.search(r"^TOLD (.*)$", run.stdout, re.M)
    if not found:
        raise RuntimeError(run.stdout + run.stderr)
    return {int(tid): frames for tid, frames in json.loads(found[1]).items()}


CPUS = sorted(os.sched_getaffinity(0))


def by_dump(pid):
    # On another CPU than the target's: else it is met mostly while it waits for ours.
    run = subprocess.run([CPROFD, "dump", "--json", str(pid)], capture_output=True, text=True,
                         preexec_fn=lambda: os.sched_setaffinity(0, CPUS[-1:]))
    if run.returncode:
        raise RuntimeError(run.stderr)
    return {thread["tid"]: thread for thread in json.loads(run.stdout)["threads"]}


def from_place(frames, name_of):
    """The frames further out than the place that was asked for: what comes and goes is further in."""
    for i, frame in enumerate(frames):
        if name_of(frame).startswith("place_"):
            return name_of(frame), frames[i + 1:]
    return None, []


class Held:
    """The states in which the two were compared."""

    def __init__(self):
        self.equal = self.cut = self.threads = self.frames = 0
        self.wrong, self.seen = [], {}

    def compare(self, path, pid, ours, theirs):
        for tid, thread in ours.items():
            mine, his = thread["frames"], theirs.get(tid, [])
            cut = bool(mine) and mine[-1]["kind"] == "cut"
            mine = [f for f in mine if f["kind"] != "cut"]
            self.seen[thread["seen"]] = self.seen.get(thread["seen"], 0) + 1
            if tid == pid and path[-1] in "xypv":
                place, mine = from_place(mine, lambda f: f["function"])
                same_place, his = from_place(his, lambda f: f[1])
                if not place or place != same_place:
                    self.wrong.append((path, tid, f"{place} is {same_place}"))
                    continue
            a, b = [int(f["pc"], 16) for f in mine], [f[0] for f in his]
            # A thread that runs has but one of its stacks copied.
            whole = not cut and a == b
            part = cut and "t" in path and path[-1] in "xypv" and a and a == b[:len(a)]
            self.frames += len(a)
            self.threads += 1
            self.equal += whole and tid == pid
            self.cut += part and tid == pid
            if not whole and not part:
                self.wrong.append((path, tid, f"{thread['seen']} {cut} {[hex(x) for x in a]} {[hex(x) for x in b]} "
                                   f"{[f['function'] for f in mine]} {[f[1] for f in his]}"))


def states(count):
    held, most = Held(), 3 * count
    with tempfile.TemporaryDirectory() as work:
        script = os.path.join(work, "frames.py")
        with open(script, "w") as f:
            f.write(GDB)
        target = subprocess.Popen([build(work)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  preexec_fn=lambda: os.sched_setaffinity(0, CPUS[:1]))
        try:
            def look(path):
                target.stdin.write(path + "\n")
                target.stdin.flush()
                assert target.stdout.readline() == path + "\n"
                nonlocal held
                for pause in (0.05, 1):  # on a busy machine it may be on its way there still: then it is met again
                    time.sleep(pause)
                    met = copy.deepcopy(held)
                    met.compare(path, target.pid, by_dump(target.pid), by_gdb(target.pid, script))
                    if len(met.wrong) == len(held.wrong):
                        break
                held = met
            for path in paths(count):
                look(path)
            # On a busy machine a thread that runs may have waited for its CPU at each of them.
            while not held.seen.get("tick") and count < most:
                look("r5lx")
                count += 1
        finally:
            target.kill()
            target.wait()
    print(f"{count} states, {held.threads} stacks, {held.frames} frames compared; {held.equal} equal, {held.cut} equal up to "
          f"a signal's own stack, {len(held.wrong)} different; {held.seen}")
    for wrong in held.wrong[:6]:
        print("   ", *wrong)
    check(not held.wrong, "stacks of `dump` are gdb's")
    check(held.equal + held.cut == count and held.equal > count // 2, f"each of {count} states was compared")
    check(held.seen.get("still") and held.seen.get("tick"), "threads that wait, and threads that run")


recorded("Numba's compiler", ["/usr/bin/python3", os.path.join(TARGETS, "numba_loop.py")])
recorded("ctypes callbacks and a timer", ["/usr/bin/python3", os.path.join(TARGETS, "callbacks.py")])
with tempfile.TemporaryDirectory() as folder:
    stacks = os.path.join(folder, "stacks")
    subprocess.run(["gcc", "-O2", "-g0", "-fno-ipa-icf", "-fomit-frame-pointer", "-pthread", "-o", stacks,
                    os.path.join(TARGETS, "native_stacks.c")], check=True)
    recorded("signals, alloca, recursion in C", ["sh", "-c", f"echo ready; exec {stacks} 100000"],
             lambda found: found["signals"] > 0)
states(STATES)
sys.exit(finish())
