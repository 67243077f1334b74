#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""PID and time namespaces, as containers have them: ids inside are not those outside.

    namespaces.py [--all] [--only inside|below|first|socket|clocks|told]

  inside   cprofd and its targets in a namespace: other live tests run there as they are
  below    cprofd outside, the targets inside: the same tests, but that each program of theirs runs in a namespace of its own
  first    cprofd enters a namespace and attaches to its first process; a Python that `record -s` follows into one
  socket   the daemon and its client in different ones
  clocks   the same in time namespaces, whose clocks are shifted
  told     what `cprofd check` says

What is right the targets say themselves (truth.py, waits.py, children.py, dump.py). Needs root."""
import argparse
import collections
import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from lib import CPROFD, LIVE
from lib.recording import Tables
from lib.wait import asleep, mount_namespaces, until
import truth
import waits
from lib.result import check, finish, skip

PYTHON = "/usr/bin/python3"
CLONE_NEWPID = 0x20000000
# With a shell as its first process, which takes what has no parent.
ENTER = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", '"$@"; exit $?', "sh"]
libc = ctypes.CDLL(None, use_errno=True)


def run(*command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, **options)


# --- inside ---

INSIDE = [
    ["truth.py", "--samples", "2000", "--only", "chains"],
    ["waits.py", "--only", "lock,gil2,hold,child"],
    ["children.py", "--count", "4"],
    ["dump.py"],
]


def pythons(every):
    """(name, path), one a version; the system's and an old one, unless all are asked for."""
    listed = run(os.path.join(LIVE, "pythons.sh")).stdout.splitlines()
    found = {name.rpartition(".")[0]: (name, path) for name, path in (line.split(None, 1) for line in reversed(listed))}
    return {version: of for version, of in found.items() if every or version == "3.8" or of[1].startswith(PYTHON)}


def inside(every=False):
    of = pythons(every)
    env = dict(os.environ, CPROFD_PYTHONS=" ".join(path for _, path in of.values()))
    for test in INSIDE:
        if test == ["dump.py"]: # all of them take minutes
            test = test + [name for name, path in of.values() if path.startswith(PYTHON)]
        done = run(*ENTER, os.path.join(LIVE, test[0]), *test[1:], env=env)
        lines = done.stdout.splitlines() or [""]
        check(not done.returncode and re.search(r"^[1-9]\d* passed, 0 failed", lines[-1]), "inside: %s: %s" % (" ".join(test), lines[-1]),
              done.returncode, *(line for line in lines if "FAILED" in line), done.stderr[-500:])


# --- below ---

class Below(subprocess.Popen):
    """A child that is the first process of a namespace: `pid` is what it is called here."""

    def __init__(self, args, **options):
        failure = []

        def start():
            try:
                if libc.unshare(CLONE_NEWPID): # of what this thread forks from now on
                    raise OSError(ctypes.get_errno(), "unshare")
                super(Below, self).__init__(["unshare", "--mount-proc", *args], **options)
            except OSError as error:
                failure.append(error)

        thread = threading.Thread(target=start)
        thread.start()
        thread.join()
        if failure:
            raise failure[0]


def ids_of(pid):
    """What the threads of a process, and of all below it, are called inside: their ids here."""
    found = {}
    for tid in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/status" % (pid, tid)) as f:
            inner = re.search(r"^NSpid:\t.*\t(\d+)$", f.read(), re.M)
        found[int(inner[1])] = int(tid)
        with open("/proc/%d/task/%s/children" % (pid, tid)) as f:
            for child in f.read().split():
                found.update(ids_of(int(child)))
    return found


def record_waits(python, seconds, rate, only):
    """As waits.record(), which cannot know that pids are two."""
    with tempfile.TemporaryDirectory() as folder, Below([python, "-S", waits.TARGET, folder, only + ","], stdin=subprocess.PIPE,
                                                        stdout=subprocess.PIPE) as target:
        try:
            pids = json.loads(target.stdout.readline())
            time.sleep(0.3)
            ids = ids_of(target.pid)
            out = os.path.join(folder, "x.events")
            with open(out, "w") as stream:
                done = subprocess.run([CPROFD, "attach", str(target.pid), "-s", "--mode=wall", "-d", str(seconds), "-r", str(rate), "--stream"],
                                      stdout=stream, stderr=subprocess.PIPE, timeout=seconds + 60)
            if done.returncode:
                raise RuntimeError(done.stderr.decode())
            ids.update(ids_of(target.pid))
            target.stdin.close()
            target.wait(30)
            known = {}
            for name in pids:
                with open(os.path.join(folder, name + ".json")) as f:
                    known.update(json.load(f)["threads"])
        finally:
            target.kill()
        with open(out) as lines:
            recording = waits.Recording(json.loads(line) for line in lines)
        return {ids[int(tid)]: log for tid, log in known.items()}, {ids[pid] for pid in pids.values()}, None, recording, done.stderr.decode()


