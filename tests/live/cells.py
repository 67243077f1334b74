#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compiles that are named by locals in cells (tests/targets/cells.py): each is told once and by its name, also where it is sampled before the cells
are made. Needs root.

    cells.py [PYTHON ...]      without: those of pythons.sh"""
import difflib
import os
import sys
import tempfile

from first_waits import pythons
from lib import ROOT
from lib.result import check_figures, finish
from units_told import recorded

TARGET = os.path.join(ROOT, "tests/targets/cells.py")
UNIT = "unit\n    file */targets/cells.py\n    function %s\n    name func.__qualname__\n"
RULES = "compiler mine\n" + UNIT % "compile_it" + "    signature args.*.name\n" + UNIT % "by_keyword"


def judge(python):
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        truth, told = recorded(python, TARGET, (), RULES, folder, "cpu")
    true, first = [name for name, _, _ in truth], truth[0][1]
    seen = ["%s(%s)" % (u["name"], u["signature"]) for u in told.units[1:] if u["last"] and u["last"] > first]
    wrong = [line for line in difflib.unified_diff(true, seen, n=0, lineterm="") if line[:3] not in ("---", "+++") and line[0] in "+-"]
    check_figures(not wrong, "%s: %d compiles, wrong:" % (os.path.realpath(python).split("/")[-3 if "pyenv" in python else -1], len(true)),
                  len(wrong), *wrong[:12])


def main():
    for python in sys.argv[1:] or pythons():
        judge(python)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
