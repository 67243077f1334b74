#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# run-live: beside
"""`cprofd dump` against the stacks that targets print themselves, and error cases.

    dump.py [NAME...]     only these interpreters (3.11.7). Needs root."""
import collections
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time

from lib import CPROFD, LIVE, ROOT
from lib.wait import asleep, kernel_thread, until
from lib.result import check, counts, finish

NOBODY = 65534

RUNNING = """
import threading, time
def leaf(k):
    while True:
        k += 1
def inner(k):
    leaf(k)
def outer(k):
    list(map(inner, [k]))
for i in range(3):
    threading.Thread(target=outer, args=(i,), daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
"""
MANY = """
import threading, time
lock = threading.Lock()
lock.acquire()
def blocked():
    lock.acquire()
for i in range(300):
    threading.Thread(target=blocked, daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
"""
EXECS = "import os, sys\nprint('ready', flush=True)\nos.execv(sys.executable, [sys.executable, '-c', sys.argv[1], sys.argv[1]])"


def dump(pid, *options, prefix=()):
    env = {k: v for k, v in os.environ.items() if k != "CPROFD_SOCKET"}
    return subprocess.run([*prefix, CPROFD, "dump", str(pid), *options], capture_output=True, text=True, timeout=60, env=env)


def dumped(pid, *options):
    run = dump(pid, "--json", *options)
    if run.returncode:
        raise RuntimeError(run.stderr)
    return json.loads(run.stdout)


@contextlib.contextmanager
def running(*command, **options):
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def python_frames(thread):
    """As the target tells them: names are not qualified there."""
    return [[f["function"].rsplit(".", 1)[-1], f["file"], f["line"]] for f in thread["frames"] if f["kind"] == "python"]


def sleepers(name, python):
    with running(python, os.path.join(ROOT, "tests/targets/sleepers.py")) as target:
        threads = json.loads(target.stdout.readline())
        asleep(target.pid)
        for native in "off", "full":
            told = dumped(target.pid, "--native=" + native)
            check(told["python"] == name, f"{name}: its version", told["python"])
            left = [python_frames(t) for t in told["threads"]]
            for thread, _, wanted in threads:
                good = wanted in left
                if good:
                    left.remove(wanted)
                check(good, f"{name} {native}: {thread}", wanted, *(s for s in left if s and s[-1] == wanted[-1]))
            check(all(t["seen"] == "still" for t in told["threads"]), f"{name} {native}: threads that sleep are still")
            # throw() into a generator that delegates links frames without an eval loop, up to 3.11 (docs/weaving.md).
            cut = [f for t in told["threads"] for f in t["frames"] if f["kind"] == "cut"
                   and not (f["loss"] == "weave_count" and any("catches" in f.get("function", "") for f in t["frames"]))]
            check(not cut, f"{name} {native}: nothing is cut", *cut)
            if native == "full":
                check(all(any("start" in f["function"] or "clone" in f["function"] or "libc" in f.get("module", "")
                              for f in t["frames"][-1:]) for t in told["threads"]), f"{name}: stacks come to their threads' entry")
            else:
                check(all(f["kind"] == "python" for t in told["threads"] for f in t["frames"]), f"{name}: no native frame")


def threads_that_run(python):
    # On one CPU, and we on another: else they are met mostly while they wait for ours.
    cpus = sorted(os.sched_getaffinity(0))
    with running(python, "-c", RUNNING, preexec_fn=lambda: os.sched_setaffinity(0, cpus[:1])) as target:
        os.sched_setaffinity(0, cpus[-1:])
        target.stdout.readline()
        seen = collections.Counter()
        for turn in range(150):
            if turn >= 25 and seen["tick"]:
                break
            for thread in dumped(target.pid)["threads"]:
                if thread["tid"] == target.pid:
                    continue
                seen[thread["seen"]] += 1
                names = [f[0] for f in python_frames(thread)]
                check(thread["seen"] == "moving" or names[:3] == ["leaf", "inner", "outer"], "a thread that runs",
                      thread["seen"], names)
                kinds = [f["function"] for f in thread["frames"]]
                # map's own functions have no names in a stripped interpreter.
                check(thread["seen"] == "moving" or kinds.index("outer") > kinds.index("inner") + 1, "C lies between", kinds)
        os.sched_setaffinity(0, cpus)
        print("threads that run:", dict(seen))
        check(seen["tick"] and seen["still"], "some were met in their tick", dict(seen))
        check(not seen["moving"], "none would not hold still", dict(seen))


