#!/usr/bin/env python3
"""A user's session shows nothing of what its target becomes by exec, when that is not the user's: programs that are setuid, setgid,
have file capabilities, or may be run and not read, nor of what makes itself undumpable (prctl), enters a user namespace, or was root's and became the user. At attach and in the middle, CPU and wall mode, one thread and many. Needs root.

What is true is known from outside: the target writes down when it runs exec and when the other program has begun. After that there is
no sample and no wait, and no module of it; a secret that lies on its stack is nowhere in the engine's memory, rings included.

    exec_races.py [--tries N] [--threads N] [--seed N]"""
import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from patience import until
from samples import CPROFD, ROOT

NOBODY = 65534
SECRET = (0x5ec7e75ec7e70000 ^ 0x1111111111110000).to_bytes(8, "little") * 4
KINDS = {"setuid": (0o4755, 1, 0), "setgid": (0o2755, 0, 1), "capability": (0o755, 0, 0), "unreadable": (0o111, 0, 0)}
# The program stays, and who it is does not: root that becomes the user, for good or not; a user namespace, which a process
# of one thread may enter.
OTHERS = {"undumpable": None, "namespace": 1, "dropped": None, "effective": None}
# A Python program that becomes another one.
LAUNCHER = """
import ctypes, os, sys, threading, time
PRCTL = ctypes.CDLL(None).prctl
threads, delay, log = (int(word) for word in sys.argv[1:4])
kind = sys.argv[4]
def becomes():
    if kind == "undumpable":
        PRCTL(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
    elif kind == "namespace":
        if ctypes.CDLL(None).unshare(0x10000000):  # CLONE_NEWUSER: all capabilities, there
            os._exit(3)
    elif kind == "dropped":  # what it did as root is in its memory
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    elif kind == "effective":
        os.setegid(65534)
        os.seteuid(65534)
    else:
        os.execv(kind, [kind, str(log)])
def burn():
    while True:
        sum(range(2000))
        time.sleep(max(0.02, threads / 10000))  # however many there are, a core goes round
threading.stack_size(65536)
for i in range(threads - 1):
    threading.Thread(target=burn, daemon=True).start()
os.write(log, b"\\n")
end = time.monotonic() + delay / 1e6
while time.monotonic() < end:
    sum(range(1000))
os.write(log, b"%d\\n" % time.monotonic_ns())
becomes()
# Who began as root shows nothing of before, either.
os.write(log, b"%d\\n" % (1 if kind in ("dropped", "effective") else time.monotonic_ns()))
end = time.monotonic() + 0.5
while time.monotonic() < end:
    sum(range(1000))
os._exit(0)
"""
passed = failed = skipped = 0


def check(good, name, *details):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok" if good else "FAILED", name, *details, flush=True)


def become():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def build(folder):
    source = os.path.join(ROOT, "tests/targets/exec_races.c")
    program = os.path.join(folder, "exec_races")
    subprocess.run(["gcc", "-O1", "-g", "-o", program, source], check=True)
    for kind, (mode, uid, gid) in KINDS.items():
        copy = os.path.join(folder, "guarded_" + kind)
        shutil.copy(program, copy)
        os.chown(copy, uid, gid)
        os.chmod(copy, mode)
    subprocess.run(["/usr/sbin/setcap", "cap_sys_nice+ep", os.path.join(folder, "guarded_capability")], check=True)
    shutil.copy(program, os.path.join(folder, "guarded_own")) # the user's own: is sampled on
    return program


def memory_has(pid, pattern):
    """Somewhere in what the process has mapped, shared memory of BPF included."""
    try:
        with open("/proc/%d/maps" % pid) as maps, open("/proc/%d/mem" % pid, "rb", 0) as memory:
            for line in maps:
                words = line.split()
                first, last = (int(x, 16) for x in words[0].split("-"))
                if "r" not in words[1] or first >> 63 or (len(words) > 5 and words[5].startswith("[v")):
                    continue
                try:
                    memory.seek(first)
                    while first < last:
                        data = memory.read(min(last - first, 4 << 20))
                        if not data:
                            break
                        if pattern in data:
                            return True
                        first += len(data)
                except (OSError, ValueError):
                    continue
    except OSError:
        pass
    return False


