#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A daemon that is built with AddressSanitizer and UndefinedBehaviorSanitizer, whose findings are fatal, against hostile targets
(tests/targets/hostile.py): interpreters whose memory is damaged or changes while it is read, lists of JIT objects, ELF files, perf maps and
dumps. No session may crash or stall the engine, and a session that started before them all continues with correct results. Needs root.

    hostile_targets.py [--sessions N] [--jobs N] [--only KIND[,..]] [--seed N] [--first N]

run-live: beside"""
import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from lib.wait import until
from lib import LIVE, ROOT

sys.path.insert(0, os.path.join(os.path.dirname(LIVE), "targets"))
import hostile # noqa: E402
from lib.result import check, counts, finish, skip

SAN = os.environ.get("CPROFD_SAN", os.path.join(ROOT, "build", "san")) # else it is built
# The sandbox lets no other program be run, which would turn addresses into names (addr2line does), nor LeakSanitizer stop the process.
OPTIONS = {"ASAN_OPTIONS": "detect_leaks=0:symbolize=0", "UBSAN_OPTIONS": "symbolize=0:print_stacktrace=1"}
FINDING = re.compile(r"AddressSanitizer|runtime error:|LeakSanitizer|UndefinedBehavior")
BUSY = "print('ready', flush=True)\nwhile True: sum(range(1000))"
RATE = 50  # of the session that was there before
# What is asked of each target, in turn.
SESSIONS = (("attach", "--native=full"), ("attach", "--mode=wall", "-i", "--native=full"), ("dump",), ("attach", "-s", "--native=full"),
            ("attach", "--gil", "--native=leaf"), ("dump", "--json"), ("attach", "--mode=wall", "-s"), ("attach", "-r", "5k", "--stream"))


def name_of(pid):
    try:
        with open("/proc/%d/comm" % pid) as file:
            return file.read().strip()
    except OSError:  # a helper that is over
        return ""


def sanitized():
    make = ["make", "-s", "-C", ROOT, "-j%d" % os.cpu_count(), "B=build/san", "CFLAGS=-O1 -g",
            "SAN=-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer", "build/san/cprofd"]
    subprocess.run(make, check=True, stdout=subprocess.DEVNULL)


class Daemon:
    def __init__(self, folder):
        self.folder = folder
        for name in "cprofd", "cprofd-engine":
            shutil.copy(os.path.join(SAN, name), folder)
        self.program = os.path.join(folder, "cprofd")
        self.socket = os.path.join(folder, "socket")
        self.log = open(os.path.join(folder, "log"), "w+")
        self.process = subprocess.Popen([self.program, "serve", "--socket", self.socket], stderr=self.log, env=dict(os.environ, **OPTIONS))
        until(lambda: os.path.exists(self.socket), 60)
        os.chmod(self.socket, 0o666)

    def client(self, *words, **more):
        return subprocess.Popen([self.program, *words, "--socket", self.socket], cwd=self.folder, env=dict(os.environ, **OPTIONS), **more)

    def engines(self):
        with open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)) as file:
            pids = [int(word) for word in file.read().split()]
        return [pid for pid in pids if name_of(pid) == "cprofd-engine"]

    def findings(self):
        with open(self.log.name) as file:
            return [line.strip() for line in file if FINDING.search(line) and "doesn't fully support makecontext" not in line]

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None


def pythons():
    lines = subprocess.run([os.path.join(LIVE, "pythons.sh")], stdout=subprocess.PIPE, check=True).stdout.decode().split("\n")
    paths = [line.split()[1] for line in lines if len(line.split()) == 2]
    return paths or [sys.executable]


def yielding():
    """Before exec of a target, which spins as long as its session lasts: it leaves the CPU to the engine, or each makes the others' sessions last
    longer. A group, but no session of its own: that is scheduled as one (sched_autogroup), whatever its nice value is."""
    os.setpgid(0, 0)
    os.nice(9)


def start(python, library, folder, kind, seed):
    target = subprocess.Popen([python, os.path.join(ROOT, "tests/targets/hostile.py"), library, folder, kind, str(seed), "30"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder, preexec_fn=yielding)
    if target.stdout.readline() != b"ready\n":
        stop(target)
        return None
    return target


def stop(target):
    try:
        os.killpg(target.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    target.wait()
    target.stdout.close()
    name = "/tmp/perf-%d.map" % target.pid
    if os.path.exists(name):
        os.unlink(name)


class Run:
    def __init__(self, daemon, library):
        self.daemon, self.library = daemon, library
        self.lock = threading.Lock()
        self.bad, self.outcomes, self.slow = [], collections.Counter(), 0

    def session(self, number, kind, seed, python, words):
        folder = os.path.join(self.daemon.folder, "target-%d" % number)
        os.mkdir(folder)
        target = start(python, self.library, folder, kind, seed)
        if not target:
            self.outcomes["no target"] += 1
            return
        try:
            self.ask(number, kind, seed, python, target.pid, words)
        finally:
            stop(target)
            shutil.rmtree(folder, ignore_errors=True)

    def ask(self, number, kind, seed, python, pid, words):
        """Again where a busy engine did not take the client. (That it lives, the session that was there before shows.)"""
        more = ["-d", "0.3", "-q"] if words[0] == "attach" else []
        if words[0] == "attach" and "--stream" not in words:
            more += ["-f", "events", "-o", os.path.join(self.daemon.folder, "out-%d.cprof" % number)]
        begin = time.monotonic()
        for turn in range(20):
            client = self.daemon.client(words[0], str(pid), *words[1:], *more, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                err = client.communicate(timeout=180)[1].decode(errors="replace")
            except subprocess.TimeoutExpired:
                client.kill()
                err = "no end in 180 s " + client.communicate()[1].decode(errors="replace")
            if "the engine " not in err:
                break
            time.sleep(1)
        took = time.monotonic() - begin
        self.slow = max(self.slow, took)
        what = "%s, seed %d, %s: %s" % (kind, seed, python, " ".join(words))
        good = client.returncode in (0, 1) and not FINDING.search(err)
        with self.lock:
            self.outcomes[client.returncode] += 1
            if not good or os.environ.get("V"):
                print(what, "%.1f s" % took, client.returncode, err, flush=True)
            if not good:
                self.bad.append((what, client.returncode, err))


def holder_is_true(client, pid):
    """Its samples are of what it runs, up to the end, and as many as the kernel's account of its CPU time wants."""
    client.send_signal(signal.SIGINT)
    out = client.communicate(timeout=60)[0].splitlines()
    events = [json.loads(line) for line in out if line.startswith(b"{")]
    names = [row[0] for e in events if e["ev"] == "functions" for row in e["rows"]]
    n = sum(len(e["stack"]) for e in events if e["ev"] == "samples")
    ends = [e for e in events if e["ev"] == "end"]
    with open("/proc/%d/schedstat" % pid) as file:
        seconds = int(file.read().split()[0]) / 1e9
    enough = n > 20 and n > 0.7 * RATE * (seconds - 1)  # it ran before it was attached to
    return client.returncode == 0 and enough and any("module" in name for name in names) and ends, (client.returncode, n, seconds, names[:20], ends)


