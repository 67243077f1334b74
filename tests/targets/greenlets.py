# SPDX-License-Identifier: MIT
"""Greenlets of known depth that take turns, start and end, or do little but switch: greenlets.py greenlet|gevent [births|switches]

`first` and `second` lie on `deep` of 5 and 9 calls; each burns in `leaf`, of `first` below sorted()'s key function, and gives way. What
greenlets call lies on nothing of the program: `main` and `<module>` never have frames inside of them.

`births`, in two threads, has greenlets that return, raise, start another one and wait for it, or give way and are then dropped, so that
GreenletExit ends them. All burn in `leaf`.

`switches` has greenlets on `down` of 20, 60 and 121 calls, each third of them below max()'s key function, which switch straight to the next one in
`hand_over`; with gevent by way of its hub."""
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


def key_of(n, hand_over):
    def inner(_):
        return down(n, hand_over)

    return inner


def down(n, hand_over):
    if n and n % 3:
        return down(n - 1, hand_over)
    if n:
        return max([n], key=key_of(n - 1, hand_over))
    while True:
        leaf(60)
        hand_over()


def ring(n, hand_over, begin):
    begin()
    down(n, hand_over)


DEPTHS = (20, 60, 121)


def switches():
    import greenlet

    def to(i):
        def hand_over():
            greenlets[(i + 1) % len(DEPTHS)].switch()

        return hand_over

    here = greenlet.getcurrent()
    greenlets = [greenlet.greenlet(ring) for _ in DEPTHS]
    for i, n in enumerate(DEPTHS):
        greenlets[i].switch(n, to(i), here.switch)
    print("ready", flush=True)
    greenlets[0].switch()


def yields():
    import gevent

    def hand_over():
        gevent.sleep(0)

    greenlets = [gevent.spawn(ring, n, hand_over, hand_over) for n in DEPTHS]
    print("ready", flush=True)
    gevent.joinall(greenlets)


def main():
    if sys.argv[2:] == ["switches"]:
        yields() if sys.argv[1] == "gevent" else switches()
    elif sys.argv[2:] == ["births"]:
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
