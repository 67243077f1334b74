#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A daemon under storms: one client watches a target that does too much of one thing (tests/targets/storms.py), or cannot write, or does not read, or
the daemon has no descriptors. Needs root.

    storms.py [--rounds N] [--stopped SECONDS] [--show] [STORM ...]

Each storm is held: nobody crashes or hangs, the recording can be read, and nothing is left (BPF programs and maps, processes, sockets, files). It is
told: CPU time, processes and threads of the recording are what the kernel and the target count, or the ledger says what is missing. And no other client
suffers: two calm ones, of the same user (in the same engine) and of another one, lose nothing, and wait at most twice as long for the first sample and for
each event as they do under the same storm while nobody watches it (BOUNDS has the one exception). With and without are measured in turn. The daemon, the storm and each client are sessions
of their own, as services and logins are: CPU time is shared out between them (sched_autogroup), so what is measured is not how many processes a storm has."""
import argparse
import collections
import contextlib
import ctypes
import glob
import json
import mmap
import os
import resource
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

import freeze
from lib import CPROFD, ROOT, cgroup
from lib.client import Client, Refused
from lib.command import PYTHON, environment
from lib.memory import family, fdinfo_of
from lib.recording import rows
from lib.result import check, check_figures, finish, skip
from lib.stepped import stepped
from lib.wait import until

TARGET = os.path.join(ROOT, "tests", "targets", "storms.py")
JIT = os.path.join(ROOT, "build", "tests", "tools", "jit_churn")
USER = 65534
BOMB, CROWD = 2000, 5000 # as in the target
CALM_RATE, CALM_SESSIONS, CALM_SECONDS = 199, 3, 1.2
CALM = """
import time
print("up", flush=True)
while True:
    end = time.thread_time() + 0.003
    while time.thread_time() < end:
        sum(range(500))
    time.sleep(0.007)
"""
# How many times as long a client waits at most. The bar of 2 is not reached (22 to 25 were measured) by one in the engine that has a fork bomb's thousand
# processes to open and to name.
BOUND, BOUNDS = 2, {("fork", "same user"): 30}
# What a busy machine does to a session without anybody's storm: ticks that come late, tables that had no CPU to be made on.
LATE = {"tick_missed", "native_pending"}
LOADED = """
#include <time.h>
int work(int ms)
{
	struct timespec t;
	long long end;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	end = t.tv_sec * 1000000000LL + t.tv_nsec + ms * 1000000LL;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	while (t.tv_sec * 1000000000LL + t.tv_nsec < end);
	return 0;
}
"""
PR_SET_CHILD_SUBREAPER = 36


# --- a calm client: a program of its own ---

def calm(path, uid, pid, sessions, seconds):
    """Prints what it saw: for each session the ms to the first sample, ms from samples to their events, what was lost."""
    if uid:
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    seen = []
    for _ in range(sessions):
        begin = time.monotonic()
        client = Client(path, timeout=120)
        session = client.request("attach", pid=pid, rate=CALM_RATE, native="full")["session"]
        first, late = None, []
        while time.monotonic() < begin + seconds or not first:
            line = client.events.pop(0) if client.events else client.line()
            if line.startswith(b'{"ev":"samples"'):
                now = time.monotonic_ns()
                first = first or now / 1e6 - begin * 1e3
                late += [(now - at) / 1e6 for at, cpu in rows(json.loads(line), "cpu") if cpu]
        client.request("stop", session=session)
        events = [json.loads(line) for line in client.until_end()]
        ledger = [event for event in events if event["ev"] == "ledger"][-1]
        seen.append({"first": first, "late": late, "losses": ledger["losses"], "gaps": sum(event["ev"] == "gap" for event in events),
                     "reason": events[-1]["reason"], "samples": ledger["samples"]})
        client.close()
    print(json.dumps(seen))


class Calm:
    """The calm targets, of both users, and their clients."""

    def __init__(self, daemon):
        self.daemon, self.targets = daemon, {}
        self.seen = collections.defaultdict(list)  # (who, whether somebody watches) -> sessions
        for who, uid in ("same user", 0), ("other user", USER):
            self.targets[who] = subprocess.Popen([PYTHON, "-c", CALM], stdout=subprocess.PIPE, cwd="/", user=uid, group=uid, extra_groups=[],
                                                 start_new_session=True)
            self.targets[who].stdout.readline()

    def measure(self, watched, sessions=CALM_SESSIONS):
        clients = {}
        for who, target in self.targets.items():
            clients[who] = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--calm", self.daemon.socket, "0" if who == "same user" else str(USER),
                                             str(target.pid), str(sessions), str(CALM_SECONDS)], stdout=subprocess.PIPE, env=environment(), start_new_session=True)
        for who, client in clients.items():
            out = client.communicate(timeout=300)[0]
            if client.returncode:
                check(False, "%s, a calm client: its sessions" % who, client.returncode)
            else:
                self.seen[who, watched] += json.loads(out)

    def judge(self, storm):
        for who in self.targets:
            without, during = self.seen[who, False], self.seen[who, True]
            if not without or not during:
                continue
            for what, middle in (("to the first sample", lambda seen: statistics.median(one["first"] for one in seen)),
                                 ("from sample to event", lambda seen: statistics.median(late for one in seen for late in one["late"]))):
                usual, now = middle(without), middle(during)
                check_figures(now <= BOUNDS.get((storm, who), BOUND) * usual, "%s: %s, ms %s:" % (storm, who, what), "%.0f, else %.0f: %.2f" % (now, usual, now / usual))
            losses = collections.Counter()
            for one in during:
                losses.update(one["losses"])
            late = {name: losses.pop(name) for name in LATE | ({"weave_guess"} if (storm, who) in BOUNDS else set()) if name in losses}
            check(not losses and not any(one["gaps"] for one in during), "%s: %s loses nothing%s" % (storm, who, "; a busy machine's: %s" % late if late else ""),
                  dict(losses))
            check(all(one["reason"] == "stopped" for one in during), "%s: %s: sessions end as they were asked" % (storm, who))

    def end(self):
        for target in self.targets.values():
            target.kill()
            target.wait()
            target.stdout.close()


# --- the daemon ---

def held_of(pids):
    """BPF programs and maps: (kind, id)."""
    return {(kind, int(keys[kind + "_id"])) for pid in pids for keys in fdinfo_of(pid) for kind in ("map", "prog") if kind + "_id" in keys}


def in_kernel(kind, number):
    return subprocess.run(["bpftool", kind, "show", "id", str(number)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0


def others():
    """What was orphaned, and did not end."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return family(os.getpid())[1:]