def sees_findings(folder):
    """What a sanitizer says in an engine, within its sandbox, comes to the log."""
    daemon = Daemon(folder)
    target = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE)
    target.stdout.readline()
    client = daemon.client("attach", str(target.pid), "-q", "--stream", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    client.stdout.readline()
    os.kill(until(daemon.engines)[0], signal.SIGSEGV)
    client.stdout.read()
    client.wait()
    target.kill()
    target.wait()
    daemon.end()
    return check(daemon.findings(), "what a sanitizer finds in an engine is seen")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sessions", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first session, of which its kind and its seed are made")
    arguments = parser.parse_args()
    if os.geteuid():
        skip("needs root")
        return finish()
    if "CPROFD_SAN" not in os.environ:
        sanitized()
    kinds = [kind for kind in hostile.KINDS if not arguments.only or kind in arguments.only.split(",")]
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, tempfile.TemporaryDirectory(dir="/var/tmp") as other:
        for one in folder, other:
            os.chmod(one, 0o777)
        library = os.path.join(folder, "hostile.so")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-g", os.path.join(ROOT, "tests/targets/hostile.c"), "-o", library], check=True)
        sees_findings(other)
        daemon = Daemon(folder)
        good = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, preexec_fn=yielding)
        good.stdout.readline()
        holder = daemon.client("attach", str(good.pid), "-q", "-r", str(RATE), "--stream", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        run = Run(daemon, library)
        try:
            plan = zip(itertools.count(), itertools.cycle(kinds), itertools.cycle(pythons()), itertools.cycle(SESSIONS))
            plan = itertools.islice(plan, arguments.first, arguments.first + arguments.sessions)
            with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
                # Another seed, interpreter and kind of session each time round.
                list(pool.map(lambda row: run.session(row[0], row[1], arguments.seed + row[0], row[2], row[3]), plan))
            check(not run.bad, "%d sessions end by themselves, as they were asked" % arguments.sessions, *run.bad[:5])
            print("outcomes:", dict(run.outcomes), "slowest: %.1f s" % run.slow)
            check(run.outcomes[0] >= arguments.sessions / 2, "most of them show something", run.outcomes)
            true, details = holder_is_true(holder, good.pid)
            check(true, "a session that was there before goes on, and is true", *details)
        finally:
            for process in holder, good:
                process.kill()
                process.wait()
            check(daemon.end() == 0, "the daemon ends as it was told to", daemon.process.returncode)
        check(not daemon.findings(), "sanitizers find nothing", *daemon.findings()[:5])
        if counts["failed"]:
            shutil.copy(daemon.log.name, os.path.join(ROOT, "build", "hostile_targets.log"))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
