#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# run-live: beside
# run-live: once
"""A user's session shows nothing of a program that its target executes, if that may not be read by the user: programs that are setuid, setgid,
have file capabilities, or may be run and not read, nor of what makes itself undumpable (prctl), enters a user namespace, or was root's and became the user.
At attach, as samples begin, and in the middle; of the target itself and of a child of it (-s); CPU and wall mode, one thread and many; also of
threads that compile, whose switches are followed (bpf/watched.h). Needs root.

What is true is known from outside: the target writes down when it runs exec and when the other program has begun. No row of time has any of
what follows, until a program of the user's runs again, which is sampled anew; the last one of a session that was under way ends just before, and no module of the program is named; a secret that lies on its stack is
nowhere in the engine's memory, rings included, nor in any BPF map. The program lives until the client was served for a while, or refused: so a
try is judged unless the client was answered before exec.

    exec_races.py [--tries N] [--threads N] [--seed N] [--only KIND] [--crowds]    --crowds: N threads in each try"""
import argparse
import collections
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import bpf_maps
from lib.wait import until
from lib import CPROFD, ROOT
from lib.recording import rows
from lib.result import check_figures, finish, skip

NOBODY = 65534
SECRET, OWN_SECRET = ((0x5ec7e75ec7e70000 ^ mask).to_bytes(8, "little") * 4 for mask in (0x1111111111110000, 0x2222222222220000))
FOREVER = 1 << 63
SERVED = 0.15  # seconds that a session has for seeing what it must not
KINDS = {"setuid": (0o4755, 1, 0), "setgid": (0o2755, 0, 1), "capability": (0o755, 0, 0), "unreadable": (0o111, 0, 0),
         "back": (0o4755, 1, 0)} # setuid, and then the user's own again
# The program stays, and who it is does not: root that becomes the user, for good or not; a user namespace, which a process
# of one thread may enter.
OTHERS = {"undumpable": None, "namespace": 1, "dropped": None, "effective": None}
ROOTS = "dropped", "effective"
FOLLOWED = "compiler mine\nunit\n    file <string>\n    function build\n    has told\n    name told\n"
WAYS = ("self", "self", "fork", "spawn") # who runs exec
MOMENTS = ("attach", "begin", "middle", "attach")
# A Python program that becomes another one, or whose child does.
LAUNCHER = """
import ctypes, os, select, subprocess, sys, threading, time
PRCTL = ctypes.CDLL(None).prctl
threads, delay, log, go = (int(word) for word in sys.argv[1:5])
kind, way, crowd, compiles = sys.argv[5:9]
def build(told, then=None):  # what FOLLOWED calls a compile
    for i in range(3):
        sum(range(3000))
        time.sleep(0.0007)
    if then:
        then()
def work(n):
    if compiles:
        build("work")
    else:
        sum(range(n))
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
    elif way == "spawn":
        child = subprocess.Popen([kind, str(log)], pass_fds=[log])
        os.write(log, b"%d\\n" % child.pid)
        child.wait()
        os._exit(0)
    else:
        os.execv(kind, [kind, str(log)])
def burn():
    while True:
        work(2000)
        time.sleep(0.02)
child = os.fork() if way == "fork" else 0
if child:
    os.waitpid(child, 0)
    os._exit(0)
threading.stack_size(65536)
for i in range(min(threads, PYTHON_THREADS) - 1):
    threading.Thread(target=burn, daemon=True).start()
# More than a few would keep each other, and the one that runs exec, from the interpreter's lock.
if threads > PYTHON_THREADS:
    made = ctypes.CDLL(crowd).crowd(threads - PYTHON_THREADS)
    if made != threads - PYTHON_THREADS:
        os._exit(4)
os.write(log, b"%d\\n" % os.getpid())
while not select.select([go], [], [], 0.0005)[0]:  # a machine with other work
    work(10000)
end = time.monotonic() + delay / 1e6
while time.monotonic() < end:
    work(1000)
os.write(log, b"%d\\n" % time.monotonic_ns())
if compiles:
    build("last", becomes)
else:
    becomes()
# Who began as root shows nothing of before, either.
os.write(log, b"%d\\n" % (1 if kind in ("dropped", "effective") else time.monotonic_ns()))
end = time.monotonic() + 60
while time.monotonic() < end:
    work(1000)
os._exit(0)
""".replace("PYTHON_THREADS", "8")


def become():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def build(folder):
    source = os.path.join(ROOT, "tests/targets/exec_races.c")
    program = os.path.join(folder, "exec_races")
    subprocess.run(["gcc", "-O1", "-g", "-o", program, source, "-lpthread"], check=True)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", os.path.join(folder, "crowd.so"), source, "-lpthread"], check=True)
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


