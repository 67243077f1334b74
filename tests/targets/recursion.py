# SPDX-License-Identifier: MIT
"""Recurses to known depths and unwinds, by return and by exception."""


def bottom(n):
    return n + 1


def down(n):
    if n == 0:
        return bottom(n)  # call: bottom
    return down(n - 1)  # call: down


def fall(n):
    if n == 0:
        raise KeyError(n)
    try:
        fall(n - 1)  # call: fall
    finally:
        bottom(n)  # call: bottom


def catch(n):
    try:
        fall(n)  # call: fall
    except KeyError:
        pass


def even(n):
    return n == 0 or odd(n - 1)  # call: odd


def odd(n):
    return n != 0 and even(n - 1)  # call: even


def through_c(n):
    if n:
        list(map(through_c, (n - 1,)))  # call: through_c


def main():
    while True:
        for depth in (1, 2, 3, 50, 200):
            down(depth)  # call: down
            catch(depth)  # call: catch
            even(depth)  # call: even
            through_c(depth // 8)  # call: through_c


print("ready", flush=True)
main()  # call: main