class Daemon:
    def __init__(self, folder, **more):
        self.folder, self.held = folder, set()
        self.socket, self.tmp = os.path.join(folder, "socket"), os.path.join(folder, "tmp")
        os.mkdir(self.tmp)
        os.chmod(folder, 0o755)
        os.chmod(self.tmp, 0o1777)
        self.log = open(os.path.join(folder, "log"), "w+")
        self.process = subprocess.Popen([CPROFD, "serve", "--allow=own", "--socket", self.socket], stdout=subprocess.DEVNULL, stderr=self.log,
                                        env=environment(TMPDIR=self.tmp, **more), start_new_session=True)
        until(lambda: self.status() is not None)
        os.chmod(self.socket, 0o666)
        # Both users' engines are there from now on.
        self.connections = [Client(self.socket), Client(self.socket, connected=freeze.connect(self, USER, []))]
        for client in self.connections:
            client.request("sessions")

    def status(self):
        run = subprocess.run([CPROFD, "status", "--socket", self.socket], env=environment(), capture_output=True, text=True, timeout=60)
        self.refused = run.stderr
        return None if run.returncode else run.stdout

    def note(self):
        self.held |= held_of(family(self.process.pid))

    def end(self, storm):
        for client in self.connections:
            client.close()
        self.note()
        check(self.process.poll() is None, "%s: the daemon lives" % storm, self.process.returncode)
        self.process.terminate()
        try:
            check(self.process.wait(60) == 0, "%s: the daemon ends as it was told to" % storm, self.process.returncode)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            check(False, "%s: the daemon ends within a minute" % storm)
        left = until(lambda: not [one for one in self.held if in_kernel(*one)], 20, 0.2)
        check(left, "%s: none of %d BPF programs and maps is left" % (storm, len(self.held)), [one for one in self.held if in_kernel(*one)])
        check(until(lambda: not others(), 20), "%s: no process is left" % storm, others())
        check(not os.path.exists(self.socket) and not os.listdir(self.tmp), "%s: no file is left" % storm, os.listdir(self.tmp))
        self.log.seek(0)
        words = self.log.read()
        check(not any(word in words for word in ("signal", "Assertion", "Sanitizer", "ended by")), "%s: the log has no crash" % storm, words[-2000:])