class Stream:
    """Of a session: rows' ends, by process, those of waits, and modules of the guarded program."""

    def __init__(self, text):
        self.begin, self.named, self.losses, self.waits, self.rows = 0, 0, {}, [], collections.defaultdict(list)
        pids, owners = {}, {}
        for line in text.splitlines():
            try:
                event = json.loads(line)
            except ValueError:
                continue
            kind = event.get("ev")
            if kind == "session":
                self.begin = event["monotonic"]
            elif kind == "epoch":
                pids, owners = {}, {}
            elif kind == "process":
                pids[event["id"]] = event["pid"]
            elif kind == "thread":
                owners[event["id"]] = pids[event["process"]]
            elif kind == "samples":
                for at, thread, cause, wall, cpu, stack in rows(event, "thread", "cause", "wall", "cpu", "stack"):
                    self.rows[owners.get(thread)].append((at, thread, cause, wall, cpu, stack))
                    if cause:
                        self.waits.append(at)
            elif kind == "thread_end" and (event["wall"] or event["cpu"]): # tells of time, too: but for what the scheduler had not counted at the exec
                self.rows[owners.get(event["id"])].append((event["time"] - 10000000, event["id"], "end", event["wall"], event["cpu"], 0))
            elif kind == "ledger":
                self.losses = event["losses"]
            self.named += kind in ("functions", "modules") and "guarded" in line


def number(log):
    return int(log.readline() or 0)


def became(case, log, pid):
    """When what came of it had begun, until when it was somebody else's, and who that is."""
    words = sorted(number(log) for _ in range(1 + (case["way"] == "spawn") + 2 * (case["kind"] == "back"))) # the pid is the least
    if case["way"] == "spawn":
        pid = words.pop(0)
    return words[0], words[1] if case["kind"] == "back" else FOREVER, pid


def served(client, output):
    """Waits until a session has been under way for a while. False: it is refused."""
    until(lambda: client.poll() is not None or b'"session"' in os.pread(output.fileno(), 65536, 0), pause=0.01)
    if client.poll() is None:
        time.sleep(SERVED)
    return client.poll() is None


def end(pid, target):
    for victim in pid, target.pid:
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            pass
    target.wait()


