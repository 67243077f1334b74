#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What systemd/cprofd.service promises holds: the daemon says that it is ready, alive and about to end, and whole sessions need no system call,
socket or capability that the unit does not leave. Needs root.

    service.py [NAME ...]     only the tests whose names contain one of these
"""
import contextlib
import ctypes
import errno
import glob
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

from lib.command import CPROFD, NOBODY, ROOT, Skip, as_nobody, cprofd, environment, expect, fails, folder, target
from lib.wait import until

UNIT = os.path.join(ROOT, "systemd", "cprofd.service.in")
PUSH = os.path.join(ROOT, "systemd", "cprofd-push.service.in")
AGENT = os.path.join(ROOT, "systemd", "cprofd-agent.service.in")
HEADER = "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"
# Connects as systemd does: the listening socket is descriptor 3.
START = """
import os, sys
os.environ["LISTEN_PID"] = os.environ["WATCHDOG_PID"] = str(os.getpid())
os.execv(sys.argv[1], [sys.argv[1], "serve"])
"""
PARENT = """
import ctypes, os, signal
for i in range(3):
    if not os.fork():
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        signal.pause()
print("up", flush=True)
while True:
    sum(range(1000))
"""


def unit(name, path=UNIT):
    with open(path) as file:
        return [line.split("=", 1)[1].strip() for line in file if line.startswith(name + "=")]


# --- the unit's filter ---

def group(name):
    """The system calls of a group, as systemd has it."""
    run = subprocess.run(["systemd-analyze", "syscall-filter", name], stdout=subprocess.PIPE, check=True)
    words = [line.strip() for line in run.stdout.decode().split("\n")[1:]]
    return set().union(*(group(word) if word.startswith("@") else {word} for word in words if word and not word.startswith("#")))


def allowed_calls():
    allowed = group("@default") # systemd.exec(5): always
    for line in unit("SystemCallFilter"):
        words = line.lstrip("~").split()
        named = set().union(*(group(word) if word.startswith("@") else {word} for word in words))
        allowed = allowed - named if line.startswith("~") else allowed | named
    return allowed


def seccomp_filter():
    """Whatever else is called ends the process."""
    with open(HEADER) as file:
        numbers = dict(re.findall(r"#define __NR_(\w+) (\d+)", file.read()))
    allowed = {int(numbers[name]) for name in allowed_calls() if name in numbers}
    code = [(0x20, 0, 0, 0)] # the call's number
    if unit("RestrictAddressFamilies") == ["none"]: # as systemd refuses it; socketpair() is not restricted
        code += [(0x15, 0, 1, int(numbers["socket"])), (0x06, 0, 0, 0x50000 | errno.EAFNOSUPPORT)]
    for number in sorted(allowed):
        code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x7fff0000)]
    code.append((0x06, 0, 0, 0x80000000))
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


def enter_filter(code):
    libc = ctypes.CDLL(None, use_errno=True)
    text = ctypes.create_string_buffer(code)
    program = struct.pack("<HxxxxxxQ", len(code) // 8, ctypes.addressof(text))
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def dropped_capabilities():
    kept, = unit("CapabilityBoundingSet")
    return "-all," + ",".join("+" + word[len("CAP_"):].lower() for word in kept.split())


# --- the service ---

class Manager:
    """What a service manager hears: (sender, message)."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)

    def heard(self, seconds):
        self.socket.settimeout(max(seconds, 0.001))
        try:
            text, more, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(12))
        except TimeoutError:
            return None
        return struct.unpack("iii", more[0][2])[0], text.decode()

    def forget(self):
        while self.heard(0.001):
            pass

    def count(self, message, seconds, enough=sys.maxsize):
        """How often it is heard in this time, or `enough`."""
        end, n = time.monotonic() + seconds, 0
        while n < enough and time.monotonic() < end:
            n += (self.heard(end - time.monotonic()) or (0, ""))[1] == message
        return n


