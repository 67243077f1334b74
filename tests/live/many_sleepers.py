#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# run-live: beside
"""Thousands of sleeping threads: a session in wall mode reports each of them and its stack, and the engine stays responsive. Needs root.

    many_sleepers.py [--threads N]"""
import argparse
import collections
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from lib.wait import asleep, until
from lib import CPROFD
from lib.result import check, finish, skip

TARGET = """
import sys, threading, time
threading.stack_size(1 << 17)
never = threading.Event()
def waits(depth):
    return waits(depth - 1) if depth else never.wait()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=waits, args=(5,), daemon=True).start()
print("ready", flush=True)
never.wait()
"""


def status(socket):
    """How long it took to be answered."""
    begin = time.monotonic()
    run = subprocess.run([CPROFD, "status", "--socket", socket], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return time.monotonic() - begin if not run.returncode else 60


def recording(socket, target, folder):
    """A whole session: who is in it, and how long the engine was deaf meanwhile."""
    path = os.path.join(folder, "recording.cprof")
    begin, answers = time.monotonic(), []
    client = subprocess.Popen([CPROFD, "attach", str(target.pid), "--socket", socket, "-d", "4", "--mode=wall", "-q", "-f", "events", "-o", path],
                              stderr=subprocess.PIPE)
    while client.poll() is None and time.monotonic() < begin + 100:
        answers.append(status(socket))
    took = time.monotonic() - begin
    client.kill()
    _, err = client.communicate()
    check(client.returncode == 0, "a recording of 4 s is over after %.1f s" % took, err)
    # On an idle machine 5 s and 0.2 s: a thread costs some 0.1 ms, and what goes by their square 60 s and more.
    check(took < 20, "and took no more than 20 s", took)
    check(max(answers) < 5, "status was answered within %.2f s" % max(answers))
    return path


def tell(path, target, tids):
    out = subprocess.run([CPROFD, "convert", path, "-f", "collapsed", "-t", "-o", "-"], stdout=subprocess.PIPE, check=True, text=True).stdout
    stacks = collections.defaultdict(list)
    for line in out.splitlines():
        name, _, rest = line.partition(";")
        stacks[int(re.search(r"\((\d+)\)$", name)[1])].append(rest)
    check(set(stacks) == tids, "each thread is told", len(stacks), len(tids), list(set(stacks) ^ tids)[:5])
    there = [tid for tid in tids - {target.pid} if all(s.count(";waits (") == 6 and "(waiting: lock)" in s for s in stacks[tid])]
    check(len(there) == len(tids) - 1, "each is where it is, six calls deep in a lock", len(there), len(tids) - 1,
          [stacks[tid] for tid in list(tids - {target.pid} - set(there))[:2]])


def ended(daemon, socket, target):
    """The daemon is told to end as a session begins."""
    client = subprocess.Popen([CPROFD, "attach", str(target.pid), "--socket", socket, "--mode=wall", "--stream", "-q"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    client.stdout.readline()
    begin = time.monotonic()
    daemon.send_signal(signal.SIGTERM)
    client.stdout.read() # or it is the client that is waited for
    client.wait()
    daemon.wait(60)
    took = time.monotonic() - begin
    check(took < 10, "SIGTERM ends daemon and session in %.1f s" % took)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=5000)
    options = parser.parse_args()
    if os.geteuid():
        skip("needs root")
        return finish()
    folder = tempfile.mkdtemp()
    socket = os.path.join(folder, "socket")
    target = subprocess.Popen(["/usr/bin/python3", "-c", TARGET, str(options.threads)], stdout=subprocess.PIPE)
    daemon = subprocess.Popen([CPROFD, "serve", "--socket", socket], stderr=subprocess.DEVNULL)
    try:
        target.stdout.readline()
        asleep(target.pid)
        tids = {int(tid) for tid in os.listdir("/proc/%d/task" % target.pid)}
        until(lambda: os.path.exists(socket) and status(socket) < 60)
        path = recording(socket, target, folder)
        tell(path, target, tids)
        ended(daemon, socket, target)
    finally:
        target.kill()
        daemon.kill()
        target.wait()
        daemon.wait()
        shutil.rmtree(folder)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