def wait_below(python):
    """Who held the GIL, and who released a lock: found from outside by other ids than Python's own."""
    waits.record, waits.results = record_waits, {}
    waits.judge(python, 3, 999, "lock,gil2,hold,child", False)
    for role in 2 * ["lock", "gil2", "hold", "child"]: # as waits.py does: by itself, on a busy machine
        again = [name for name, wrong in waits.results.items() if wrong and ": %s: " % role in name]
        for name in again:
            print("again:", name, *waits.results.pop(name))
        if again:
            waits.judge(python, 3, 999, role, False)
    for name, wrong in waits.results.items():
        check(not wrong, "below: " + name, *wrong)


def chains_below(name, python):
    truth.subprocess = type("subprocess", (), dict(vars(subprocess), Popen=staticmethod(
        lambda args, **options: (Below if "targets" in args[-1] else subprocess.Popen)(args, **options))))
    check(truth.run(name, python, "chains", 2000, 9999, False), "below: stacks of " + name)


SLEEPS = """
import json, threading, time
def leaf(lock): lock.acquire()
def outer(lock): leaf(lock)
locks = [threading.Lock() for _ in range(3)]
for i, lock in enumerate(locks):
    lock.acquire()
    threading.Thread(target=outer, args=(lock,), daemon=True, name="t%d" % i).start()
print("ready", flush=True)
time.sleep(1000)
"""


def dump_below():
    with Below([PYTHON, "-c", SLEEPS], stdout=subprocess.PIPE) as target:
        target.stdout.readline()
        asleep(target.pid)
        done = run(CPROFD, "dump", str(target.pid), "--json", "--native=off")
        told = json.loads(done.stdout or '{"threads": []}')["threads"]
        tids = set(map(int, os.listdir("/proc/%d/task" % target.pid)))
        target.kill()
    names = collections.Counter(tuple(f["function"] for f in t["frames"])[:2] for t in told)
    check({t["tid"] for t in told} == tids and len(tids) == 4 and names["leaf", "outer"] == 3, "below: dump", done.stderr, told, tids)


def below(every=False):
    for name, python in pythons(every).values():
        chains_below(name, python)
    for _, python in pythons(False).values(): # before 3.11 the GIL's holder is told by another id anyway
        wait_below(python)
    dump_below()


# --- its first process, and one that begins meanwhile ---

FORKS = """
import os, sys, time
def spin(name, seconds):
    space = {}
    exec("def %s(clock, seconds):\\n    end = clock() + seconds\\n    while clock() < end:\\n        pass" % name, space)
    space[name](time.thread_time, seconds)
if "wait" in sys.argv: print("ready", flush=True); sys.stdin.readline()
for i in range(4):
    if os.fork() == 0:
        spin("child_%d" % i, 0.15)
        os._exit(0)
    os.wait()
spin("parent", 0.3)
if "wait" in sys.argv: print("done", flush=True); sys.stdin.read() # with it all in its namespace ends, cprofd too
"""


class Children(Tables):
    """ns of each function, and whose process that was: pid, parent's pid."""

    def __init__(self):
        self.spent, self.cut = {}, collections.Counter()
        super().__init__()

    def batch(self, event):
        zeros = [0] * len(event["t"])
        for thread, stack, cpu in zip(event.get("thread", zeros), event.get("stack", zeros), event.get("cpu", zeros)):
            process = self.processes[self.threads[thread]["process"]]
            for name, _ in self.words(stack):
                self.spent.setdefault(name, collections.Counter())[process["pid"], process.get("parent", 0)] += cpu
                if name.startswith("(cut"):
                    self.cut[process["pid"]] += cpu


