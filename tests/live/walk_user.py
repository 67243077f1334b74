#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# run-live: beside
"""The walker in user space against what each CPython says of its own sleeping threads.

    tests/live/walk_user.py [NAME...]     only these, e.g. 3.11.7

tests/targets/sleepers.py prints its threads' stacks (sys._current_frames), walk_user walks the same
threads through /proc/PID/mem: names, files and lines of all frames must be equal. Needs root.
WALK_USER: another walk_user than make's, e.g. one with sanitizers.
"""
import collections
import json
import os
import subprocess
import sys
import tempfile

from lib import LIVE, ROOT
from lib.wait import asleep, until

WALK_USER = os.environ.get("WALK_USER", os.path.join(ROOT, "build/tests/tools/walk_user"))
TSTATE = 2  # PY_FRAME_TSTATE
tally = collections.Counter()


def verdict(name, what, why=None, skipped=False):
    tally["skipped" if skipped else "failed" if why else "passed"] += 1
    if why:
        print("%s %s %s: %s" % ("skipped" if skipped else "FAILED", name, what, why), flush=True)


def walk(pid, idents):
    """{ident: (frames, loss)}; a frame: (flags, name, file, line)."""
    out = subprocess.run([WALK_USER, str(pid), *map(str, idents)], stdout=subprocess.PIPE)
    if out.returncode:
        raise RuntimeError("walk_user: exit status %d" % out.returncode)
    found, frames = {}, None
    for line in out.stdout.decode().splitlines():
        if line.startswith("thread "):
            _, ident, n, loss = line.split()
            frames = []
            found[int(ident)] = frames, int(n), int(loss)
        else:
            head, name, file = line.split("\t")
            flags, number = head.split()
            frames.append((int(flags), name, file, int(number)))
    return found


def difference(found, wanted):
    for i, (f, w) in enumerate(zip(found, wanted)):
        if list(f) != list(w):
            return "frame %d is %s, the interpreter says %s" % (i, f, w)
    if len(found) != len(wanted):
        return "%d frames, the interpreter says %d" % (len(found), len(wanted))
    return None


def split(frames):
    """The stacks of the thread's thread states, the innermost first."""
    stacks = []
    for flags, *frame in frames:
        if flags & TSTATE or not stacks:
            stacks.append([])
        stacks[-1].append(frame)
    return stacks


def inner_stack(path):
    """What the subinterpreter wrote of itself, or None. It comes once its thread is ready."""
    def told():
        try:
            with open(path) as f:
                return json.load(f)
        except ValueError:
            return None
    return until(told, 30)


def run(name, python, work):
    inner = os.path.join(work, "inner-" + name)
    open(inner, "w").close()
    has_interpreters = not subprocess.call(
        [python, "-c", "import sys; __import__('_interpreters' if sys.version_info >= (3, 13) else '_xxsubinterpreters')"],
        stderr=subprocess.DEVNULL)
    process = subprocess.Popen([python, os.path.join(ROOT, "tests/targets/sleepers.py")] +
                               ([inner] if has_interpreters else []), stdout=subprocess.PIPE)
    try:
        threads = json.loads(process.stdout.readline().decode())
        wanted_inner = inner_stack(inner) if has_interpreters else None
        asleep(process.pid)
        found = walk(process.pid, [ident for _, ident, _ in threads])
        for thread, ident, wanted in threads:
            frames, n, loss = found[ident]
            stacks = split(frames)
            if loss or n != len(frames):
                verdict(name, thread, "loss %d after %d frames" % (loss, n))
            elif thread == "subinterpreter":
                if not wanted_inner:
                    verdict(name, thread, "the subinterpreter did not say where it is")
                else:
                    why = "%d thread states" % len(stacks) if len(stacks) != 2 else difference(stacks[0], wanted_inner)
                    verdict(name, thread + " (inner)", why)
                    # While it runs, sys._current_frames() shows one of the two.
                    if stacks[-1][-1][0] == "_bootstrap" and stacks[-1][0][0] == "subinterpreter":
                        why = None
                    else:
                        why = "ends in %s" % stacks[-1][-1]
                    verdict(name, thread + " (outer)", why)
            else:
                verdict(name, thread, "%d thread states" % len(stacks) if len(stacks) != 1
                        else difference(stacks[0], wanted))
        if not has_interpreters:
            verdict(name, "subinterpreter", "this interpreter has no module for them", skipped=True)
    except Exception as e:  # a target that dies, or a walker: one failure, and on
        verdict(name, "run", "%s: %s" % (type(e).__name__, e))
    finally:
        process.kill()
        process.wait()


def main():
    lines = subprocess.run([os.path.join(LIVE, "pythons.sh")], stdout=subprocess.PIPE, check=True).stdout.decode()
    with tempfile.TemporaryDirectory() as work:
        for line in lines.splitlines():
            name, python = line.split(None, 1)
            if len(sys.argv) == 1 or name in sys.argv[1:]:
                run(name, python, work)
    print("%d passed, %d failed, %d skipped" % (tally["passed"], tally["failed"], tally["skipped"]))
    return 1 if tally["failed"] or not tally["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
