# SPDX-License-Identifier: MIT
"""Makes functions by exec and drops them at once: all of them at line 1 of <string>, freed and
made again at the same addresses. All generated frames of a stack carry one number, and the numbers
never go back in time."""

SOURCE = ("def c_%d(n):\n for _ in range(n): pass\n"
          "def b_%d(n, c): c(n)\n"
          "def a_%d(n, b, c): b(n, c)\n")
ONE_LINE = "def a_%d(n, b, c): b(n, c)"
ONE_LINE_B = "def b_%d(n, c): c(n)"
ONE_LINE_C = "def c_%d(n): [None for _ in range(n)]"


def make(i):
    space = {}
    exec(ONE_LINE % i, space)
    exec(ONE_LINE_B % i, space)
    exec(ONE_LINE_C % i, space)
    return space["a_%d" % i], space["b_%d" % i], space["c_%d" % i]


def main():
    i = 0
    while True:
        a, b, c = make(i)  # call: make
        a(40, b, c)  # call: generated
        i += 1


print("ready", flush=True)
main()  # call: main
