#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The target, the client, the engine, the daemon or a push is killed (SIGKILL) at a random moment, again and again: nobody else crashes or waits for it,
what was recorded can be read up to that moment, and nothing is left. Needs root.

    kills.py [--count N] [--seed N] [--show] [VICTIM...]

Each try has a target that makes threads and children, a daemon that goes on from try to try until it is killed, a client that records, and a push to
a server that counts. This process adopts whatever is orphaned (PR_SET_CHILD_SUBREAPER): so it sees who is left.

run-live: beside"""
import argparse
import collections
import contextlib
import ctypes
import http.server
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

from lib import CPROFD
from lib.command import PYTHON, environment
from lib.recording import rows
from lib.result import check, finish, skip
from lib.wait import until

VICTIMS = "target", "client", "engine", "daemon", "push"
OPTIONS = (), ("-s",), ("--mode=wall", "-i"), ("-s", "--native=off"), ("-r", "9999")
SPAN = 1.5  # s, of a try: from before the sessions begin until after their end
TARGET = """
import os, threading, time
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(500))
print("up", flush=True)
while True:
    thread = threading.Thread(target=spin, args=(0.003,))
    thread.start()
    child = os.fork()
    if not child:
        spin(0.003)
        os._exit(0)
    spin(0.01)
    os.waitpid(child, 0)
    thread.join()
"""
PR_SET_CHILD_SUBREAPER = 36


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *words):
        pass


def children(pid=None):
    """All of a process's, and theirs: (pid, name)."""
    found, wanted = [], [pid or os.getpid()]
    while wanted:
        parent = wanted.pop()
        with contextlib.suppress(OSError):
            for thread in os.listdir("/proc/%d/task" % parent):
                with open("/proc/%d/task/%s/children" % (parent, thread)) as file:
                    wanted += (mine := [int(word) for word in file.read().split()])
                for child in mine:
                    with contextlib.suppress(OSError), open("/proc/%d/comm" % child) as file:
                        found.append((child, file.read().strip()))
    return found


def alive(pid):
    with contextlib.suppress(OSError), open("/proc/%d/stat" % pid) as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
    return False