def many_threads(python):
    with running(python, "-c", MANY) as target:
        target.stdout.readline()
        asleep(target.pid)
        begin = time.monotonic()
        told = dumped(target.pid)
        took = time.monotonic() - begin
        print("301 threads in %.2f s" % took)
        check(len(told["threads"]) == 301, "all threads are told of", len(told["threads"]))
        check(sum([f[0] for f in python_frames(t)][:1] == ["blocked"] for t in told["threads"]) == 300, "each where it is")
        check(took < 45, "in time", took)


def what_goes_wrong(python):
    with running("sleep", "1000") as target:
        asleep(target.pid)
        told = dumped(target.pid)
        frames = told["threads"][0]["frames"]
        check(told["python"] == "" and len(told["threads"]) == 1 and frames[0]["function"].endswith("nanosleep")
              and all(f["kind"] == "native" for f in frames), "a program that is no Python", told)
        text = dump(target.pid).stdout
        check("native frames only" in text and "nanosleep (libc.so.6)" in text, "as people read it", text)
        check(dump(target.pid, "--locals").returncode == 2, "--locals is refused")
        check(dump(target.pid, "--native=some").returncode == 2, "--native=some is refused")
        leaf = dumped(target.pid, "--native=leaf")["threads"][0]["frames"]
        check(len(leaf) == 1 and leaf[0] == frames[0], "the innermost frame alone", leaf)
    run = dump(target.pid)
    check(run.returncode == 1 and "no such process" in run.stderr and not run.stdout, "a process that ended", run)
    check(dump("--", "-5").returncode == 2, "what is neither a number nor a name")
    thread = kernel_thread()
    if thread:  # in a container none is seen
        check("kernel thread" in dump(thread).stderr, "a kernel thread", dump(thread))
    with running(python, "-c", EXECS, EXECS) as target:
        answers = collections.Counter()
        for _ in range(12):
            run = dump(target.pid, "--json")
            answers[run.stderr.split(":")[2] if run.returncode else "told"] += 1
            check(run.returncode == 0 and json.loads(run.stdout)["threads"] or "no such process" in run.stderr or
                  "runs another program" in run.stderr, "a process that calls exec again and again", run.stderr)
        print("of a process that calls exec again and again:", dict(answers))


def other_users(python):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "socket")
        with running(CPROFD, "serve", "--allow=own", "--socket", path):
            until(lambda: os.path.exists(path))
            user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
            with running(*user, python, "-c", RUNNING) as mine, running(python, "-c", RUNNING) as roots:
                mine.stdout.readline(), roots.stdout.readline()
                time.sleep(0.3)
                run = dump(mine.pid, "--json", "--socket", path, prefix=user)
                check(run.returncode == 0 and len(json.loads(run.stdout)["threads"]) == 4, "a user's own process", run.stderr)
                run = dump(roots.pid, "--socket", path, prefix=user)
                check(run.returncode == 1 and f"process {roots.pid} belongs to root" in run.stderr, "root's process", run)
                run = dump(roots.pid, "--socket", path)
                check(run.returncode == 0 and "leaf (<string>:5)" in run.stdout or "leaf (<string>:4)" in run.stdout,
                      "the same, by root", run)


def main():
    for line in subprocess.run([os.path.join(LIVE, "pythons.sh")], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines():
        name, python = line.split(None, 1)
        if len(sys.argv) > 1 and name not in sys.argv[1:]:
            continue
        try:
            sleepers(name, python)
        except Exception as error:  # one failure, and on
            check(False, name, type(error).__name__, error)
    for test in threads_that_run, many_threads, what_goes_wrong, other_users:
        try:
            test("/usr/bin/python3")
        except Exception as error:
            check(False, test.__name__, type(error).__name__, error)
    run = subprocess.run([os.path.join(ROOT, "build/tests/tools/dump_pin")], capture_output=True, text=True)
    check(run.returncode == 0, "another image is never told of", run.stdout)
    return finish() or int(not counts["passed"])


sys.exit(main())