def judge_children(title, lines, pid):
    """`pid`: of the parent, if that is known; each of its functions is in one process, for as long as it worked."""
    stream = Children()
    for line in lines:
        if line.startswith("{"):
            stream.feed(line)
    found = {name: stream.spent.get(name, {}) for name in ("parent", "child_0", "child_1", "child_2", "child_3")}
    pid = pid or next((p for p, _ in found["parent"]), None)
    good = all(len(of) == 1 for of in found.values())
    for name, of in found.items():
        for (own, parent), cpu in of.items():
            # Less what came before it was known who it is, and two ticks of the scheduler's.
            good = good and abs(cpu / 1e9 - (0.3 if name == "parent" else 0.15)) < 0.03 + stream.cut[own] / 1e9 and (own if name == "parent" else parent) == pid
    check(good and len({p for of in found.values() for p, _ in of}) == 5, title, found, pid)


def child_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        return int(f.read().split()[0])


def first():
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "forks.py")
        with open(script, "w") as f:
            f.write(FORKS)
        for inner in False, True:
            with Below([PYTHON, script, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as target:
                target.stdout.readline()
                # nsenter: as `docker exec` does.
                command = ["nsenter", "--pid", "--mount", "--target", str(target.pid), CPROFD] if inner else [CPROFD]
                pid = 1 if inner else target.pid
                with open(os.path.join(folder, "out"), "w+") as out:
                    recorder = subprocess.Popen([*command, "attach", str(pid), "-s", "--native=off", "--stream"], stdout=out, stderr=subprocess.PIPE, text=True)
                    # All threads have their events when it tells of them.
                    until(lambda: recorder.poll() is not None or '"ev":"thread"' in open(out.name).read(100000))
                    time.sleep(0.2)
                    target.stdin.write(b"go\n")
                    target.stdin.flush()
                    target.stdout.readline()
                    time.sleep(0.3)
                    os.kill(child_of(recorder.pid) if inner else recorder.pid, signal.SIGINT)
                    try:
                        words = recorder.communicate(timeout=30)[1]
                    except subprocess.TimeoutExpired:
                        recorder.kill()
                        words = "it did not end"
                    target.stdin.close()
                    out.seek(0)
                    lines = out.readlines()
            title = "first: children of a namespace's first process, from " + ("inside" if inner else "outside")
            if check(not recorder.returncode, title + ": it works", words):
                judge_children(title, lines, pid)
        done = run(CPROFD, "record", "-s", "--native=off", "--stream", "--", *ENTER, PYTHON, script)
        if check(not done.returncode, "first: record follows into a namespace: it works", done.stderr):
            judge_children("first: record follows into a namespace", done.stdout.splitlines(), None)


# --- the socket ---

ASKS = """
import sys
sys.path.insert(0, sys.argv[1])
from lib.client import Client, Refused
client = Client(sys.argv[2])
for request in {"req": "attach", "pid": int(sys.argv[3])}, {"req": "dump", "pid": int(sys.argv[3])}, {"req": "status"}:
    try:
        client.request(**request)
        print("yes", end=" ")
    except Refused as refused:
        print(refused.code, end=" ")
"""


@contextlib.contextmanager
def daemon(folder, *enter):
    path = os.path.join(folder, "socket")
    with subprocess.Popen([*enter, CPROFD, "serve", "--allow=own", "--socket", path], stderr=subprocess.DEVNULL) as server:
        try:
            until(lambda: os.path.exists(path))
            yield path
        finally:
            (server.kill if enter else server.terminate)() # unshare blocks SIGTERM
            os.path.exists(path) and os.unlink(path)


def socket():
    with tempfile.TemporaryDirectory() as folder:
        with daemon(folder) as path, Below([PYTHON, "-c", SLEEPS], stdout=subprocess.PIPE) as target:
            target.stdout.readline()
            asks = [PYTHON, "-c", ASKS, LIVE, path]
            check(run(*asks, str(target.pid)).stdout == "yes yes yes ", "socket: of a process below, by its id here")
            # 1: the target's pid inside; and here init's, which root may trace.
            done = run("nsenter", "--pid", "--mount", "--target", str(target.pid), *asks, "1")
            check(done.stdout == "OTHER_NAMESPACE OTHER_NAMESPACE yes ", "socket: a client in a container names no process", done)
            done = run("nsenter", "--pid", "--mount", "--target", str(target.pid), CPROFD, "dump", "1", "--socket", path)
            check(done.returncode == 1 and "another PID namespace" in done.stderr and "ask from where the daemon runs" in done.stderr,
                  "socket: it is told why", done)
            target.kill()
    with tempfile.TemporaryDirectory() as folder, daemon(folder, *ENTER) as path:
        done = run(PYTHON, "-c", ASKS, LIVE, path, str(os.getpid()))
        check(done.stdout == "OTHER_NAMESPACE OTHER_NAMESPACE yes ", "socket: the daemon in a container, the client outside", done)


# --- time namespaces ---

BUSY = """
import time
def alpha():
    end = time.process_time() + 0.02
    while time.process_time() < end:
        sum(range(1000))
end = time.time() + 60
while time.time() < end:
    alpha()
    time.sleep(0.005)
"""
OTHER_CLOCKS = ["unshare", "--time", "--boottime", "1000000", "--monotonic", "500000", "--fork", "--kill-child"]


def clocks():
    """Times of the kernel's programs are not those that a process reads in a time namespace."""
    if not os.path.exists("/proc/self/ns/time"):
        skip("namespaces: this kernel has no time namespaces")
        return
    row = re.compile(r"^ *([\d.]+) % +([\d.]+) %  (?:alpha|sum)\b", re.M)
    for title, enter, mode in [("inside, both", OTHER_CLOCKS, "cpu"), ("inside, both", OTHER_CLOCKS, "wall"), ("the target", [], "cpu")]:
        with tempfile.TemporaryDirectory() as folder, subprocess.Popen([*OTHER_CLOCKS, PYTHON, "-c", BUSY]) as outer:
            children = "/proc/%d/task/%d/children" % (outer.pid, outer.pid)
            until(lambda: open(children).read())
            pid = open(children).read().split()[0]
            until(lambda: b"python" in open("/proc/%s/cmdline" % pid, "rb").read())
            done = run(*enter, CPROFD, "attach", pid, "-d", "1", "--mode", mode, "-o", os.path.join(folder, "x.cprof"))
            found = [float(inclusive) for _, inclusive in row.findall(done.stderr)]
            had = 100 - sum(map(float, re.findall(r"^ *([\d.]+) % +[\d.]+ %  \(ready\)", done.stderr, re.M)))  # a busy machine
            check(max(found, default=0) > (0.5 if mode == "cpu" else 0.2) * had, "clocks: %s, %s: the function that runs" % (title, mode), done)
            done = run(*enter, CPROFD, "dump", pid)
            check("alpha (<string>:" in done.stdout or "<module> (<string>:" in done.stdout, "clocks: %s: dump" % title, done)
            outer.kill()


# --- check ---

def told():
    row = re.compile(r"^(\S+) +PID namespace +(.*)", re.M)
    own = os.readlink("/proc/self/ns/pid")
    done = run(CPROFD, "check")
    found = row.search(done.stdout)
    check(bool(found) == (own != "pid:[4026531836]"), "told: nothing in the first one", done.stdout)
    done = run(*ENTER, "sh", "-c", 'readlink /proc/self/ns/pid; "$0" check', CPROFD)
    found = row.search(done.stdout)
    check(found and found[1] == "ok" and found[2].startswith(done.stdout.split()[0]), "told: the one that it is in", done.stdout)
    enter = [word for word in ENTER if word != "--mount-proc"]
    done = run(*enter, CPROFD, "check")
    found = row.search(done.stdout)
    check(done.returncode == 1 and found and found[1] == "missing", "told: a /proc of another one", done.stdout)
    done = run(*enter, CPROFD, "record", "--", PYTHON, "-c", "pass")
    check(done.returncode == 1 and "is of another PID namespace" in done.stderr, "told: why nothing can be recorded there", done)


def main():
    parser = argparse.ArgumentParser()
    parts = {f.__name__: f for f in (inside, below, first, socket, clocks, told)}
    parser.add_argument("--only", choices=parts)
    parser.add_argument("--all", action="store_true", help="with every interpreter")
    options = parser.parse_args()
    if os.geteuid():
        skip("namespaces needs root")
    elif not mount_namespaces():
        skip("namespaces: no mount namespace can be made here (is / a mount point?)")
    else:
        for part in [parts[options.only]] if options.only else parts.values():
            part(*[True] * (options.all and part in (inside, below)))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