class Daemon:
    def __init__(self, folder):
        self.socket = os.path.join(folder, "socket")
        self.log = open(os.path.join(folder, "log"), "ab+")
        self.process = subprocess.Popen([CPROFD, "serve", "--allow=own", "--socket", self.socket], stdout=subprocess.DEVNULL, stderr=self.log,
                                        env=environment())
        until(self.answers)

    def answers(self):
        return subprocess.run([CPROFD, "status", "--socket", self.socket], env=environment(), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0

    def engines(self):
        return [pid for pid, name in children(self.process.pid) if name.startswith("cprofd-engine")]

    def end(self):
        """How it ended when it was told to; None: it did not."""
        self.process.terminate()
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait() and None


class Tries:
    def __init__(self, folder, url, arguments):
        self.folder, self.url, self.arguments = folder, url, arguments
        self.chance = random.Random(arguments.seed)
        self.daemon, self.wrong, self.kills, self.read = None, [], collections.Counter(), collections.Counter()

    def one(self, number, victim):
        if not self.daemon:
            self.daemon = Daemon(self.folder)
        options, at = OPTIONS[number % len(OPTIONS)], self.chance.uniform(0, SPAN)
        out = os.path.join(self.folder, "out.cprof")
        for name in (out, out + ".part"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
        target = subprocess.Popen([PYTHON, "-c", TARGET], stdout=subprocess.PIPE)
        target.stdout.readline()
        env = environment(CPROFD_SOCKET=self.daemon.socket, TMPDIR=self.folder)
        begin = time.monotonic()
        client = subprocess.Popen([CPROFD, "attach", str(target.pid), "-d", "1", "-o", out, *options], env=env, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        push = subprocess.Popen([CPROFD, "push", "--otlp", self.url, "--every", "0.3", "-d", "1", str(target.pid)], env=env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(max(0, begin + at - time.monotonic()))
        pids = {"target": [target.pid], "client": [client.pid], "push": [push.pid], "daemon": [self.daemon.process.pid],
                "engine": self.daemon.engines()[:1]}[victim]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.kills[victim] += 1
        wrong = self.ends(victim, "client", client) + self.ends(victim, "push", push)
        target.kill()
        target.wait()
        target.stdout.close()
        wrong += self.readable(out, victim, time.monotonic() - begin) + self.stays(victim)
        if wrong or self.arguments.show:
            print("  ", number, victim, *options, "at %.3f s:" % at, *wrong or ["ok"], flush=True)
        self.wrong += [(number, victim, options, round(at, 3), w) for w in wrong]

    def ends(self, victim, name, process):
        try:
            words = process.communicate(timeout=40)[1].decode(errors="replace")
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return [name + " waits for ever"]
        code = process.returncode
        if victim == name and code == -signal.SIGKILL:
            return []
        if code not in (0, 1):
            return ["%s ended with %d: %s" % (name, code, words)]
        if code and victim == name or code == 1 and len(words.split()) < 4:
            return ["%s failed: %s" % (name, words)]
        return []

    def readable(self, out, victim, seconds):
        """What there is of the recording: rows in order, of times within the try, and no more CPU than its threads can have had."""
        path = out if os.path.exists(out) else out + ".part"
        if not os.path.exists(path) or not os.path.getsize(path):
            return []
        run = subprocess.run([CPROFD, "report", "--json", path], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        events = read_part(path)
        self.read["whole" if events and events[-1]["ev"] == "end" else "begun"] += bool(events)
        if not any(event["ev"] == "samples" for event in events):
            return []
        if run.returncode:
            return ["the recording cannot be read: " + run.stderr.decode(errors="replace")]
        told = sum(cpu for event in events if event["ev"] == "samples" for _, cpu in rows(event, "cpu"))
        return ["%.3f s of CPU in a recording of %.3f s" % (told / 1e9, seconds)] if told > seconds * 1e9 * (os.cpu_count() or 1) else []

    def stays(self, victim):
        """Who is there that should not be; who is not, that should."""
        if victim == "daemon":
            self.daemon.process.wait()
            self.daemon = None
            left = until(lambda: not others(), 20)
            return [] if left else ["left after the daemon: %s" % others()]
        wrong = []
        if self.daemon.process.poll() is not None:
            wrong.append("the daemon ended with %d" % self.daemon.process.returncode)
            self.daemon = None
        elif not self.daemon.answers():
            wrong.append("the daemon does not answer")
        return wrong


def read_part(path):
    """The events of a file that may break off: its whole lines."""
    text = subprocess.run(["zstd", "-dcqf", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    return [json.loads(line) for line in text[:text.rfind(b"\n") + 1].splitlines()]


def others():
    """What was orphaned, and did not end."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return [(pid, name) for pid, name in children() if alive(pid)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("victims", nargs="*", default=list(VICTIMS))
    arguments = parser.parse_args()
    if os.geteuid():
        skip("needs root")
        return finish()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        tries = Tries(folder, "http://127.0.0.1:%d" % server.server_port, arguments)
        for number in range(arguments.count):
            tries.one(number, arguments.victims[number % len(arguments.victims)])
        code = tries.daemon.end() if tries.daemon else 0
        left = [] if until(lambda: not others(), 20) else others()
        files = sorted(set(os.listdir(folder)) - {"out.cprof", "out.cprof.part", "log", "socket", "socket.lock"})
        with open(os.path.join(folder, "log")) as log:
            crashes = [line for line in log if "signal" in line and "signal 9" not in line and "KILL" not in line]
    check(not tries.wrong, "%d tries, killed: %s; recordings: %s" % (arguments.count, dict(tries.kills), dict(tries.read)), *tries.wrong)
    check(code == 0, "the daemon ends when it is told to", code)
    check(not left and not files, "nobody and nothing is left", left, files)
    check(not crashes, "the daemon told of no crash", crashes)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
