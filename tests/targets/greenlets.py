# SPDX-License-Identifier: MIT
"""Greenlets of known depth that take turns: greenlets.py greenlet|gevent

`first` and `second` lie on `deep` of 5 and 9 calls; each burns in `leaf`, of `first` below sorted()'s key function, and gives way. What
greenlets call lies on nothing of the program: `main` and `<module>` never have frames inside of them."""
import sys


def leaf(n):
    s = 0
    for i in range(n):
        s += i * i
    return s


def key(n):
    return leaf(n)


def turn(give_way, sorts):
    while True:
        if sorts:
            sorted([800, 800, 800], key=key)
        else:
            leaf(2400)
        give_way()


def deep(n, give_way, sorts):
    if n:
        deep(n - 1, give_way, sorts)
    else:
        turn(give_way, sorts)


def first(give_way):
    deep(5, give_way, True)


def second(give_way):
    deep(9, give_way, False)


def main():
    if sys.argv[1] == "gevent":
        import gevent

        jobs = [gevent.spawn(job, gevent.sleep) for job in (first, second)]
        print("ready", flush=True)
        gevent.joinall(jobs)
    else:
        import greenlet

        here = greenlet.getcurrent()
        jobs = [greenlet.greenlet(job) for job in (first, second)]
        print("ready", flush=True)
        while True:
            for job in jobs:
                job.switch(here.switch)


main()
