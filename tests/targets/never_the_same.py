# SPDX-License-Identifier: MIT
"""A target of tests/live/soak.py, until its input ends: functions, call chains and calls of new code that never come back, threads and children that
begin and end, programs that are executed, and JIT objects that come and go (the program that argv[1] names). argv[2]: s between one turn and the next."""
import itertools
import os
import random
import select
import subprocess
import sys
import threading
import time

CODE = """
def link_{n}(chain, seconds):
    if chain:
        return chain[0](chain[1:], seconds)
    end = time.monotonic() + seconds
    s = 0
    while time.monotonic() < end:
        for i in range(200):
            s += i
    return s
"""


def new_function(n):
    space = {"time": time}
    exec(compile(CODE.format(n=n), "<generated %d>" % n, "exec"), space)
    return space["link_%d" % n]


def work(n):
    """20 ms, by five new functions in eight orders."""
    functions = [new_function(5 * n + i) for i in range(5)]
    for _ in range(8):
        random.shuffle(functions)
        functions[0](functions[1:random.randrange(2, 5)], 0.0025)


for turn in itertools.count():
    if select.select([sys.stdin], [], [], float(sys.argv[2]))[0]:
        break
    work(turn)
    brief = threading.Thread(target=work, args=(turn,))
    brief.start()
    if turn % 4 == 0:
        pid = os.fork()
        if not pid:
            work(turn)
            os._exit(0)
        os.waitpid(pid, 0)
    if turn % 40 == 0:
        subprocess.run([sys.executable, "-c", "sum(range(200000))"], check=True)
    if turn % 100 == 0:
        subprocess.run([sys.argv[1], "0.2"], check=True, stdout=subprocess.DEVNULL)
    brief.join()