@contextlib.contextmanager
def service(work, code=None, watchdog=0, notify=None):
    """The daemon as systemd starts it. `code`: below this filter, and with the unit's capabilities alone."""
    os.chmod(work, 0o755)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(os.path.join(work, "socket"))
    os.chmod(os.path.join(work, "socket"), 0o666)
    listener.listen()
    os.mkdir(os.path.join(work, "cache"))
    more = {"NOTIFY_SOCKET": notify} if notify else {}
    if watchdog:
        more["WATCHDOG_USEC"] = str(watchdog)

    def enter():
        os.dup2(listener.fileno(), 3)
        os.set_inheritable(3, True)
        if code:
            enter_filter(code)
    prefix = ["setpriv", "--bounding-set", dropped_capabilities(), "--inh-caps=-all"] if code else []
    broker = subprocess.Popen([*prefix, sys.executable, "-c", START, CPROFD], preexec_fn=enter, close_fds=False, cwd="/", stderr=subprocess.PIPE,
                              env=environment(LISTEN_FDS="1", CACHE_DIRECTORY=os.path.join(work, "cache"), **more))
    try:
        line = broker.stderr.readline().decode()
        expect("listens at" in line, "it did not start", line, broker.poll())
        yield os.path.join(work, "socket"), broker
    finally:
        broker.terminate()
        broker.wait(60)
        broker.stderr.close()
        listener.close()


def test_notify():
    """READY, a sign of life in half of the time that is allowed, none when the loop stands still, STOPPING."""
    with folder() as work:
        for name in os.path.join(work, "notify"), "\0cprofd-test-%d" % os.getpid():
            manager = Manager(name)
            os.makedirs(os.path.join(work, str(len(name))))
            with service(os.path.join(work, str(len(name))), watchdog=400000, notify=name.replace("\0", "@")) as (path, broker), target() as process:
                expect(manager.heard(20) == (broker.pid, "READY=1"), "it is not ready")
                expect(manager.count("WATCHDOG=1", 2, 3) == 3, "no signs of life")
                fails(0, run=cprofd("attach", process.pid, "-d", "1", "--socket", path, "--stream", "-q"))
                manager.forget()
                expect(manager.count("WATCHDOG=1", 2, 3) == 3, "no signs of life after a session")
                broker.send_signal(signal.SIGSTOP)
                until(lambda: open("/proc/%d/stat" % broker.pid).read().rsplit(")", 1)[1].split()[0] == "T")
                manager.forget()
                expect(not manager.count("WATCHDOG=1", 1), "a loop that stands still says that it goes round")
                broker.send_signal(signal.SIGCONT)
                expect(manager.count("WATCHDOG=1", 1, 1), "it does not go on")
                broker.terminate()
                broker.wait(60)
                expect(manager.count("STOPPING=1", 0.1) == 1, "it ends without a word")


def test_nobody_asked():
    with folder() as work, service(work) as (path, _):
        fails(0, run=cprofd("status", "--socket", path))


def test_filter():
    """Sessions of all kinds, as a user and as root, below the unit's filter of system calls: any other one ends the process."""
    if not shutil.which("systemd-analyze") or not os.path.exists(HEADER):
        raise Skip("no systemd-analyze, or no numbers of system calls")
    code = seccomp_filter()
    with folder() as work:
        manager = Manager(os.path.join(work, "notify"))
        os.mkdir(os.path.join(work, "service"))
        with service(os.path.join(work, "service"), code, 30000000, os.path.join(work, "notify")) as (path, broker):
            said = manager.heard(20)
            expect(said == (broker.pid, "READY=1"), "it is not ready", said, broker.pid, broker.poll())
            for uid, prefix in (0, ()), (NOBODY, as_nobody()):
                with target(uid=uid) as process, target(PARENT, uid=uid) as parent:
                    for pid, *words in (process.pid, "-d", "0.5"), (process.pid, "-d", "0.5", "--mode=wall"), (parent.pid, "-d", "0.5", "-s"):
                        run = cprofd("attach", pid, "--socket", path, "--stream", "-q", *words, prefix=prefix, cwd="/")
                        fails(0, run=run)
                        expect('"samples"' in run.out, "no samples", run.out[-500:])
                    fails(0, run=cprofd("dump", process.pid, "--socket", path, prefix=prefix, cwd="/"))
                    fails(0, run=cprofd("status", "--socket", path, prefix=prefix, cwd="/"))
                    if not uid:
                        run = cprofd("attach", process.pid, "--socket", path, "--stream", "-q", "-d", "0.5", "--kernel", cwd="/")
                        fails(0, run=run)
            expect(broker.poll() is None, "the daemon ended")
        expect(broker.returncode == 0, "it ended otherwise than it was told to", broker.returncode)


