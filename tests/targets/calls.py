# SPDX-License-Identifier: MIT
"""Calls by keyword, of frames that lie where others lay: what has returned left its links there. (for good): what is called
does not return."""
import sys


def leaf(n, k=0):
    return n + k


def middle(n, k=0):
    return leaf(n, k=1)  # call: leaf


def narrow(n, k=0):
    return middle(n, k=1)  # call: middle


# As large as narrow's frame and middle's: its callee lies where middle's does.
def wide(n, k=0, a=0, b=0, c=0, d=0, e=0, f=0, g=0, h=0, i=0, j=0, l=0, m=0, o=0, p=0, q=0):
    return leaf(n, k=1)  # call: leaf


def numbers(n, k=0):
    yield leaf(n, k=1)  # call: leaf
    yield leaf(n, k=2)  # call: leaf


def all_numbers(n, k=0):
    yield from numbers(n, k=1)  # call: numbers
    yield middle(n, k=1)  # call: middle


class Things:
    def __getitem__(self, n):
        return n

    def visit(self, n):
        return getattr(self, "visit_%d" % (n % 3))(n, k=1)  # call: Things.visit_0 Things.visit_1 Things.visit_2

    def visit_0(self, n, k=0):
        return n and self.visit(n=n - 1) + self[n]  # call: Things.visit Things.__getitem__

    def visit_1(self, n, k=0):
        a, b = n, k
        return leaf(a, k=b) + self.visit(n=n - 1)  # call: leaf Things.visit

    def visit_2(self, n, k=0):
        a, b, c, d = 1, 2, 3, 4
        e = self.visit(n=n - 1)  # call: Things.visit
        return a + b + c + d + e


def main(*things):
    while True:
        for t in things:
            for n in range(20):
                t.visit(n)  # call: Things.visit
                narrow(n, k=1)  # call: narrow
                wide(n, k=1)  # call: wide
                narrow(n, k=1)  # call: narrow
                for _ in all_numbers(n):  # call: all_numbers
                    leaf(n, k=1)  # call: leaf


print("ready", flush=True)
main(*[Things(), Things()])  # call: main (for good)
