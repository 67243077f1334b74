#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Code objects that are changed in place while they are sampled (tests/targets/interned.py): names, files and lines of their functions are right
before and after, and each call is one compile, by its name. Needs root.

    interned.py [--all] [--functions N] [PYTHON ...]     --all: every interpreter of pythons.sh"""
import argparse
import bisect
import json
import os
import re
import sys
import tempfile

from lib import ROOT
from lib.calls import add_interpreters, run, told_by
from lib.recording import Batches, kind_of, record, rows
from lib.result import check
from units_told import Told

TARGET = os.path.join(ROOT, "tests/targets/interned.py")
RULES = "compiler mine\nunit\n    file /interned/*\n    function *work_*\n    has change\n    name label\n"
AWAY = 3000000  # ns between the target's clock and its function


def judge(python, functions):
    with tempfile.NamedTemporaryFile("w", suffix=".rules") as rules, told_by(python, TARGET, functions) as (target, _):
        rules.write(RULES)
        rules.flush()
        events = record(target.pid, 110, 999, "--rules", rules.name)
        truth = json.loads(target.stdout.readline())
    begins, wrong, n, tables = [begin for _, begin, _ in truth], [], 0, Batches()
    for event in events:
        tables.feed(event)
        for time, stack in rows(event, "stack") if event["ev"] == "samples" else ():
            at = bisect.bisect(begins, time) - 1
            if at < 0 or not truth[at][1] + AWAY < time < truth[at][2] - AWAY:
                continue
            for function, _ in tables.path(stack):
                if not kind_of(function) and "/interned/" in function[1]:
                    n += 1
                    true = truth[at][0]
                    if not (re.fullmatch(r"(make_%d\.<locals>\.)?work_%d" % (true, true), function[0]) and function[1] == "/interned/%d.py" % true and function[2] == true):
                        wrong.append("%d: %s %s:%s" % (true, *function[:3]))
    check(n and not wrong, "%s: %d stacks by name, file and line" % (python, n), wrong[:5], len(wrong))
    told = [unit for unit in Told(events).units[1:] if unit["kind"] == 0]
    names = [unit["name"] for unit in told]
    # The first call may have been over before its code was known.
    whole = names[1:]
    first, last = (int(whole[0].split()[1]), int(whole[-1].split()[1])) if whole and all(whole) else (0, 0)
    check(len(names) > functions / 3 and whole == ["label %d" % i for i in range(first, last + 1)], "%s: %d compiles, each once" % (python, len(names)), names)


def main():
    parser = argparse.ArgumentParser()
    add_interpreters(parser)
    parser.add_argument("--functions", type=int, default=30)
    options = parser.parse_args()
    return run(lambda python: judge(python, options.functions), options)


if __name__ == "__main__":
    sys.exit(main())