def test_agent():
    """The agent's unit leaves it what the daemon's does; below that filter, with these capabilities, it records, and completes its file at SIGTERM."""
    for name in "SystemCallFilter", "CapabilityBoundingSet", "RestrictAddressFamilies":
        expect(unit(name) == unit(name, AGENT), "the units differ", name, unit(name), unit(name, AGENT))
    if not shutil.which("systemd-analyze") or not os.path.exists(HEADER):
        raise Skip("no systemd-analyze, or no numbers of system calls")
    code = seccomp_filter()
    with folder() as work, target() as process:
        os.mkdir(os.path.join(work, "cache"))
        agent = subprocess.Popen(["setpriv", "--bounding-set", dropped_capabilities(), "--inh-caps=-all", CPROFD, "agent", os.path.join(work, "files")],
                                 preexec_fn=lambda: enter_filter(code), stderr=subprocess.PIPE, env=environment(CACHE_DIRECTORY=os.path.join(work, "cache")))
        try:
            def holds():
                return agent.poll() is not None or any(
                    b'"pid":%d,' % process.pid in subprocess.run(["zstd", "-dcqf", name], capture_output=True).stdout
                    for name in glob.glob(os.path.join(work, "files", "*")))
            expect(until(holds) and agent.poll() is None, "it does not record", agent.poll())
            agent.terminate()
            said = agent.communicate(timeout=60)[1].decode()
            expect(agent.returncode == 0 and "wrote 1 recording" in said, "its end", agent.returncode, said)
        finally:
            agent.kill()
            agent.wait()


def test_exposure():
    """What `systemd-analyze security` thinks of them: 2.0 where this was written; it counts what a profiler has to have. 1.0 of push, which has to have little."""
    if not shutil.which("systemd-analyze"):
        raise Skip("no systemd-analyze")
    with folder() as work:
        shutil.copy(os.path.join(ROOT, "systemd", "cprofd.socket"), work)
        for path, most in (UNIT, 20), (AGENT, 20), (PUSH, 10):
            copy = os.path.join(work, os.path.basename(path).removesuffix(".in"))
            with open(path) as file, open(copy, "w") as out:
                out.write(file.read().replace("@bindir@", "/usr/bin"))
            run = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=%d" % most, copy],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            expect(run.returncode == 0, "it is exposed more", path, run.stdout.decode().split("\n")[-2:])


def main():
    if os.geteuid():
        print("skipped: service needs root\n0 passed, 0 failed, 1 skipped")
        return 0
    wanted = sys.argv[1:]
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name, test in list(globals().items()):
        if not name.startswith("test_") or (wanted and not any(word in name for word in wanted)):
            continue
        try:
            test()
            result, why = "passed", ""
        except Skip as skip:
            result, why = "skipped", str(skip)
        except (AssertionError, OSError, subprocess.TimeoutExpired) as error:
            result, why = "failed", repr(error) if not isinstance(error, AssertionError) else str(error)
        counts[result] += 1
        print(result, name, why, flush=True)
    print(", ".join("%d %s" % (n, what) for what, n in counts.items()))
    return counts["failed"] > 0


if __name__ == "__main__":
    sys.exit(main())
