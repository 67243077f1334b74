#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What is held against one kernel, on that kernel: runs in the guest of run.py, and on the machine itself.

    guest.py SECONDS BUILD..     each BUILD a folder with cprofd and load_programs, named after its compiler

For each build: `cprofd check`; each kind of session is loaded, with the verifier's count for each program; children
are followed; and a busy CPython whose stacks its source tells (tests/targets/chains.py) is profiled, without native
frames and with them. Some of it once more in a PID namespace, where the programs are others. Lines "insns BUILD SESSION PROGRAM N" are for the table. Needs root."""
import collections
import ctypes
import json
import os
import platform
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "tests/live"), os.path.join(ROOT, "tests")]
import truth  # noqa: E402

TARGET = os.path.join(ROOT, "tests/targets/chains.py")
PYTHON, NOTE = 0, 3
# What chains.py calls through C; all else CPython 3.11 calls without leaving its eval loop.
THROUGH = {("b2", "by_key"), ("b1", "Thing.__init__"), ("b1", "Thing.__add__"), ("b1", "Thing.value")}
CHAINS = ["main a1 a2 a3 a4", "main b1 b2 by_key b4", "main b1 b2 b3 b4", "main b1 Thing.value b3 b4"]
TIMEOUT = 300
CLONE_NEWNS, CLONE_NEWPID, MS_REC, MS_PRIVATE = 0x20000, 0x20000000, 0x4000, 0x40000 # linux/sched.h, linux/mount.h
passed = failed = 0


def check(good, name, *details):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok" if good else "FAILED", name, flush=True)
    if not good:
        for detail in details:
            print("    " + str(detail)[-20000:].replace("\n", "\n    "), flush=True)


def run(*command):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", timeout=TIMEOUT)


def loads(build, name, count=True):
    done = run(os.path.join(build, "load_programs"))
    sessions = 0
    for line in done.stdout.splitlines():
        words = dict(w.split("=", 1) for w in line.split() if "=" in w)
        if line.startswith("session"):
            sessions += 1
            print("    native=%(native)s children=%(children)s: %(ms)s ms" % words)
        elif line.startswith("loaded"):
            if words.get("wall"):
                words["children"] = "wall"
            if count:
                print("insns", name, "%(native)s/%(children)s %(program)s %(insns)s" % words)
        else:
            print("   ", line)
    good = done.returncode == 0 and sessions == 9
    check(good, name + ": every kind of session loads", done.stderr)
    return good


class Events(truth.Recording):
    """With the kinds of frames, and whose threads they are."""

    def __init__(self, path):
        self.threads = {}
        super().__init__(path)

    def _event(self, e):
        if e["ev"] == "thread":
            self.threads[e["id"]] = e["tid"]
        super()._event(e)

    def woven(self, number):
        """Outermost first: (kind, frame as truth.py has it)."""
        found = []
        while number:
            number, frame = self.stacks[number]
            function, offset, line, _ = self.frames[frame]
            name, file, first_line = self.functions[function][:3]
            found.append((self.functions[function][4], (name, file, line, offset, first_line)))
        return found[::-1]


def weaving(woven):
    """What is wrong with what lies between two Python frames, or None."""
    outer, between = None, []
    for kind, frame in woven:
        if kind != PYTHON:
            between.append(frame[0])
            continue
        inner = frame[0]
        if outer is None and not between:
            return "no native frame called " + inner
        if outer and bool(between) != ((outer, inner) in THROUGH):
            return "%s calls %s through %s" % (outer, inner, between)
        outer, between = inner, []
    return None if outer else "no Python frame"


def stacks(build, name, seconds, native, source):
    """A run of the target: each stack against its source."""
    title = "%s: stacks of CPython%s" % (name, ", native frames among them" if native else "")
    target = subprocess.Popen([sys.executable, TARGET], stdout=subprocess.PIPE)
    assert target.stdout.readline().strip() == b"ready"
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".events") as out:
            done = subprocess.run([os.path.join(build, "cprofd"), "attach", str(target.pid), "-d", str(seconds), "--stream",
                                   "--native=" + ("full" if native else "off")], stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=subprocess.PIPE, text=True, timeout=TIMEOUT)
            if done.returncode:
                return check(False, title, done.stderr)
            events = Events(out.name)
    finally:
        target.kill()
        target.wait()
    total = cut = settled = 0
    wrong, misplaced, seen = collections.Counter(), collections.Counter(), collections.Counter()
    for _, _, stack in sorted(events.samples):
        woven = events.woven(stack)
        python = [frame for kind, frame in woven if kind == PYTHON]
        note = any(kind == NOTE for kind, _ in woven)
        total += 1
        # Tables of native code are being made at first; from the first whole stack on they are there.
        settled = settled or (not note and total)
        cut += note and bool(settled)
        why = None if note else truth.problem(source, python)
        if why:
            wrong[re.sub(r"\d+", "N", why)] += 1
        elif native and not note and weaving(woven):
            misplaced[weaving(woven)] += 1
        if not note:
            seen[" ".join(frame[0] for frame in python[1:])] += 1
    whole = sum(seen.values())
    missing = [chain for chain in CHAINS if not seen[chain]]
    losses = {k: v for k, v in events.ledger.get("losses", {}).items() if v}
    print("    %d samples, %d whole, the first whole one is %d; cut after it %d; %d different; losses %s" % (
        total, whole, settled, cut, len(seen), losses), flush=True)
    check(not wrong, title + ": each is one of its source's", *wrong.most_common(5))
    # Where native frames belong is guessed now and then, and told so; a guess may be wrong.
    if native:
        check(sum(misplaced.values()) <= losses.get("weave_guess", 0), title + ": in their places, but for guesses", *misplaced.most_common(5))
    # An emulated machine on a busy one misses most of its ticks.
    check(whole >= 100 and not missing, title + ": each chain is seen", "%d whole" % whole, "never: %s" % missing)
    check(cut <= (total - settled) * 0.03, title + ": whole but for 3 % at most", done.stderr)


# Says which children it has in the file that it is given.
CHILDREN = """
import os, sys, time
def burn():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        sum(range(1000))
pids = [os.fork()]
if not pids[0]:
    burn()
    os._exit(0)
