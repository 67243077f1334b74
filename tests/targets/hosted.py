# SPDX-License-Identifier: MIT
"""A target of tests/live/agent.py: runs so many CPU seconds in one of the ways below. Its last line has "PID CPU-seconds" of each process that it was.

    hosted.py SECONDS work|fork|exec|told|setuid

told: works once SIGUSR1 came, and tells what it ran from there on."""
import os
import signal
import sys
import time

seconds, how = float(sys.argv[1]), sys.argv[2]


def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(i * i for i in range(2000))


def told():
    return "%d %.6f" % (os.getpid(), time.process_time())


def fork():
    reader, writer = os.pipe()
    if not os.fork():
        work(seconds)
        os.write(writer, told().encode())
        os._exit(0)
    os.close(writer)
    work(seconds / 2)
    child = os.read(reader, 100).decode()
    os.wait()
    print(child, told())


if how == "told":
    come = []
    signal.signal(signal.SIGUSR1, lambda *_: come.append(1))
    print("up", flush=True)
    while not come:
        time.sleep(0.01)
    begin = time.process_time()
    work(seconds)
    print("%d %.6f" % (os.getpid(), time.process_time() - begin))
elif how == "fork":
    fork()
elif how == "exec":
    work(seconds / 2)
    os.execv(sys.executable, [sys.executable, __file__, str(seconds / 2), "work"])  # its CPU time goes on
else:
    work(seconds)
    print(told())
