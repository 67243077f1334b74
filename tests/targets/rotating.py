# SPDX-License-Identifier: MIT
"""A target of tests/live/continuous.py: works and sleeps in three threads for so many seconds; with "storm", makes threads and children, and executes
a program, meanwhile. Its last line: the CPU time (s) that the process and its children ran."""
import os
import resource
import subprocess
import sys
import threading
import time

end = time.monotonic() + float(sys.argv[1])
storm = "storm" in sys.argv


def work(seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        sum(i * i for i in range(2000))


def halves():
    while time.monotonic() < end:
        work(0.02)
        time.sleep(0.03)


def storms():
    while time.monotonic() < end:
        brief = threading.Thread(target=work, args=(0.01,))
        brief.start()
        pid = os.fork()
        if not pid:
            work(0.01)
            os._exit(0)
        os.waitpid(pid, 0)
        subprocess.run([sys.executable, "-c", "sum(range(200000))"], check=True)
        brief.join()


threads = [threading.Thread(target=time.sleep, args=(end - time.monotonic(),), name="sleeper"), threading.Thread(target=halves, name="halves")]
if storm:
    threads.append(threading.Thread(target=storms, name="storms"))
for thread in threads:
    thread.start()
print("up", flush=True)
work(end - time.monotonic())
for thread in threads:
    thread.join()
if storm and "again" not in sys.argv:
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, __file__, "2", "storm", "again"])  # its CPU time goes on
print(sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))))