def attempt(folder, socket, engine_of, case, totals):
    """One target, one attach to it `delay` us before it, or a child of it, runs exec."""
    kind, way = case["kind"], case["way"]
    reader, writer = os.pipe()
    waits, go = os.pipe()
    target = subprocess.Popen(["/usr/bin/python3", "-c", LAUNCHER, str(case["threads"]), str(case["delay"]), str(writer), str(waits),
                               kind if kind in OTHERS else os.path.join(folder, "guarded_" + kind), way, os.path.join(folder, "crowd.so"), "compiles" * case["followed"]],
                              preexec_fn=None if kind in ROOTS else become, pass_fds=[writer, waits], cwd="/")
    os.close(writer)
    os.close(waits)
    log = os.fdopen(reader)
    pid = number(log) # its threads are there
    output = tempfile.TemporaryFile()
    client = subprocess.Popen([os.path.join(folder, "cprofd"), "attach", str(target.pid), "--socket", socket, "-d", "30", "-r", "4999",
                               "--mode=" + case["mode"], "--stream", *([] if way == "self" else ["-s"]),
                               "--rules", os.path.join(folder, "followed.rules")], preexec_fn=become,
                              stdout=output, stderr=subprocess.PIPE, cwd="/", env={"PATH": "/usr/bin:/bin"})
    started = time.monotonic_ns()
    if case["middle"]:
        served(client, output)
    os.close(go) # what is closed can be read
    before = number(log)
    early = client.poll() is not None
    begun, over, pid = became(case, log, pid)
    if served(client, output):
        time.sleep(SERVED) # since exec, too
    leaked = in_maps = 0
    if kind not in OTHERS:
        secret = SECRET if kind in KINDS else OWN_SECRET
        leaked = any(memory_has(engine, secret) for engine in engine_of())
        in_maps = bpf_maps.hold(secret) if case["maps"] else 0
    # The owner of a user namespace may look into it: who was there when it was asked about is sampled.
    allowed = kind == "namespace" and not subprocess.run(["head", "-c1", "/proc/%d/auxv" % pid], preexec_fn=become, stdout=subprocess.DEVNULL,
                                                        stderr=subprocess.DEVNULL).returncode
    end(pid, target)
    try:
        err = client.communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        client.kill()
        err = client.communicate()[1]
        totals["stuck"] += 1
    log.close()
    with output:
        output.seek(0)
        stream = Stream(output.read().decode(errors="replace"))
    own = stream.rows[pid]
    ends = [row[0] for row in own if row[2] != "end"]
    late = [row for row in own if row[0] > begun and row[0] - row[3] < over]
    totals["tries"] += 1
    totals["waited before"] += any(at < before for at in stream.waits)
    totals["judged"] += bool(begun) and not early
    totals["refused"] += client.returncode != 0
    totals["why"] = err.decode()[:300] if client.returncode else totals["why"]
    totals["not begun"] += not begun
    totals["allowed" if allowed else "samples"] += len(late)
    totals["again"] += any(end > over for end in ends)
    if late and not allowed and kind != "own":
        print("  ", case, "lasted", over - begun, *[(row[0] - begun, *row[1:]) for row in late][:8], flush=True)
    totals["late"] = max(totals["late"], (max(row[0] for row in late) - begun) // 1000 if late and not allowed else 0) # us
    totals["named"] += stream.named if kind != "back" else 0 # its own has the same functions
    totals["secrets"] += leaked
    totals["in maps"] += in_maps
    totals["not_authorised"] += stream.losses.get("not_authorised", 0)
    # Up to there it was the user's, and its time is told.
    if stream.begin and before - stream.begin > 100000000 and begun > 1 and way != "spawn" and not stream.losses.get("ring_full"):
        totals["under way"] += 1
        totals["short"] += not ends or max(ends) < (stream.begin + before) / 2 # a busy machine
    totals["in the middle" if stream.begin and stream.begin < before else "at attach"] += 1
    return stream.begin - started if stream.begin else 0


def may_enter_a_user_namespace():
    return not subprocess.run(["/usr/bin/python3", "-c", "import ctypes, os; os._exit(bool(ctypes.CDLL(None).unshare(0x10000000)))"],
                              preexec_fn=become, stderr=subprocess.DEVNULL).returncode


class Usual:
    """How long an attach to so many threads takes here, in us."""

    def __init__(self):
        self.took = collections.defaultdict(list)

    def add(self, threads, ns):
        if ns:
            self.took[threads].append(ns // 1000)

    def of(self, threads):
        took = sorted(self.took[threads][-9:])
        return took[len(took) // 2] if took else 80000 + 100 * threads


def case_of(chance, kind, moment, threads, usual):
    way = chance.choice(WAYS)
    if kind in OTHERS and way == "spawn" or kind in ROOTS:
        way = "self" # a child of root's is below root's
    if kind in ROOTS: # is refused as long as it is root's
        moment = "attach"
    takes = 30000 if kind in ROOTS else usual.of(threads)
    delay = {"middle": 1000, "attach": chance.randrange(takes), "begin": max(0, takes + chance.randrange(-takes // 8, takes // 8))}[moment]
    return {"kind": kind, "way": way, "middle": moment == "middle", "mode": chance.choice(("cpu", "wall")), "delay": delay, "threads": threads,
            "maps": chance.random() < 0.25, "followed": False}


def tries(chance, kind, arguments, n, attempt, usual):
    totals = collections.Counter()
    for i in range(n):
        threads = OTHERS.get(kind) or (arguments.threads if arguments.crowds else chance.choice((1, arguments.threads, 8)))
        usual.add(threads, attempt(case_of(chance, kind, MOMENTS[i % len(MOMENTS)], threads, usual), totals))
        if arguments.verbose:
            print(kind, dict(totals), flush=True)
    bad = any(totals[what] for what in ("samples", "named", "secrets", "in maps", "stuck"))
    judged = totals["judged"] or kind in ROOTS # which chance may refuse all of
    check_figures(not bad and 2 * totals["short"] <= max(4, totals["under way"]) and judged, "%s: nothing of it" % kind, dict(totals))


def followed(chance, kind, attempt):
    """... by a thread that compiles, among others, in the middle of a session: it was followed before, and nothing is told since."""
    totals = collections.Counter()
    for mode in "cpu", "wall":
        for threads in (1,) if OTHERS.get(kind) else (1, 8):
            way = "self" if kind in OTHERS else chance.choice(WAYS)
            attempt({"kind": kind, "way": way, "middle": True, "mode": mode, "threads": threads, "delay": 50000, "maps": True, "followed": True}, totals)
    bad = any(totals[what] for what in ("samples", "named", "secrets", "in maps", "stuck"))
    served = totals["tries"] - totals["refused"] # a machine with other work: it waited for an exec for too long
    check_figures(not bad and totals["waited before"] >= served >= totals["tries"] / 2 and totals["again"] >= served * (kind == "back"), "%s while its switches are followed: nothing of it" % kind, dict(totals))


def cpu_time(pid):
    with open("/proc/%d/stat" % pid) as stat:
        return sum(map(int, stat.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")


def seen_on(folder, way, whose, program, as_whom=None, where=()):
    """The kernel takes the timers of who runs a setuid program. Sampled on are who it becomes again, and its parent, whose timer it had
    inherited; for root that program, too."""
    launcher = """
import os, subprocess, sys, time
input()
if sys.argv[1] == "exec":
    os.execv(sys.argv[2], sys.argv[2:])
subprocess.run(sys.argv[2:], pass_fds=[1])
while time.process_time() < 1.5: # more than clocks of CPUs tick for a fork (births.c)
    pass
"""
    target = subprocess.Popen(["/usr/bin/python3", "-c", launcher, way, os.path.join(folder, "guarded_back"), "1"], preexec_fn=become, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
    with tempfile.TemporaryFile() as output:
        client = subprocess.Popen([program, "attach", str(target.pid), *where, "-s", "-d", "60", "-r", "999", "--stream"], stdout=output,
                                  stderr=subprocess.DEVNULL, preexec_fn=as_whom, cwd="/")
        served(client, output)
        target.stdin.write(b"\n")
        target.stdin.close()
        for _ in range(3): # it has begun; the other program is over; the user's own has begun
            number(target.stdout)
        again = children(target.pid)[0] if way == "spawn" else target.pid
        until(lambda: cpu_time(again) > 0.4)
        os.kill(again, signal.SIGKILL)
        target.wait()
        client.wait(60)
        output.seek(0)
        stream = Stream(output.read().decode(errors="replace"))
    sampled = sum(row[4] for rows_ in stream.rows.values() for row in rows_ if row[5] and not row[2])
    check_figures(sampled > (1.5e9 if way == "spawn" else 2e8), "who ran a setuid program (%s) is sampled on, by %s" % (way, whose),
                  {"CPU ms with samples": sampled // 1000000, **stream.losses})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tries", type=int, default=27)
    parser.add_argument("--threads", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--crowds", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--only", choices=[*KINDS, *OTHERS])
    arguments = parser.parse_args()
    if os.geteuid():
        skip("needs root")
        return finish()
    # A session has a descriptor for each thread, and a user a quarter of the daemon's.
    arguments.threads = min(arguments.threads, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 4 - 100)
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        build(folder)
        with open(os.path.join(folder, "followed.rules"), "w") as file:
            file.write(FOLLOWED)
        os.chmod(file.name, 0o644)
        for program in "cprofd", "cprofd-engine":
            shutil.copy(os.path.join(os.path.dirname(CPROFD), program), os.path.join(folder, program))
        socket = os.path.join(folder, "socket")
        daemon = subprocess.Popen([os.path.join(folder, "cprofd"), "serve", "--allow=own", "--socket", socket], stderr=subprocess.DEVNULL)
        try:
            until(lambda: os.path.exists(socket))
            os.chmod(socket, 0o666)

            def attempt_here(case, totals):
                return attempt(folder, socket, lambda: children(daemon.pid), case, totals)

            own, usual = collections.Counter(), Usual()
            for mode in ("cpu", "wall"):
                for way in ("self", "fork", "spawn"):
                    case = {"kind": "own", "way": way, "middle": True, "mode": mode, "threads": 2, "delay": 1000, "maps": True, "followed": False}
                    usual.add(2, attempt_here(case, own))
            check_figures(own["samples"] > 150 and not own["short"], "a program of the user's own is sampled on after exec", dict(own))
            kinds = [arguments.only] if arguments.only else [*KINDS, *OTHERS]
            if "namespace" in kinds and not may_enter_a_user_namespace():
                kinds.remove("namespace")
                skip("a user may make no user namespace here (a chroot, or kernel.unprivileged_userns_clone)")
            for kind in kinds:
                tries(chance, kind, arguments, max(1, arguments.tries // len(kinds)), attempt_here, usual)
                if kind not in ROOTS:
                    followed(chance, kind, attempt_here)
            check_figures(daemon.poll() is None, "the daemon goes on")
            for way in ("exec", "spawn"):
                seen_on(folder, way, "root", CPROFD)
                seen_on(folder, way, "its user", os.path.join(folder, "cprofd"), become, ["--socket", socket])
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(30)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
