#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Limits per user: what one user may take of the daemon, and what others get while that user takes all of it. Needs root.

    quotas.py [--all]

A user with a range of /etc/subuid takes what there is, under many uids and from user namespaces: each limit is met at its number, is named, and
leaves the daemon to others: they attach in the time that it takes else, and lose nothing. What all of it takes is below what docs/privileges.md says,
as the kernel counts it (PSS, and memlock of each map), with this machine's CPUs and with 128."""
import argparse
import collections
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import freeze
from lib import CPROFD
from lib.client import Client, Refused
from lib.memory import maps_of, pss_of
from lib.result import check, finish, skip
from lib.wait import mount_namespaces, until

USER, OTHER, NAME = 65534, 65533, "nobody"
SUBUIDS = 200000
SUBUID = "/etc/subuid"
MB = 1 << 20
BOUND = (1024 + 2048) * MB # docs/privileges.md: maps, memory
# Ticks that did not come, and native stacks that were met before there was a CPU to make their tables on: no record is lost.
LATE = ("tick_missed", "native_pending")


class Daemon:
    """It sees a list of subordinate uids of ours."""

    def __init__(self, folder, *limits, cpus=None):
        ranges = os.path.join(folder, "subuid")
        with open(ranges, "w") as file:
            file.write("%s:%d:65536\n" % (NAME, SUBUIDS))
        self.socket = os.path.join(folder, "socket")
        script = "mount --bind %s %s && exec \"$0\" \"$@\"" % (ranges, SUBUID)
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **({"CPROFD_CPUS": str(cpus)} if cpus else {})}
        self.process = subprocess.Popen(["unshare", "-m", "sh", "-c", script, CPROFD, "serve", "--allow=own", "--socket", self.socket,
                                         *("--limit=" + limit for limit in limits)], stderr=subprocess.DEVNULL, env=environment)
        until(self.listens)
        os.chmod(self.socket, 0o666)

    def listens(self):
        with socket.socket(socket.AF_UNIX) as client:
            return not client.connect_ex(self.socket)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def connect(self, uid):
        """As this user, as the kernel sees who connects."""
        return Client(self.socket, connected=freeze.connect(self, uid, []))

    def attach(self, uid, pid, *options):
        begin = time.monotonic()
        run = subprocess.run([CPROFD, "attach", str(pid), "--socket", self.socket, "-q", "-d", "0.3", "--stream", *options],
                             preexec_fn=freeze.become(uid), cwd="/", capture_output=True, env={"PATH": "/usr/bin:/bin"})
        return run, time.monotonic() - begin


def refusal(act):
    try:
        act()
    except Refused as refused:
        return refused.answer
    return {}


def is_named(answer, name, what):
    text = "%s %s" % (answer.get("error"), answer.get("hint"))
    check(answer.get("code") == "LIMIT" and "(limit %s)" % name in text and "--limit=%s=" % name in text, "%s: %s" % (what, text))


def fill(act):
    """How often until it is refused, and the refusal."""
    for n in range(1000):
        answer = refusal(act)
        if answer:
            return n, answer
    return n, {}


# --- engines ---

def connections(daemon, uids):
    """Of these uids, until one gets no engine, and that refusal."""
    clients = []
    for uid in uids:
        client = daemon.connect(uid)
        answer = refusal(lambda: client.request("sessions"))
        if answer:
            return clients, answer
        clients.append(client)
    return clients, {}


IN_NAMESPACE = """
import os, socket, sys
os.write(1, b"m"); os.read(0, 1)
os.setresgid(5, 5, 5); os.setresuid(5, 5, 5)
client = socket.socket(socket.AF_UNIX)
client.connect(sys.argv[1])
text = b""
while text.count(b"\\n") < 2:
    more = client.recv(4096)
    if not more: break
    text += more
    if b"answer" not in text: client.sendall(b'{"req":"sessions"}\\n')
os.write(1, text.split(b"\\n")[1]); os.read(0, 1)
"""


def answer_in_namespace(daemon, first):
    """Of a process of USER's in a user namespace of theirs, under another uid. Nobody's list has its range."""
    code = ("import ctypes,os\nassert not ctypes.CDLL(None).unshare(0x10000000)\n" + IN_NAMESPACE)
    child = subprocess.Popen(["/usr/bin/python3", "-c", code, daemon.socket], preexec_fn=freeze.become(USER), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             cwd="/")
    child.stdout.read(1)
    for which in "uid", "gid":
        with open("/proc/%d/%s_map" % (child.pid, which), "w") as file:
            file.write("0 %d 1\n1 %d 65536\n" % (USER, first))
    child.stdin.write(b"m")
    child.stdin.flush()
    line = os.read(child.stdout.fileno(), 1 << 16)
    return child, json.loads(line)