def children(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def after(lines, since, until_when):
    """Samples of after the exec, and modules of the guarded program. One row of a thread is none: at its end, the time since then in one."""
    rows, named, losses = collections.Counter(), 0, {}
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("ev") == "samples":
            at, threads = 0, event.get("thread") or [0] * len(event["t"])
            for delta, thread in zip(event["t"], threads):
                at += delta
                rows[thread] += since < at < until_when
        elif event.get("ev") == "ledger":
            losses = event["losses"]
        named += event.get("ev") in ("functions", "modules") and "guarded" in line
    return sum(n - 1 for n in rows.values() if n), named, losses


def attempt(folder, socket, engine_of, kind, mode, threads, delay, children_too, totals):
    """One target, one attach to it `delay` us before it runs exec."""
    reader, writer = os.pipe()
    target = subprocess.Popen(["/usr/bin/python3", "-c", LAUNCHER, str(threads), str(delay), str(writer),
                               kind if kind in OTHERS else os.path.join(folder, "guarded_" + kind)],
                              preexec_fn=None if kind in ("dropped", "effective") else become, pass_fds=[writer], cwd="/")
    os.close(writer)
    log = os.fdopen(reader)
    log.readline() # its threads are there
    options = ["-s"] if children_too else []
    client = subprocess.Popen([os.path.join(folder, "cprofd"), "attach", str(target.pid), "--socket", socket, "-d", "2", "-r", "4999",
                               "--mode=" + mode, "--stream", *options], preexec_fn=become, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, cwd="/", env={"PATH": "/usr/bin:/bin"})
    log.readline()
    begun = int(log.readline() or 0)
    leaked = any(memory_has(pid, SECRET) for pid in engine_of()) if kind in KINDS else False
    # The owner of a user namespace may look into it: who was there when it was asked about is sampled.
    allowed = kind == "namespace" and not subprocess.run(["head", "-c1", "/proc/%d/auxv" % target.pid], preexec_fn=become, stdout=subprocess.DEVNULL,
                                                        stderr=subprocess.DEVNULL).returncode
    status = target.wait()
    ended = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    try:
        out, err = client.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        client.kill()
        out, err = client.communicate()
        totals["stuck"] += 1
    log.close()
    n, named, losses = after(out.decode(errors="replace").splitlines(), begun, ended)
    totals["tries"] += 1
    totals["refused"] += client.returncode != 0
    totals["why"] = err.decode()[:300] if client.returncode else totals["why"]
    totals["not begun"] += not begun or status < 0
    totals["allowed" if allowed else "samples"] += n
    totals["named"] += named
    totals["secrets"] += leaked
    totals["not_authorised"] += losses.get("not_authorised", 0)


def main():
    global skipped
    parser = argparse.ArgumentParser()
    parser.add_argument("--tries", type=int, default=48)
    parser.add_argument("--threads", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if os.geteuid():
        skipped += 1
        print("skip: needs root\n0 passed, 0 failed, 1 skipped")
        return 0
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        build(folder)
        for program in "cprofd", "cprofd-engine":
            shutil.copy(os.path.join(os.path.dirname(CPROFD), program), os.path.join(folder, program))
        socket = os.path.join(folder, "socket")
        daemon = subprocess.Popen([os.path.join(folder, "cprofd"), "serve", "--allow=own", "--socket", socket], stderr=subprocess.DEVNULL)
        try:
            until(lambda: os.path.exists(socket))
            os.chmod(socket, 0o666)

            def engines():
                return children(daemon.pid)

            own = collections.Counter()
            for mode in ("cpu", "wall"):
                attempt(folder, socket, engines, "own", mode, 2, 700000, False, own)
            check(own["samples"] > 50, "a program of the user's own is sampled on after exec", dict(own))
            for kind in [*KINDS, *OTHERS]:
                totals = collections.Counter()
                for i in range(max(1, arguments.tries // (len(KINDS) + len(OTHERS)))):
                    middle = i % 3 == 0 # else the exec falls into the attach
                    threads = OTHERS.get(kind) or (1, arguments.threads, 8)[chance.randrange(3)]
                    delay = 600000 if middle else chance.randrange(2000, 150000)
                    attempt(folder, socket, engines, kind, ("cpu", "wall")[i & 1], threads, delay, i % 5 == 4, totals)
                bad = totals["samples"] or totals["named"] or totals["secrets"] or totals["stuck"]
                check(not bad and totals["tries"], "%s: nothing of it" % kind, dict(totals))
            check(daemon.poll() is None, "the daemon goes on")
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(30)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
