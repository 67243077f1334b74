#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Names of compiles and phases out of the objects of each CPython: a package of our own with Numba's names (compile_package.py)
logs what it was asked for; cprofd must report the same, in the same order, name by name.

    tests/live/units_layouts.py [--all | PYTHON...]      without: /usr/bin/python3; --all: those of pythons.sh

Each compile and phase has some 6 ms of CPU. Free-threaded interpreters are left out: their objects are not read. Needs root.
"""
import difflib
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from units_told import Told, finish, run, tally, verdict  # noqa: E402

TARGET = "compile_package.py"


def pythons(arguments):
    if arguments == ["--all"]:
        lines = subprocess.run([os.path.join(HERE, "pythons.sh")], stdout=subprocess.PIPE, universal_newlines=True).stdout.splitlines()
        return [tuple(line.split(None, 1)) for line in lines]
    return [(path, path) for path in arguments or ["/usr/bin/python3"]]


def check(name, python, folder):
    truth, events, words = run(python, "", folder, target=TARGET)
    if not truth:
        return verdict(name + ": the target runs", "it ended")
    told = Told(events)
    true = ["%d %s(%s)" % (kind, what, signature) for kind, what, signature, _, _ in truth]
    first = truth[0][3]
    seen = ["%d %s(%s)" % (u["kind"], u["name"], u["signature"]) for u in told.units[1:] if u["last"] and u["last"] > first]
    wrong = [line for line in difflib.unified_diff(true, seen, "the target", "cprofd", n=0, lineterm="") if line[:3] not in ("---", "+++") and line[0] in "+-"]
    verdict("%s: %d compiles and phases by name" % (name, len(true)), "; ".join(wrong[:20]))


def main():
    with tempfile.TemporaryDirectory(dir=os.path.join(os.path.dirname(os.path.dirname(HERE)), "build")) as folder:
        for name, python in pythons(sys.argv[1:]):
            if name.split("-")[0].endswith("t"):
                print("skipped %s: free-threaded" % name)
                tally["skipped"] += 1
                continue
            check(name, python, folder)
    return finish()


sys.exit(main())
