# SPDX-License-Identifier: MIT
"""Generators, coroutines and asynchronous generators, driven by hand."""


def numbers(n):
    for i in range(n):
        yield i


def doubled(n):
    for i in numbers(n):  # call: numbers
        yield 2 * i  # call: numbers (closed when this generator is)


def chained(n):
    yield from doubled(n)  # call: doubled
    yield from numbers(n)  # call: numbers


def consume(n):
    total = 0
    for i in chained(n):  # call: chained
        total += i
    return total


def in_c(n):
    return sum(doubled(n))  # call: doubled


class Pause:
    def __await__(self):
        yield 1


async def leaf(n):
    await Pause()  # call: Pause.__await__
    return n


async def middle(n):
    n = await leaf(n)  # call: leaf
    return await leaf(n)  # call: leaf


async def source(n):
    for i in range(n):
        await leaf(i)  # call: leaf
        yield i


async def top(n):
    await middle(n)  # call: middle
    async for _ in source(n):  # call: source
        pass


def drive(coroutine):
    try:
        while True:
            coroutine.send(None)  # call: top
    except StopIteration:
        pass


def thrown():
    g = numbers(3)  # call: numbers
    next(g)  # call: numbers
    try:
        g.throw(KeyError("x"))  # call: numbers
    except KeyError:
        pass
    h = chained(3)  # call: chained
    next(h)  # call: chained
    # close() goes to the innermost of a `yield from` first (Objects/genobject.c, gen_close).
    h.close()  # call: chained doubled


def main():
    while True:
        consume(5)  # call: consume
        in_c(5)  # call: in_c
        drive(top(3))  # call: drive top
        thrown()  # call: thrown


print("ready", flush=True)
main()  # call: main