def engines(daemon):
    clients, answer = connections(daemon, range(SUBUIDS, SUBUIDS + 300))
    check(len(clients) == 4, "the range's 65,536 uids have 4 engines", len(clients))
    is_named(answer, "engines", "the fifth")
    run, _ = daemon.attach(SUBUIDS + 100, 1)
    check(run.returncode == 1 and b"limit engines" in run.stderr and b"--limit=engines" in run.stderr, "attach says so", run.stderr)
    answer = refusal(lambda: first_answer(daemon, USER))
    is_named(answer, "engines", "so has the range's owner")
    child, answer = answer_in_namespace(daemon, 400000)
    is_named(answer, "engines", "and who is in a user namespace of theirs")
    child.stdin.close()
    child.wait()
    return clients


def first_answer(daemon, uid):
    client = daemon.connect(uid)
    try:
        client.request("sessions")
    finally:
        client.close()


# --- what it takes ---

def engines_of(daemon):
    with open("/proc/%d/task/%d/children" % (daemon.process.pid, daemon.process.pid)) as file:
        return [int(word) for word in file.read().split()]


def tasks_of(pid):
    try:
        return len(os.listdir("/proc/%d/task" % pid))
    except OSError:
        return 0


def memory(daemon, spare, what, bound):
    maps = sum(size for name, size in maps_of(daemon.process.pid).items() if name not in spare)
    pids = engines_of(daemon)
    pss = sum(map(pss_of, pids))
    check(maps + pss <= bound, "%s: %d MB of maps and %d MB of %d engines with %d threads; at most %d MB" %
          (what, maps / MB, pss / MB, len(pids), sum(map(tasks_of, pids)), bound / MB))
    return maps


# --- the cases ---

def others(daemon, target, usual, tries, what):
    times, losses, samples = [], collections.Counter(), 0
    for _ in range(tries):
        run, took = daemon.attach(OTHER, target.pid)
        times.append(took)
        rows = [json.loads(line) for line in run.stdout.splitlines() if b'"ev":"ledger"' in line or b'"ev":"samples"' in line]
        if run.returncode:
            check(False, "%s: another user attaches" % what, run.stderr)
            return
        for row in rows:
            losses.update(row.get("losses", {}))
        samples += sum(row["ev"] == "samples" for row in rows)
    took = statistics.median(times)
    check(took <= max(2, 2 * usual) and samples, "%s: another user attaches: %.2f s, else %.2f s: %.2f" % (what, took, usual, took / usual))
    late = {name: losses.pop(name) for name in LATE if name in losses}
    check(not losses, "%s: nothing of theirs is lost%s" % (what, "; a busy machine's: %s" % late if late else ""), dict(losses))


def usual_of(daemon, target, tries):
    daemon.attach(OTHER, target.pid)
    return statistics.median(daemon.attach(OTHER, target.pid)[1] for _ in range(tries))


def everything(daemon, own, other, tries):
    """One user at all limits at once, under several uids."""
    usual = usual_of(daemon, other, tries)
    until(lambda: not engines_of(daemon))
    time.sleep(1)
    spare = set(maps_of(daemon.process.pid))
    first = daemon.connect(USER)
    n, answer = fill(lambda: first.request("attach", pid=own.pid, rate=1500, native="full", stream=False))
    check(n == 16, "16 sessions", n)
    is_named(answer, "sessions", "the seventeenth")
    listed = first.request("sessions")["sessions"]
    first.request("stop", session=listed[0]["session"])
    is_named(refusal(lambda: first.request("attach", pid=own.pid, rate=20000, stream=False)), "samples", "20 kHz more")
    until(lambda: not refusal(lambda: first.request("attach", pid=own.pid, rate=1500, native="full", stream=False)))
    more, _ = connections(daemon, range(SUBUIDS, SUBUIDS + 10))
    check(len(more) == 3, "three engines more", len(more))
    check(refusal(lambda: more[0].request("attach", pid=own.pid)).get("code") == "LIMIT", "they have no sessions of their own")
    others(daemon, other, usual, tries, "at all limits")
    memory(daemon, spare, "at all limits", BOUND)
    for client in (first, *more):
        client.close()