# --- a storm and who watches it ---

class Storm:
    def __init__(self, folder, kind):
        self.kind, self.group = kind, cgroup.make()
        path = os.path.join(folder, "counter")
        with open(path, "w+b") as file:
            file.write(bytes(8))
            file.flush()
            self.counter = mmap.mmap(file.fileno(), 8)
        program = {"jit": JIT, "dlopen": os.path.join(folder, "loaded.so")}.get(kind, "")
        if kind == "dlopen":
            subprocess.run(["gcc", "-O1", "-g", "-shared", "-fPIC", "-x", "c", "-", "-o", program], input=LOADED.encode(), check=True)
        self.process = subprocess.Popen([PYTHON, TARGET, kind, path, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder, preexec_fn=self.enter,
                                        start_new_session=True)
        self.process.stdout.readline()
        self.log, self.logs = [], threading.Event()
        self.thread = threading.Thread(target=self.write_log)
        self.thread.start()

    def write_log(self):
        while not self.logs.wait(0.02):
            self.log.append((time.monotonic_ns(), self.made(), self.cpu()))

    def between(self, begin, end):
        """What it made, and its CPU seconds: at least."""
        first = next((row for row in self.log if row[0] >= begin), self.log[-1])
        last = next((row for row in reversed(self.log) if row[0] <= end), self.log[0])
        return last[1] - first[1], last[2] - first[2]

    def around(self, begin, end):
        """... at most."""
        first = next((row for row in reversed(self.log) if row[0] <= begin), self.log[0])
        last = next((row for row in self.log if row[0] >= end), self.log[-1])
        return last[1] - first[1], last[2] - first[2]

    def enter(self):
        if self.group:
            with open(os.path.join(self.group, "cgroup.procs"), "w") as file:
                file.write("0")

    def made(self):
        return struct.unpack_from("Q", self.counter)[0]

    def cpu(self):
        """Seconds of all that it ever was."""
        with open(os.path.join(self.group, "cpu.stat")) as file:
            return int(file.readline().split()[1]) / 1e6

    def end(self):
        self.logs.set()
        self.thread.join()
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()
        cgroup.end(self.group)


def events_of(path):
    """Of a file that may break off: its whole lines."""
    text = subprocess.run(["zstd", "-dcqf", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return [json.loads(line) for line in text[:text.rfind(b"\n") + 1].splitlines()]


class Watched:
    """A recording of a storm."""

    def __init__(self, daemon, storm, number, folder=None, options=()):
        self.daemon, self.storm, self.path = daemon, storm, os.path.join(folder or daemon.folder, "%s-%d.cprof" % (storm.kind, number))
        self.out = open(os.path.join(daemon.folder, "stream"), "w+b")
        self.client = subprocess.Popen([CPROFD, "attach", str(storm.process.pid), "-s", "--native=full", *(options or ("-o", self.path))], stdout=self.out,
                                       stderr=subprocess.PIPE, env=environment(CPROFD_SOCKET=daemon.socket, TMPDIR=daemon.tmp), start_new_session=True)
        self.streams = "--stream" in options

    def events(self):
        if not self.streams:
            return events_of(self.path)
        self.out.seek(0)
        return [json.loads(line) for line in self.out.read().splitlines()]

    def end(self):
        self.daemon.note()
        self.until = time.monotonic_ns()
        self.client.send_signal(signal.SIGINT)
        try:
            self.words = self.client.communicate(timeout=120)[1].decode(errors="replace")
        except subprocess.TimeoutExpired:
            self.client.kill()
            self.words = self.client.communicate()[1].decode(errors="replace")
        self.ended = time.monotonic_ns()

    def judge(self, status=0):
        kind = self.storm.kind
        good = self.client.returncode == status
        check_figures(good, "%s: its client ends when it is told to:" % kind, "%.1f s" % ((self.ended - self.until) / 1e9),
                      *([] if good else [self.client.returncode, self.words]))
        if not self.streams:
            run = subprocess.run([CPROFD, "report", "--json", self.path], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            check(run.returncode == 0, "%s: the recording can be read" % kind, run.stderr)

    def judge_truth(self):
        """What is in it is what the kernel and the target count, or the ledger says so."""
        kind, events = self.storm.kind, self.events()
        begun = next(event["monotonic"] for event in events if event["ev"] == "session")
        first = next(event["t"][0] for event in events if event["ev"] == "samples")
        (made, cpu), (most_made, most_cpu) = self.storm.between(first, self.until), self.storm.around(begun, self.ended)
        losses = next(event["losses"] for event in reversed(events) if event["ev"] == "ledger")
        told = sum(row[1] for event in events if event["ev"] == "samples" for row in rows(event, "cpu")) / 1e9
        told += sum(event.get("cpu", 0) for event in events if event["ev"] == "thread_end") / 1e9
        missed = losses.get("child_missed", 0)
        check_figures(cpu * 0.97 - 0.1 <= told <= most_cpu * 1.03 + 0.1 or missed and told <= most_cpu * 1.03 + 0.1,
                      "%s: CPU time, s:" % kind, "%.2f of %.2f to %.2f" % (told, cpu, most_cpu), dict(losses))
        columns = {"exec": "process", "fork": "process", "births": "thread"}
        if kind in columns:
            key = {"process": "pid", "thread": "tid"}[columns[kind]]
            seen = len({(event[key], event.get("start", 0)) for event in events if event["ev"] == columns[kind]})
            known = 2 * BOMB if kind == "fork" else 2 # there when it began; those of a bomb that ends, too
            check_figures(made <= seen + missed and seen <= most_made + known, "%s: made:" % kind, "%d, and %d missed, of %d to %d" % (seen, missed, made, most_made))
        if kind == "threads":
            seen = len({event["tid"] for event in events if event["ev"] == "thread"})
            check_figures(seen >= CROWD, "%s: threads:" % kind, seen)


class Case:
    """A daemon, calm clients, a storm, and what is checked of them at the end."""

    def __init__(self, name, kind, **more):
        self.name, self.kind, self.more = name, kind, more

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(dir="/var/tmp", prefix="cprofd-storms-")
        self.folder = self.temporary.name
        self.daemon = Daemon(self.folder, **{key: value for key, value in (self.more.get("env") or (lambda folder: {}))(self.folder).items()})
        self.calm = Calm(self.daemon)
        self.storm = Storm(self.folder, self.kind)
        self.calm.measure(False, 1)  # tables that are kept are made now
        self.calm.seen.clear()
        return self

    def answers(self):
        check(self.daemon.status() is not None, "%s: the daemon answers" % self.name, self.daemon.refused)

    def __exit__(self, *_):
        self.storm.end()
        self.calm.end()
        self.daemon.end(self.name)
        self.temporary.cleanup()


def too_much(kind, arguments):
    """The storms of the target alone."""
    with Case(kind, kind) as case:
        recordings = []
        for number in range(arguments.rounds):
            case.calm.measure(False)
            recordings.append(Watched(case.daemon, case.storm, number))
            case.calm.measure(True)
            case.answers()
            recordings[-1].end()
        case.calm.judge(kind)
        for watched in recordings:
            watched.judge()
            watched.judge_truth()
            if arguments.show:
                print(watched.words)


def stopped(_, arguments):
    """A client that streams is stopped: it has a gap, and the engine holds no more than 8 MiB for it."""
    with Case("stopped", "churn") as case:
        case.calm.measure(False, 2 * CALM_SESSIONS)
        watched = Watched(case.daemon, case.storm, 0, options=("--stream", "-r", "9999"))
        until(lambda: os.fstat(watched.out.fileno()).st_size > 10000)
        watched.client.send_signal(signal.SIGSTOP)
        begin = time.monotonic()
        case.calm.measure(True, 2 * CALM_SESSIONS)
        until(lambda: time.monotonic() > begin + arguments.stopped, arguments.stopped + 10, 0.5)
        case.answers()
        queued = case.daemon.connections[0].request("status")["status"]["queued_bytes"]
        check_figures(0 < queued <= 9 << 20, "stopped: bytes that wait for it:", queued)
        watched.client.send_signal(signal.SIGCONT)
        until(lambda: b'"ev":"gap"' in open(watched.out.name, "rb").read(), 60, 0.5)
        watched.end()
        watched.judge()
        events = watched.events()
        gaps = [event["bytes"] for event in events if event["ev"] == "gap"]
        check_figures(gaps and events[-1]["ev"] == "end", "stopped: the gap is told:", gaps)
        case.calm.judge("stopped")


def enospc(_, arguments):
    """The disk of the recording is full: it is said, and what is there can be read."""
    with Case("enospc", "churn") as case:
        disk = os.path.join(case.folder, "disk")
        os.mkdir(disk)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", disk], check=True)
        try:
            case.calm.measure(False)
            watched = Watched(case.daemon, case.storm, 0, disk, ("-r", "5k", "-o", os.path.join(disk, "churn-0.cprof")))
            case.calm.measure(True)
            until(lambda: watched.client.poll() is not None, 60)
            check(watched.client.poll() is not None, "enospc: the client ends by itself")
            case.answers()
            watched.end()
            check("No space left" in watched.words, "enospc: it is said", watched.words)
            watched.path = glob.glob(disk + "/*.cprof*")[0]
            watched.judge(1)
            check(any(event["ev"] == "samples" for event in watched.events()), "enospc: it holds samples")
            case.calm.judge("enospc")
        finally:
            subprocess.run(["umount", "-l", disk], check=True)


def emfile(_, arguments):
    """The daemon has no descriptor left, while children are to be opened: who comes is told, and who was there goes on."""
    with Case("emfile", "exec") as case:
        pid = case.daemon.process.pid
        usual = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        watched = Watched(case.daemon, case.storm, 0)
        first = case.daemon.connections[1]
        session = first.request("attach", pid=case.calm.targets["other user"].pid, rate=CALM_RATE, native="full")["session"]
        until(lambda: glob.glob(watched.path + "*") and os.path.getsize(glob.glob(watched.path + "*")[0]) > 1000)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir("/proc/%d/fd" % pid)), usual[1]))
        codes = collections.Counter()
        for _ in range(20):
            client = Client(case.daemon.socket)
            try:
                client.request("attach", pid=case.calm.targets["same user"].pid, native="full")
                codes["served"] += 1
            except Refused as refused:
                codes[refused.code] += 1
            client.close()
        check_figures(codes["NO_DESCRIPTORS"] and set(codes) <= {"NO_DESCRIPTORS", "served"}, "emfile: who comes is told:", dict(codes))
        resource.prlimit(pid, resource.RLIMIT_NOFILE, usual)
        case.answers()
        case.calm.measure(True)
        check(all(one["samples"] for one in case.calm.seen["same user", True]), "emfile: and served when there are some")
        first.request("stop", session=session)
        ledger = [json.loads(line) for line in first.until_end() if line.startswith(b'{"ev":"ledger"')][-1]
        check(ledger["samples"] and set(ledger["losses"]) <= LATE, "emfile: who was there loses nothing", ledger)
        watched.end()
        watched.judge()
        watched.judge_truth()


def clock(_, arguments):
    """The time of day goes two hours ahead and back, many times, for cprofd's processes (lib/stepped.py). Its clock is the monotonic one."""
    steps = {}

    def environment_of(folder):
        more, steps["path"] = stepped(folder)
        return more
    with Case("clock", "births", env=environment_of) as case:
        case.calm.measure(False)
        watched = Watched(case.daemon, case.storm, 0)
        over = threading.Event()

        def step():
            while not over.wait(0.05):
                open(steps["path"], "w").close()
                over.wait(0.05)
                os.unlink(steps["path"])
        stepper = threading.Thread(target=step)
        stepper.start()
        case.calm.measure(True)
        over.set()
        stepper.join()
        watched.end()
        watched.judge()
        watched.judge_truth()
        case.calm.judge("clock")


STORMS = {**{kind: too_much for kind in ("exec", "fork", "births", "threads", "dlopen", "jit", "mappings")}, "stopped": stopped, "enospc": enospc, "emfile": emfile,
          "clock": clock}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stopped", type=float, default=60, metavar="SECONDS")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("storms", nargs="*", default=list(STORMS))
    arguments = parser.parse_args()
    if os.geteuid():
        skip("needs root")
        return finish()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    for kind in arguments.storms:
        STORMS[kind](kind, arguments)
    return finish()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--calm"]:
        calm(sys.argv[2], *map(int, sys.argv[3:6]), float(sys.argv[6]))
    else:
        sys.exit(main())
