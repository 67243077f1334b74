# SPDX-License-Identifier: MIT
"""Modules that are loaded and dropped, one after another, so that the code of one lies where that of another was. In each `module_N` calls `outer_N`, which calls
`inner_N`; all have as much code. reused_code.py SECONDS"""
import marshal
import sys
import time

MODULES = 40
SOURCE = """
def outer_{n}(rounds):
    for i in range(rounds):
        inner_{n}(i)
def inner_{n}(i):
    for j in range(60):
        i ^= j
outer_{n}({rounds})
"""


def dumped(n):
    code = compile(SOURCE.format(n="%02d" % n, rounds=10 + n), "/reused/module_%02d.py" % n, "exec")
    return marshal.dumps(code)


def main():
    print("{}", flush=True)
    modules = [dumped(n) for n in range(MODULES)]
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        for module in modules:
            exec(marshal.loads(module), {})


main()