def small(folder):
    """Each of the other limits, met by little."""
    crowd = freeze.start(USER, freeze.THREADS, "150")
    own = freeze.start(USER, freeze.BUSY)
    try:
        with Daemon(folder, "descriptors=200/400", "maps=40/80", "memory=160") as daemon:
            client = daemon.connect(USER)
            is_named(refusal(lambda: client.request("attach", pid=crowd.pid, stream=False)), "descriptors", "a target of 150 threads")
            n, answer = fill(lambda: client.request("attach", pid=own.pid, stream=False))
            check(n == 3, "three sessions of 64 and a thread have room in 200 descriptors", n)
            is_named(answer, "descriptors", "the fourth")
            client.close()
        with Daemon(folder, "maps=40/80", "memory=160") as daemon:
            client = daemon.connect(USER)
            n, answer = fill(lambda: client.request("attach", pid=own.pid, native="full", stream=False))
            check(0 < n < 4, "sessions in 40 MB of maps", n)
            is_named(answer, "maps", "one more")
            time.sleep(1)
            memory(daemon, (), "with a limit of 40 MB, and one of 160 MB", (40 + 160) * MB + 12 * MB) # the spare one's, too
            client.close()
        with Daemon(folder, "sessions=2/4", "engines=1/2") as daemon:
            crowds = [daemon.connect(uid) for uid in (USER, OTHER)]
            for client in crowds:
                client.request("sessions")
            is_named(refusal(lambda: first_answer(daemon, OTHER - 1)), "engines", "all users' engines")
    finally:
        freeze.stop(crowd)
        freeze.stop(own)


def scarce(folder):
    """Little memory: it is said by name, to who begins and to who has begun, and nobody waits for an end that does not come."""
    own = freeze.start(USER, freeze.BUSY)
    try:
        with Daemon(folder, "memory=66") as daemon:
            client = daemon.connect(USER)
            n, answer = fill(lambda: client.request("attach", pid=own.pid, native="full", stream=False))
            check(n < 16, "sessions in 33 MB of memory", n)
            is_named(answer, "memory", "one more")
            client.close()
        with Daemon(folder, "memory=66") as daemon:
            runs = [subprocess.Popen([CPROFD, "attach", str(own.pid), "--socket", daemon.socket, "-q", "-d", "2", "--stream"], cwd="/", stdout=subprocess.DEVNULL,
                                     preexec_fn=freeze.become(USER), stderr=subprocess.PIPE, env={"PATH": "/usr/bin:/bin"}) for _ in range(4)]
            ends = [run.communicate(timeout=120)[1] for run in runs]
            # It may have no memory for words, either.
            said = all(run.returncode == 0 or b"(limit memory)" in end or b"the engine ended" in end for run, end in zip(runs, ends))
            check(said, "four at once end, or say why not", *ends)
    finally:
        freeze.stop(own)


def many_cpus(folder, own):
    """As on a machine with 128 CPUs: maps have the size that they would have there."""
    with Daemon(folder, cpus=128) as daemon:
        client = daemon.connect(USER)
        n, answer = fill(lambda: client.request("attach", pid=own.pid, native="full", stream=False))
        is_named(answer, "maps", "128 CPUs: the session after %d" % n)
        time.sleep(1)
        memory(daemon, (), "128 CPUs", BOUND + 256 * MB) # the spare one's, too
        check(n >= 4, "128 CPUs: some sessions", n)
        client.close()


def none_left(folder):
    """The daemon has no descriptor for one more."""
    with Daemon(folder) as daemon:
        daemon.attach(OTHER, 1)

        def refused():
            """What the attach before has left may still be closed, which makes room: then the limit was too high."""
            held = len(os.listdir("/proc/%d/fd" % daemon.process.pid))
            resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (held, 4096))
            return refusal(lambda: first_answer(daemon, USER))

        answer = until(refused) or {}
        check(answer.get("code") == "NO_DESCRIPTORS" and "LimitNOFILE" in answer.get("hint", ""), "no descriptors: it is said: %s" % answer)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (4096, 4096))
        check(not refusal(lambda: first_answer(daemon, USER)), "and they are served when there are some")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true", help="with 128 CPUs, too, and more tries")
    arguments = parser.parse_args()
    if os.geteuid() or not os.path.exists(SUBUID):
        skip("needs root and %s" % SUBUID)
        return finish()
    if not mount_namespaces():
        skip("no mount namespaces here")
        return finish()
    own, other = freeze.start(USER, freeze.BUSY), freeze.start(OTHER, freeze.BUSY)
    try:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            os.chmod(folder, 0o755)
            with Daemon(folder) as daemon:
                for client in engines(daemon):
                    client.close()
                until(lambda: not engines_of(daemon))
                everything(daemon, own, other, 9 if arguments.all else 3)
            small(folder)
            scarce(folder)
            none_left(folder)
            if arguments.all:
                many_cpus(folder, own)
    finally:
        freeze.stop(own)
        freeze.stop(other)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
