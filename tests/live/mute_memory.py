#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A user has one target whose memory does not let itself be read: pages of a FUSE mount that never answers lie where its thread state, its
frames, code objects, names, its list of JIT objects or an executable file of its are. Or it maps and unmaps without end, faster than records of that
are read. All sessions of that user are served by one engine: others go
on, `status` answers, and the session itself ends when it is told to. Needs root.

    mute_memory.py [--only KIND[,..]] [--all]

run-live: beside"""
import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

from freeze import BUSY, USER, Daemon, Mute, become, check, finish, skip, start, stop
from lib import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests/targets"))
import hostile # noqa: E402

SECONDS = 1
# The others with --all.
FEW = ("runtime", "lines", "values", "jit", "file", "stack")
FROZEN = 10 # s: who waits for the target waits for ever; a busy machine alone makes it 3
SESSIONS = (("--native=full",), ("--mode=wall", "-i", "--native=full"))


class Holder:
    """A session that is there all the time; how long its stream was silent at most."""

    def __init__(self, daemon, target):
        self.client = daemon.attach(USER, target.pid, "-d", "600", "--mode=wall", wait=False)
        self.client.stdout.readline()
        self.silent, self.last = 0, time.monotonic()
        self.thread = threading.Thread(target=self.read)
        self.thread.start()

    def read(self):
        for line in self.client.stdout:
            now = time.monotonic()
            self.silent = max(self.silent, now - self.last)
            self.last = now

    def begin(self):
        self.silent, self.last = 0, time.monotonic()

    def longest(self):
        return max(self.silent, time.monotonic() - self.last)

    def end(self):
        self.client.kill()
        self.thread.join()
        self.client.wait()


def target_of(library, folder, kind, file):
    target = subprocess.Popen(["/usr/bin/python3", os.path.join(ROOT, "tests/targets/hostile.py"), library, folder, kind, "1", "60"],
                              preexec_fn=become(USER, group=True), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/",
                              env={"HOSTILE_MUTE": file, "PATH": "/usr/bin:/bin"})
    return target if target.stdout.readline() == b"ready\n" else None


def asked(daemon, *words):
    begin = time.monotonic()
    done = subprocess.run([daemon.program, *words, "--socket", daemon.socket], preexec_fn=become(USER), cwd="/", timeout=60, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    return done.returncode, time.monotonic() - begin, done.stdout + done.stderr


def one(daemon, good, holder, library, folder, kind, options, targets, file):
    """How often its stream says that memory could not be read."""
    said = 0
    target = target_of(library, folder, kind, file)
    if not target:
        check(False, "%s: a target" % kind)
        return 0
    targets.append(target)
    what = "%s %s" % (kind, " ".join(options))
    try:
        holder.begin()
        begin = time.monotonic()
        client = daemon.attach(USER, target.pid, "-d", str(SECONDS), *options, wait=False)
        reader = threading.Thread(target=lambda: setattr(client, "said", client.communicate()))
        reader.start()
        slowest, refused = 0, []
        while client.poll() is None and time.monotonic() - begin < 30:
            status = asked(daemon, "status")
            slowest = max(slowest, status[1])
            if status[0]:
                refused.append(status[2])
            time.sleep(0.1)
        took = time.monotonic() - begin
        # On a busy machine one answer may take longer than the 5 s after which `status` gives up.
        late = [words for words in refused if b"did not answer: Connection timed out" in words]
        check(slowest < FROZEN and len(late) == len(refused) < 2, "%s: status answers: %.2f s" % (what, slowest), *refused)
        if late:
            print("    %s: one answer of status came too late" % what)
        check(client.poll() in (0, 1) and took < SECONDS + 15, "%s: its own session ends: %.1f s" % (what, took), client.poll())
        if client.poll() is None:
            client.kill()
        reader.join()
        lines = [line for line in client.said[0].splitlines() if line.startswith(b"{")]
        muted = sum(b"target_mute" in line for line in lines)
        print("   ", what, "exit", client.returncode, "target_mute" if muted else "-", client.said[1].decode()[:200].strip(), flush=True)
        said += muted + (b"does not answer" in client.said[1])
        if kind == "mute-runtime":
            check(b"does not answer" in client.said[1], "%s: who asked is told that its memory does not answer" % what, client.said[1])
        dump = asked(daemon, "dump", str(target.pid))
        check(dump[0] in (0, 1) and dump[1] < FROZEN, "%s: its own dump ends: %.2f s" % (what, dump[1]), dump[2])
        dump = asked(daemon, "dump", str(good.pid))
        check(not dump[0] and b"module" in dump[2] and dump[1] < FROZEN, "%s: another target is dumped: %.2f s" % (what, dump[1]), dump[2])
        check(holder.longest() < FROZEN, "%s: another session goes on: %.2f s without a word" % (what, holder.longest()))
    finally:
        os.killpg(target.pid, signal.SIGKILL)
    return said


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    if os.geteuid():
        skip("needs root")
        return finish()
    few = arguments.only.split(",") if arguments.only else ["mute-" + kind for kind in FEW]
    kinds = [kind for kind in hostile.MUTES if arguments.all or kind in few]
    kinds += ["many-maps"] if not arguments.only or "many-maps" in few else []
    good = start(USER, BUSY)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o777)
        library = os.path.join(folder, "hostile.so")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-g", os.path.join(ROOT, "tests/targets/hostile.c"), "-o", library], check=True)
        os.mkdir(os.path.join(folder, "mount"))
        daemon = Daemon(folder)
        try:
            said = 0
            for number, kind in enumerate(kinds):
                mute, targets = Mute(os.path.join(folder, "mount")), []
                holder = Holder(daemon, good)
                try:
                    said += one(daemon, good, holder, library, folder, kind, SESSIONS[kind == "many-maps" or number % 2], targets, os.path.join(folder, "mount", "file"))
                finally:
                    mute.close() # only then can a target end whose memory is being read
                    holder.end()
                    for target in targets:
                        target.wait()
            check(said, "what could not be read in time is told by name", said)
            took = daemon.end()
            check(daemon.process.poll() is not None and took < 6, "SIGTERM ends the daemon: %.2f s" % took)
        finally:
            daemon.process.kill()
            daemon.process.wait()
            stop(good)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
