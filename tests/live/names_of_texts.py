#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A compiler that names what it does by texts made for the call (tests/targets/compile_texts.py): each sample's unit, phase and pass has the name
that the target's own log has for that time, or none; and few have none. Needs root.

    names_of_texts.py [--compiles N] [--long] [--modes cpu,wall] [PYTHON ...]"""
import argparse
import bisect
import collections
import itertools
import os
import re
import sys
import tempfile

from first_waits import pythons
from lib import ROOT
from lib.recording import rows
from lib.result import check_figures, finish
from lib.wait import few
from units_told import SLACK, Told, recorded

TARGET = os.path.join(ROOT, "tests/targets/compile_texts.py")
FIRST = 3
RULE = "%s\n    file */targets/compile_texts.py\n    function %s\n    name text\n"
SIGNATURE = "    has kind\n    signature kind\n"
RULES = ("compiler mine\n" + RULE % ("unit", "build") + SIGNATURE + RULE % ("unit", "needed") + SIGNATURE + RULE % ("phase", "analyse") +
         RULE % ("phase", "lower") + RULE % ("pass", "polish"))
VERSIONS = re.compile(r"/(3\.8|3\.11|3\.13)\.\d+/")


class Ticks(Told):
    """... and the innermost unit of each tick."""

    def __init__(self, events):
        self.ticks = []
        super().__init__(events)

    def take(self, event):
        super().take(event)
        for when, thread, number, cause in rows(event, "thread", "unit", "cause"):
            if not cause:
                self.ticks.append((self.tid(thread), when, self.ids[number]))

    def names(self, at):
        """{kind: names, the innermost first}"""
        found = collections.defaultdict(list)
        while at:
            unit = self.units[at]
            signature = "(%s)" % unit["signature"] if unit["kind"] == 0 and unit["signature"] else ""
            found[unit["kind"]].append(unit["name"] + signature)
            at = unit["parent"]
        return found


def judge(of, ms, truth, told, unknown_ticks=None):
    """Each of the log's compiles (phases, passes), by the ticks in it: one wrong name is too many; one right name is enough. `unknown_ticks`: which
    part of the ticks may have no name."""
    log = collections.defaultdict(list)
    for tid, kind, name, begin, end in truth:
        log[tid].append((begin + SLACK, end - SLACK, kind, name))
    ticks = collections.defaultdict(list)
    for tid, when, at in told.ticks:
        ticks[tid].append((when, at))
    wrong, ticks_in, nameless, unknown, counted = [], 0, 0, collections.Counter(), collections.Counter()
    for tid, entries in log.items():
        found = sorted(ticks[tid])
        times = [when for when, _ in found]
        for begin, end, kind, name in entries:
            here = range(bisect.bisect_left(times, begin), bisect.bisect_right(times, end))
            inside = {(b, e, k) for b, e, k, _ in entries if b > begin and e < end and k in (0, FIRST)} if kind in (0, FIRST) else ()
            right = 0
            for i in here:
                names = told.names(found[i][1])[0 if kind == FIRST else kind]
                # Of two units, one in the other, the inner one's ticks are the inner one's affair, too.
                # Where the inner one has no name, the outer one's is not told for it.
                others = [x for x in itertools.takewhile(bool, names) if not name.startswith(x) and not any(b - SLACK <= times[i] <= e + SLACK for b, e, _ in inside)]
                wrong += [(name[:40], x[:40]) for x in others[:1] if name not in names]
                right += name in names
            ticks_in += len(here)
            nameless += len(here) - right if kind != FIRST else 0
            if kind != FIRST and (here or kind == 0):
                counted[kind] += 1
                unknown[kind] += not right
    check_figures(ticks_in and not wrong, of + " wrong names of ticks", len(wrong), "of", ticks_in, *wrong[:6])
    if unknown_ticks is not None:
        check_figures(nameless <= unknown_ticks * ticks_in, of + " ticks without a name", nameless, "of", ticks_in)
    for kind, name in enumerate(("compiles", "phases", "passes")):
        n = counted[kind]
        check_figures(n and unknown[kind] <= (few(n, 0.02) if ms < 100 else 0), "%s %s without a name" % (of, name), unknown[kind], "of", n)


def main(target=TARGET, rules=RULES, compiles=3, unknown_ticks=None, versions=VERSIONS, long=True):
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiles", type=int, default=compiles, help="of each way")
    parser.add_argument("--long", action="store_true", help="compiles of 100 ms on each interpreter")
    parser.add_argument("--modes", default="cpu")
    parser.add_argument("python", nargs="*")
    arguments = parser.parse_args()
    for python in arguments.python or [x for x in pythons() if versions.search(x) or x.startswith("/usr/")]:
        for mode in arguments.modes.split(","):
            runs = [(20, arguments.compiles, 1)]
            if arguments.long or (long and python.startswith("/usr/")):
                runs.append((100, max(1, arguments.compiles // 8), 2))
            for ms, compiles, threads in runs:
                with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
                    truth, told = recorded(python, target, (ms, compiles, threads), rules, folder, mode, Ticks)
                judge("%s %s, %d ms, %d:" % (os.path.basename(os.path.realpath(python)), mode, ms, threads), ms, truth, told, unknown_ticks)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
