# SPDX-License-Identifier: MIT
"""Generators, coroutines and asynchronous generators that rest: started, left at a yield, resumed much
later, while plain calls use the same part of the stack. Whoever rests is on no stack; `# call: f` as
in chains.py."""
import types


def rests(n):
    while True:
        n = (yield n) or 0
        n += 1


def delegates(n):
    yield from rests(n)  # call: rests


@types.coroutine
def pause(n):
    n += 1
    yield n
    return n


async def awaits(n):
    while True:
        n = await pause(n)  # call: pause


async def awaits_it(n):
    await awaits(n)  # call: awaits


async def produces(n):
    while True:
        yield n
        n = await pause(n)  # call: pause


async def consumes(n):
    # When this is closed, up to 3.12 the one that it waits for runs directly below it.
    async for n in produces(n):  # call: produces pause
        pass  # call: produces pause (the line that 3.8 and 3.9 name then)


def resume(sleeper):
    return sleeper.send(None)  # call: delegates awaits_it consumes rests


def leaf(n):
    n += 1
    n -= 1
    return n


def plain(n):
    return leaf(n) + leaf(n + 1)  # call: leaf


def plain_too(n):
    for _ in (0, 1):
        n = plain(n)  # call: plain
    return n


def round_of(sleepers):
    for sleeper in sleepers:
        resume(sleeper)  # call: resume
        plain_too(1)  # call: plain_too


def sleepers_of(n):
    all_of_them = []
    for i in range(n):
        all_of_them += [rests(i), delegates(i), awaits_it(i), consumes(i)]  # call: rests delegates awaits_it consumes
    return all_of_them


def wake(sleepers):
    for sleeper in sleepers:
        resume(sleeper)  # call: resume


def close(sleepers):
    for sleeper in sleepers:
        # The innermost of those that wait for each other first (Objects/genobject.c, gen_close).
        sleeper.close()  # call: rests delegates awaits_it consumes awaits pause produces


def main():
    while True:
        sleepers = sleepers_of(32)  # call: sleepers_of
        wake(sleepers)  # call: wake
        for _ in range(20):
            round_of(sleepers)  # call: round_of
        close(sleepers)  # call: close


print("ready", flush=True)
main()  # call: main
