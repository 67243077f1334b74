# SPDX-License-Identifier: MIT
"""Makes short-lived children of one kind, or of several, a few at a time.

    children.py LOG MILLISECONDS KIND=COUNT... [--other PYTHON] [--wait]

Each child works so long (CPU time) in a function that carries its number, child_17, every fourth
one also in a thread, thread_17. Last it adds a line to LOG: kind, number, pid, the parent's pid, CPU
seconds of its work, of the thread's, and of the whole process so far; when that was (CLOCK_MONOTONIC
ns, from then on it has one thread), and what it had used in the end, or 0 when nobody can tell. With
--wait a line on stdin begins.
"""
import multiprocessing
import os
import subprocess
import sys
import threading
import time

AT_ONCE = 3

WORK = """
def {name}(seconds, clock):
    end = clock() + seconds
    while clock() < end:
        for _ in range(200):
            pass
"""


def function(name):
    space = {}
    exec(compile(WORK.format(name=name), "<made>", "exec"), space)
    return space[name]


def work(kind, number, log, seconds, parent, made=None):
    own, thread = 0.0, 0.0
    begun = time.thread_time()
    (made or function("child_%d" % number))(seconds, time.thread_time)
    own = time.thread_time() - begun
    if number % 4 == 0:
        spent = []

        def run(worker):
            begun = time.thread_time()
            worker(seconds, time.thread_time)
            spent.append(time.thread_time() - begun)
        helper = threading.Thread(target=run, args=(function("thread_%d" % number),), name="helper")
        helper.start()
        helper.join()
        thread = spent[0]
    if kind == "mp-forkserver":
        parent = os.getppid()
    now = time.monotonic_ns()  # before the CPU time: what comes after it is not in that
    tell(log, kind, number, os.getpid(), parent, own, thread, time.process_time(), now, 0)


def tell(log, *words):
    fd = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.write(fd, (" ".join(map(str, words)) + "\n").encode())
    os.close(fd)


def executed_source(kind, number, log, seconds, parent):
    """A program of its own that does what work() does."""
    with open(os.path.abspath(__file__)) as file:
        text = file.read()
    return ("import os, threading, time\n" + text[text.index("\nWORK ="):text.index("\ndef executed_source")] +
            "\nwork(%r, %r, %r, %r, %r)\n" % (kind, number, log, seconds, parent))


class Forked:
    """A child by os.fork(); `run` in the child."""

    def __init__(self, run):
        self.pid = os.fork()
        if not self.pid:
            status = 1
            try:
                run()
                status = 0
            finally:
                os._exit(status)

    def wait(self):
        os.waitpid(self.pid, 0)


class Executed:
    def __init__(self, argv):
        self.process = subprocess.Popen(argv)

    def wait(self):
        self.process.wait()


class Foreign:
    """A program that is no Python. It prints its CPU time (`times` of bash), its parent writes the log."""

    LOOP = "for ((i = 0; i < %d; i++)); do :; done; times"

    def __init__(self, kind, number, log, seconds):
        self.process = subprocess.Popen(["/bin/bash", "-c", self.LOOP % (seconds * 3e5)], stdout=subprocess.PIPE,
                                        env=dict(os.environ, LC_ALL="C"))
        self.about = log, kind, number, self.process.pid, os.getpid()

    def wait(self):
        own = self.process.stdout.readline().decode()  # 0m0.021s 0m0.003s
        self.process.stdout.close()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = status
        spent = sum(int(m) * 60 + float(s) for m, s in (word.rstrip("s").split("m") for word in own.split()))
        tell(*self.about, spent, 0.0, spent, 0, usage.ru_utime + usage.ru_stime)


class Multi:
    def __init__(self, method, args):
        self.process = multiprocessing.get_context(method).Process(target=work, args=args)
        self.process.start()

    def wait(self):
        self.process.join()


def begin(kind, number, log, seconds, other):
    me = os.getpid()
    args = (kind, number, log, seconds, me)
    if kind == "fork":
        made = function("child_%d" % number) if number % 2 else None  # the parent's code object, or its own
        return Forked(lambda: work(*args, made))
    if kind == "double":
        # The one in between is gone at once: the parent that is told is its pid.
        def between():
            parent = os.getpid()
            if not os.fork():
                work(kind, number, log, seconds, parent)
                os._exit(0)
        return Forked(between)
    if kind == "exec":
        return Executed([sys.executable, "-c", executed_source(*args)])
    if kind == "version":
        return Executed([other, "-c", executed_source(*args)])
    if kind == "again":
        # It works, then becomes another program of the same name and number.
        def twice():
            function("before_%d" % number)(seconds, time.thread_time)
            os.execv(sys.executable, [sys.executable, "-c", executed_source(*args)])
        return Forked(twice)
    if kind == "foreign":
        return Foreign(kind, number, log, seconds)
    return Multi(kind[3:], args)  # mp-fork, mp-spawn, mp-forkserver


def main():
    log, seconds = sys.argv[1], int(sys.argv[2]) / 1000
    other = sys.argv[sys.argv.index("--other") + 1] if "--other" in sys.argv else sys.executable
    kinds = [word.split("=") for word in sys.argv[3:] if "=" in word]
    todo = []
    for kind, count in kinds:
        todo += [kind] * int(count)
    print("ready", flush=True)
    if "--wait" in sys.argv:
        sys.stdin.readline()
    running = []
    for number, kind in enumerate(todo):
        running.append(begin(kind, number, log, seconds, other))
        if len(running) == AT_ONCE:
            running.pop(0).wait()
    for child in running:
        child.wait()
    deadline = time.monotonic() + 20  # for those that nobody waits for
    while time.monotonic() < deadline:
        with open(log) as file:
            if len(file.readlines()) >= len(todo):
                break
        time.sleep(0.02)


if __name__ == "__main__":
    main()
