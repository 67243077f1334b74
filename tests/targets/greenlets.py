# SPDX-License-Identifier: MIT
"""Greenlets of known depth that take turns, or start and end: greenlets.py greenlet|gevent [births]

`first` and `second` lie on `deep` of 5 and 9 calls; each burns in `leaf`, of `first` below sorted()'s key function, and gives way. What
greenlets call lies on nothing of the program: `main` and `<module>` never have frames inside of them.

`births`, in two threads, has greenlets that return, raise, start another one and wait for it, or give way and are then dropped, so that
GreenletExit ends them. All burn in `leaf`."""
import sys
import threading


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


def short(n):
    leaf(n)


def sorting(n):
    sorted([n], key=key)


def fails(n):
    leaf(n)
    raise KeyError


def nests(n):
    import greenlet

    greenlet.greenlet(short).switch(n)


def waits(n, give_way):
    try:
        give_way()
    finally:
        leaf(n)


def births():
    import greenlet

    here = greenlet.getcurrent()
    dropped = []
    while True:
        for job in (short, sorting, fails, nests):
            try:
                greenlet.greenlet(job).switch(100)
            except KeyError:
                pass
        waiting = greenlet.greenlet(waits)
        waiting.switch(100, here.switch)
        dropped = [*dropped[-2:], waiting]


def spawns():
    import gevent

    while True:
        gevent.joinall([gevent.spawn(short, 100), gevent.spawn(sorting, 100), gevent.spawn(nests, 100)])


def main():
    if sys.argv[2:] == ["births"]:
        for _ in range(2):
            threading.Thread(target=spawns if sys.argv[1] == "gevent" else births, daemon=True).start()
        print("ready", flush=True)
        threading.Event().wait()
    elif sys.argv[1] == "gevent":
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
