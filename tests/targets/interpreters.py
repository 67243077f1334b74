# SPDX-License-Identifier: MIT
"""Interpreters that live for some ms, in the thread that makes them, one after the other: between two of them the process has one."""
import sys
import time

try:
    import _interpreters as module
except ImportError:
    import _xxsubinterpreters as module

SCRIPT = """
import time
def leaf_within():
    end = time.thread_time() + 0.004
    while time.thread_time() < end:
        pass
def within():
    leaf_within()
within()
"""


def make():
    if hasattr(module, "exec"):
        return module.create("legacy")
    return module.create(isolated=False) if sys.version_info >= (3, 9) else module.create()


def runs(interpreter):
    (module.exec if hasattr(module, "exec") else module.run_string)(interpreter, SCRIPT)


def leaf():
    end = time.thread_time() + 0.004
    while time.thread_time() < end:
        pass


def turn():
    interpreter = make()
    runs(interpreter)
    module.destroy(interpreter)
    leaf()


print("[]", flush=True)
while True:
    turn()
