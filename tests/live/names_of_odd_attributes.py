#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Names by an attribute that Python computes, or that comes, goes and moves (tests/targets/odd_attributes.py): none is wrong, and what lies
in memory is read. Needs root.

    names_of_odd_attributes.py [PYTHON ...]"""
import collections
import os
import re
import sys
import tempfile

from first_waits import pythons
from lib import ROOT
from lib.result import check_figures, finish
from names_of_texts import Ticks
from units_told import SLACK, recorded

TARGET = os.path.join(ROOT, "tests/targets/odd_attributes.py")
RULES = "compiler mine\nunit\n    file */targets/odd_attributes.py\n    function build\n    name kernel.name\n"
VERSIONS = re.compile(r"/3\.(8|13)\.\d+/")
COMPILES = 2   # of each way, and a long one before
READ = 9       # ways of which the attribute lies in memory: the first ones


def judge(python, truth, told):
    wrong, named, n = [], collections.Counter(), 0
    for number, (tid, _, name, begin, end) in enumerate(truth):
        for thread, when, at in ((tid_of, when, at) for tid_of, when, at in told.ticks if tid_of == tid and begin + SLACK <= when <= end - SLACK):
            names = [x for x in told.names(at)[0] if x]
            n += 1
            named[number // (COMPILES + 1)] += name in names
            wrong += [(name, names[0])] if names and name not in names else []
    check_figures(n and not wrong, python + " wrong names of ticks", len(wrong), "of", n, *wrong[:6])
    check_figures(all(named[way] for way in range(READ)), python + " ways that are read", dict(named))


def main():
    for python in sys.argv[1:] or [x for x in pythons() if VERSIONS.search(x) or x.startswith("/usr/")]:
        with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
            judge(os.path.basename(os.path.realpath(python)), *recorded(python, TARGET, (20, COMPILES, 1), RULES, folder, "cpu", Ticks))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
