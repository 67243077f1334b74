# SPDX-License-Identifier: MIT
"""Two call chains, in turn, as fast as they can. `# call: f` on a line says which function a frame
that stands on this line may be calling; a leaf may stand on any line of its function."""
import sys


def a4(n):
    n += 1
    return n


def a3(n):
    n = a4(n)  # call: a4
    n = a4(n)  # call: a4
    return n


def a2(n):
    for _ in (0, 1):
        n = a3(n)  # call: a3
    return n


def a1(n):
    n = a2(n)  # call: a2
    return n


def b4(n):
    n -= 1
    return n


def b3(n):
    return b4(  # call: b4
        n)


def by_key(n):
    return b4(n)  # call: b4


def b2(n):
    sorted((2, 1), key=by_key)  # call: by_key
    return b3(n)  # call: b3


class Thing:
    def __init__(self, n):
        self.n = b4(n)  # call: b4

    def __add__(self, other):
        return b4(other)  # call: b4

    @property
    def value(self):
        return b3(self.n)  # call: b3


def b1(n, *args, **kwargs):
    n = b2(n)  # call: b2
    t = Thing(n)  # call: Thing.__init__
    n = t + 1  # call: Thing.__add__
    return t.value  # call: Thing.value


def main():
    n = 0
    while True:
        n = a1(n)  # call: a1
        n = b1(n, 1, 2, k=3)  # call: b1


print("ready", flush=True)
main()  # call: main
