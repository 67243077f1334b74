# SPDX-License-Identifier: MIT
"""A compiler that traces: it runs what it compiles (compile_traced.py, traced.rules)."""
import math


def sine(x):
    for _ in range(400):
        math.sin(x)
    return math.sin(x)


def compile(function, argument):
    return function(argument)
