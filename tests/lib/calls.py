# SPDX-License-Identifier: MIT
"""For tests of call edges: which interpreters to test, a target that logs what it does, and the calls in a stack."""
import collections
import contextlib
import json
import os
import subprocess

from lib import LIVE
from lib.recording import kind_of
from lib.result import finish, skip

CALLEE = 6       # kind of a frame that names what was called
COLLECTOR = "(GC)"

# A Python function of a stack: the C functions that it called, innermost first, and the Python function that these called (None: it is
# the innermost one).
Call = collections.namedtuple("Call", "caller between inner")


def add_interpreters(parser, default=("/usr/bin/python3",)):
    parser.add_argument("--all", action="store_true", help="every interpreter of pythons.sh")
    parser.add_argument("pythons", nargs="*", default=list(default))


def every_interpreter():
    rows = subprocess.run([os.path.join(LIVE, "pythons.sh")], stdout=subprocess.PIPE, text=True).stdout
    return [row.split()[1] for row in rows.splitlines()]


def run(judge, arguments):
    """Judges each interpreter that was asked for, as root; the test's exit status."""
    if os.geteuid():
        skip("needs root")
    else:
        for python in every_interpreter() if arguments.all else arguments.pythons:
            judge(python)
    return finish()


@contextlib.contextmanager
def told_by(python, program, *arguments):
    """A target that runs meanwhile, and what it said of itself on its first line."""
    target = subprocess.Popen([python, program, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    try:
        yield target, json.loads(target.stdout.readline())
    finally:
        target.kill()
        target.wait()


def own_name(function):
    return function[0].split(".")[-1]


def calls(path):
    """Each Python function of a stack, innermost first."""
    between, inner = [], None
    for function, _ in path:
        kind = kind_of(function)
        if kind == CALLEE and function[0] != COLLECTOR:
            between.append(function[0])
        elif not kind: # else a native function, or a note
            yield Call(own_name(function), between, inner)
            between, inner = [], own_name(function)
