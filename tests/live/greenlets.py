#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stacks of greenlets: each Python stack is possible in the target's program, and native stacks end at the greenlet's entry. Of greenlets that
start and end, too: then nothing of Python runs, and the stack is whole. And while one is left for another: then the Python frames are all those of
one of them, whose innermost function switches, or none.

    greenlets.py [--python PATH ...] [--seconds N]

With each interpreter of the matrix that has greenlet (Debian's is stripped) or gevent, and the Pythons that are given."""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

from lib import CPROFD, ROOT
from lib.result import check_figures, finish, skip
from lib.wait import few

TARGET = os.path.join(ROOT, "tests/targets/greenlets.py")
RATE = 9999
FUNCTION = re.compile(r"^(\S+) \(.*/greenlets\.py:\d+\)$")
SWITCH = re.compile(r"g_switchstack|slp_switch")
GREENLET = re.compile(r"greenlet::|\(_greenlet\.")
AT_START = "(cut: the unwind table of a library was still being built)"
FIRST = ["first"] + ["deep"] * 6 + ["turn"]
SECOND = ["second"] + ["deep"] * 10 + ["turn"]
BIRTHS = [["births"], ["spawns"], *([job, *inner] for job in ("short", "fails", "waits") for inner in ([], ["leaf"])),
          *(["sorting", *inner] for inner in ([], ["key"], ["key", "leaf"])), ["nests"]]


def ring(n):
    """The functions on the stack of a greenlet of `switches`, by the depth that it was called with."""
    return ["ring"] + [name for i in range(n, 0, -1) for name in (["down", "inner"] if i % 3 == 0 else ["down"])] + ["down"]


RINGS = [ring(n) for n in (20, 60, 121)]


def takes_turns(stack, _):
    """A stack of the program's own functions, outermost first."""
    if stack[:2] == ["<module>", "main"]:
        return len(stack) == 2
    return any(stack[:len(way)] == way[:len(stack)] and stack[len(way):] in rest
               for way, rest in ((FIRST, ([], ["key"], ["key", "leaf"])), (SECOND, ([], ["leaf"]))))


def starts_and_ends(stack, _):
    return stack in BIRTHS


def switches(stack, in_switch):
    if len(stack) < 3 or stack[0] == "<module>":
        return all(name in ("<module>", "main", "switches", "yields", "ring", "hand_over") for name in stack)
    return any(stack[:-1] == way and stack[-1] in (["hand_over"] if in_switch else ["hand_over", "leaf"]) or not in_switch and stack == way[:len(stack)]
               for way in RINGS)


LEGAL = {"": takes_turns, "births": starts_and_ends, "switches": switches}


def record(python, kind, mode, seconds, folder):
    """Stacks, each with its share of the time, and about how many samples there are."""
    target = subprocess.Popen([python, TARGET, kind, *mode.split()], stdout=subprocess.PIPE)
    recording = os.path.join(folder, kind + ".cprof")
    try:
        target.stdout.readline()
        subprocess.run([CPROFD, "attach", "-q", "-r", str(RATE), "-d", str(seconds), "-o", recording, str(target.pid)], check=True)
    finally:
        target.kill()
        target.wait()
    out = subprocess.check_output([CPROFD, "convert", recording, "-f", "collapsed", "-o", "-"], universal_newlines=True)
    lines = [line.rsplit(" ", 1) for line in out.splitlines()]
    us = sum(int(value) for _, value in lines)
    return [(stack, int(value) / us) for stack, value in lines], us * RATE / 1e6


def run(python, kind, mode, seconds, folder):
    name = "%s %s, %s" % (kind, mode or "turns", python)
    stacks, n = record(python, kind, mode, seconds, folder)
    bad, sums, cuts = collections.Counter(), collections.Counter(), collections.Counter()
    for stack, share in stacks:
        frames = stack.split(";")
        ours = [match.group(1).split(".")[-1] for match in map(FUNCTION.match, frames) if match]
        why = [frame for frame in frames if frame.startswith("(cut:")]
        cut = bool(why)
        in_switch = bool(SWITCH.search(stack))
        sums["cut"] += (cut and AT_START not in why) * share
        cuts.update({note: share for note in why})
        sums["leaf"] += ("leaf" in ours) * share
        sums["native"] += (not cut and not ours and bool(GREENLET.search(stack))) * share
        sums["switch"] += (in_switch and bool(ours)) * share
        if ours and not cut and not LEGAL[mode](ours, in_switch):
            bad[";".join(ours[:3] + ours[-3:])] += share
    check_figures(not bad, name + ": each stack is one of the program's", bad.most_common(3))
    check_figures(sums["cut"] * n <= few(n, 0.005), name + ": cut: %.2f %% of %d" % (100 * sums["cut"], n), dict(cuts.most_common(3)))
    if mode == "births":
        check_figures(sums["native"] > 0, name + ": outside of Python: %.1f %%" % (100 * sums["native"]))
    elif mode == "switches":
        check_figures(sums["switch"] > 0.01, name + ": in a switch, with Python frames: %.1f %%" % (100 * sums["switch"]))
    elif not mode:
        check_figures(sums["leaf"] > 0.5, name + ": in the leaf: %.1f %%" % (100 * sums["leaf"]))


def has(python, module):
    return not subprocess.run([python, "-c", "import " + module], stderr=subprocess.DEVNULL).returncode


def interpreters(given):
    """Those of the matrix that have greenlet, and the given ones."""
    script = os.path.join(ROOT, "tests/live/pythons.sh")
    lines = subprocess.run([script], stdout=subprocess.PIPE, universal_newlines=True).stdout.splitlines()
    found = [line.split(" ", 1)[1] for line in lines]
    return [*(python for python in found if has(python, "greenlet")), *given]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--seconds", type=float, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pythons = interpreters(arguments.python)
        if not pythons:
            skip("no interpreter has greenlet")
        for python in pythons:
            for kind in ("greenlet", "gevent"):
                if not has(python, kind):
                    skip("%s has no %s" % (python, kind))
                    continue
                for mode in LEGAL:
                    run(python, kind, mode, arguments.seconds, folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
