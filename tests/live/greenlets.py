#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stacks of greenlets: each Python stack is possible in the target's program, and native stacks end at the greenlet's entry. Of greenlets that
start and end, too: then nothing of Python runs, and the stack is whole.

    greenlets.py [--python PATH ...] [--seconds N]

With greenlet and gevent of Debian's Python (stripped), and of the Pythons that are given."""
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
FUNCTION = re.compile(r"^(\S+) \(.*/greenlets\.py:\d+\)$")
FIRST = ["first"] + ["deep"] * 6 + ["turn"]
SECOND = ["second"] + ["deep"] * 10 + ["turn"]
BIRTHS = [["births"], ["spawns"], *([job, *inner] for job in ("short", "fails", "waits") for inner in ([], ["leaf"])),
          *(["sorting", *inner] for inner in ([], ["key"], ["key", "leaf"])), ["nests"]]


def legal(stack):
    """A stack of the program's own functions, outermost first."""
    if stack[:2] == ["<module>", "main"]:
        return len(stack) == 2
    return any(stack[:len(way)] == way[:len(stack)] and stack[len(way):] in rest
               for way, rest in ((FIRST, ([], ["key"], ["key", "leaf"])), (SECOND, ([], ["leaf"]))))


def run(python, kind, seconds, folder, births):
    name = "%s%s, %s" % (kind, " that start and end" if births else "", python)
    if subprocess.run([python, "-c", "import " + kind], stderr=subprocess.DEVNULL).returncode:
        skip("%s has no %s" % (python, kind))
        return
    target = subprocess.Popen([python, TARGET, kind, *["births"] * births], stdout=subprocess.PIPE)
    recording = os.path.join(folder, kind + ".cprof")
    try:
        target.stdout.readline()
        subprocess.run([CPROFD, "attach", "-q", "-d", str(seconds), "-o", recording, str(target.pid)], check=True)
    finally:
        target.kill()
        target.wait()
    out = subprocess.check_output([CPROFD, "convert", recording, "-f", "collapsed", "-o", "-"], universal_newlines=True)
    bad, sums, cuts = collections.Counter(), collections.Counter(), collections.Counter()
    for line in out.splitlines():
        stack, ns = line.rsplit(" ", 1)
        frames = stack.split(";")
        ours = [match.group(1) for match in map(FUNCTION.match, frames) if match]
        cut = any(frame.startswith("(cut:") for frame in frames)
        sums["all"] += int(ns)
        sums["cut"] += cut * int(ns)
        cuts.update({frame: int(ns) for frame in frames if frame.startswith("(cut:")})
        sums["leaf"] += ("leaf" in ours) * int(ns)
        sums["native"] += (not cut and not ours and "_greenlet." in stack) * int(ns)
        if ours and not cut and not (ours in BIRTHS if births else legal(ours)):
            bad[";".join(ours)] += int(ns)
    check_figures(not bad, name + ": each stack is one of the program's", bad.most_common(3))
    n = 999 * sums["all"] / 1e9  # about so many samples
    check_figures(n * sums["cut"] <= few(n, 0.02 if births else 0.005) * sums["all"], name + ": cut: %.2f %%" % (100 * sums["cut"] / sums["all"]), dict(cuts))
    if births:
        check_figures(sums["native"] > 0.02 * sums["all"], name + ": outside of Python: %.1f %%" % (100 * sums["native"] / sums["all"]))
        return
    check_figures(sums["leaf"] > 0.8 * sums["all"], name + ": in the leaf: %.1f %%" % (100 * sums["leaf"] / sums["all"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", action="append", default=[])
    parser.add_argument("--seconds", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for python in ["/usr/bin/python3", *arguments.python]:
            for births in (False, True):
                for kind in ("greenlet", "gevent"):
                    run(python, kind, arguments.seconds, folder, births)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