pids.append(os.fork())
if not pids[1]:
    os.execv(sys.executable, [sys.executable, "-S", "-c", sys.argv[2]])
open(sys.argv[1], "w").write("%d %d" % tuple(pids))
for pid in pids:
    os.waitpid(pid, 0)
"""
EXECED = CHILDREN[:CHILDREN.index("pids =")] + "burn()\n"


def children(build, name):
    """A fork, and a fork with exec: both are seen, with their Python frames."""
    with tempfile.TemporaryDirectory() as work:
        out, pids = os.path.join(work, "events"), os.path.join(work, "pids")
        with open(out, "w") as stream:
            done = subprocess.run([os.path.join(build, "cprofd"), "record", "-s", "--native=off", "--stream", "--", sys.executable, "-S",
                                   "-c", CHILDREN, pids, EXECED], stdin=subprocess.DEVNULL, stdout=stream,
                                  stderr=subprocess.PIPE, text=True, timeout=TIMEOUT)
        if done.returncode:
            return check(False, name + ": children are followed", done.stderr)
        events = Events(out)
        wanted = {int(word) for word in open(pids).read().split()}
    burning = collections.Counter(events.threads[thread] for _, thread, stack in events.samples
                                  if any(frame[0] == "burn" for frame in events.stack(stack)))
    print("    children:", ", ".join("%d: %d samples of burn()" % pair for pair in burning.items()))
    check(len(wanted) == 2 and all(burning[pid] >= 10 for pid in wanted), name + ": children are followed",
          "wanted %s, found %s" % (wanted, dict(burning)), done.stderr)


def in_namespace(name, tests):
    """Runs them in a PID namespace of their own, with its /proc."""
    libc = ctypes.CDLL(None)
    outer = os.fork()
    if not outer:
        status = 2
        try:
            assert not libc.unshare(CLONE_NEWPID | CLONE_NEWNS)
            inner = os.fork()
            if not inner:
                libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
                assert not libc.mount(b"proc", b"/proc", b"proc", 0, None)
                tests()
                os._exit(failed > 0)
            status = os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1])
        finally:
            os._exit(status)
    check(os.waitpid(outer, 0)[1] == 0, name)


def main():
    seconds, builds = float(sys.argv[1]), sys.argv[2:]
    print("kernel", platform.release(), flush=True)
    source = truth.Source(TARGET, sys.executable)
    for build in builds:
        name = os.path.basename(build)
        done = run(os.path.join(build, "cprofd"), "check")
        check(done.returncode == 0, name + ": cprofd check", done.stdout, done.stderr)
        if not loads(build, name):
            continue
        stacks(build, name, seconds, False, source)
        stacks(build, name, seconds * 2, True, source)
        children(build, name)

        def again():
            loads(build, name, False)
            stacks(build, name, seconds, True, source)
            children(build, name)
        if not failed:
            in_namespace(name + ": the same in a PID namespace", again)
    print("%d passed, %d failed, 0 skipped" % (passed, failed), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
