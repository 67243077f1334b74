#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A session leaves nothing behind: no BPF programs or maps, descriptors, memory.

One daemon, one engine, 20 sessions that end in different ways; a watching connection keeps the
engine. What the broker and the engine hold is compared between the first sessions and the last, and
every BPF object that was ever held must be gone at the end. What the kernel and the two processes
put off a little gets some seconds of time for it, so that a busy machine is no leak.

    end_of_life.py [--sessions N]      needs root, bpftool
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from lib.client import Daemon, Refused

# Threads, children that end, children that go on.
TARGET = """
import os, subprocess, sys, threading, time
def spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
threading.Thread(target=lambda: [spin(0.02) or time.sleep(0.02) for _ in iter(int, 1)], daemon=True).start()
while True:
    pid = os.fork()
    if not pid:
        spin(0.02)
        os._exit(0)
    child = subprocess.Popen([sys.executable, "-c", "print(sum(range(100000)))"], stdout=subprocess.DEVNULL)
    subprocess.run(["true"])
    os.waitpid(pid, 0)
    child.wait()
"""


def held(pid):
    """Its descriptors by what they are, and the BPF objects among them."""
    kinds, objects = {}, set()
    try:
        fds = os.listdir(f"/proc/{pid}/fd")
    except FileNotFoundError:  # a helper of the daemon that has done its work
        fds = []
    for fd in fds:
        try:
            kind = re.sub(r"\d+", "N", os.readlink(f"/proc/{pid}/fd/{fd}"))
            with open(f"/proc/{pid}/fdinfo/{fd}") as file:
                for name, number in re.findall(r"^(prog|map|link)_id:\s*(\d+)", file.read(), re.M):
                    objects.add((name, int(number)))
        except OSError:
            continue
        kinds[kind] = kinds.get(kind, 0) + 1
    return kinds, objects


def memory(pid):
    """KiB of its own: pages of files are other processes' business too."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        return int(re.search(r"^Pss_Anon:\s*(\d+)", file.read(), re.M).group(1))


def patiently(problem, seconds=30):
    """What `problem` finds, when it still finds it after so long."""
    deadline = time.monotonic() + seconds
    while True:
        found = problem()
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def exists(name, number):
    return subprocess.run(["bpftool", name, "show", "id", str(number)], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0


def settle(control):
    deadline = time.monotonic() + 60
    while control.request("sessions")["sessions"]:
        assert time.monotonic() < deadline, "a session did not end"
        time.sleep(0.02)


def state(pids):
    return {name: (*held(pid), memory(pid)) for name, pid in pids.items()}


def grown(early, late):
    problems = []
    for name, (kinds, objects, kib) in late.items():
        if kinds != early[name][0]:
            problems.append("%s: descriptors %s, after four sessions %s" % (name, kinds, early[name][0]))
        if len(objects) > len(early[name][1]):
            problems.append("%s: %d BPF objects, after four sessions %d" % (name, len(objects), len(early[name][1])))
        if kib > early[name][2] + 1024:
            problems.append("%s: %d KiB, after four sessions %d" % (name, kib, early[name][2]))
    return problems


def session(daemon, control, i):
    """One session; returns what was held while it ran."""
    target = subprocess.Popen([sys.executable, "-c", TARGET])
    try:
        time.sleep(0.15)
        client = daemon.connect()
        number = client.request("attach", pid=target.pid, subprocesses=True, spool=i % 2 == 1)["session"]
        time.sleep(0.4)
        during = [held(pid)[1] for pid in [daemon.process.pid] + daemon.engines()]
        if i % 4 == 0:
            control.request("stop", session=number)
            client.until_end()
        elif i % 4 == 1:
            client.close()
        elif i % 4 == 2:
            target.kill()
            # Orphans of it may go on for some ms.
            client.until_end()
        else:
            other = daemon.connect()
            other.request("subscribe", session=number)
            try:
                other.request("attach", pid=2)
            except Refused:
                pass
            client.close()
            other.close()
    finally:
        target.kill()
        target.wait()
    settle(control)
    return set().union(*during)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=20)
    args = parser.parse_args()
    assert args.sessions > 4
    if os.geteuid() or not shutil.which("bpftool"):
        print("skipped: end_of_life needs root and bpftool\n0 passed, 0 failed, 1 skipped")
        return 0
    problems = []
    folder = tempfile.mkdtemp()
    daemon = Daemon(folder)
    try:
        control = daemon.connect()
        ever = set()
        for i in range(args.sessions):
            ever |= session(daemon, control, i)
            pids = {"broker": daemon.process.pid, "engine": daemon.engines()[0]}
            if os.environ.get("V"):
                print(i, {name: now[2] for name, now in state(pids).items()}, flush=True)
            if i == 3:
                time.sleep(2)  # a spare sampler is loaded; what they hold now is what they may hold
                early = state(pids)
        problems += patiently(lambda: grown(early, state(pids)))
        late = state(pids)
        for name, (kinds, objects, kib) in late.items():
            print("%-6s %3d descriptors, %2d BPF objects, %5d KiB; after four sessions %3d, %2d, %5d KiB" % (
                name, sum(kinds.values()), len(objects), kib, sum(early[name][0].values()),
                len(early[name][1]), early[name][2]))
        spare = set().union(*(now[1] for now in late.values()))
        if not ever - spare:
            problems.append("no session held a BPF object of its own: nothing was tested")
        left = patiently(lambda: [o for o in ever - spare if exists(*o)])
        if left:
            problems.append("still there after their sessions: %s" % left)
        control.close()
    finally:
        if not daemon.stop():
            problems.append("the daemon did not end")
        shutil.rmtree(folder)
    left = patiently(lambda: [o for o in ever if exists(*o)])
    if left:
        problems.append("still there after the daemon: %s" % left)
    print("%d BPF objects were held over time, %d are left" % (len(ever), len(left)))
    for problem in problems:
        print("FAIL " + problem)
    print("%d passed, %d failed, 0 skipped" % (not problems, bool(problems)))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
