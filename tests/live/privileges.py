#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# run-live: beside
"""The privileges of each process of cprofd while it works, as the kernel reports them (/proc/PID/status).

    privileges.py [NAME ...]     only the tests whose names contain one of these. Needs root.
"""
import contextlib
import grp
import json
import os
import pty
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from lib.command import BUSY, CPROFD, NOBODY, PYTHON, ROOT, Skip, as_nobody, cprofd, daemon, environment, expect, fails, folder, names, profile, sampled, target
from lib.client import Client, Refused
from lib.recording import Batches, rows
from lib.wait import asleep, mount_namespaces, until

# Its dump is larger than a pipe: who prints it waits there.
THREADS = """
import threading
def deep(n, event):
    if n:
        deep(n - 1, event)
    else:
        event.wait()
event = threading.Event()
for i in range(100):
    threading.Thread(target=deep, args=(20, event), daemon=True).start()
print("up", flush=True)
event.wait()
"""
CAPABILITIES = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")


def somebody():
    """A user with groups of their own, if there is one."""
    users = [u for u in pwd.getpwall() if 1000 <= u.pw_uid < NOBODY]
    return users[0] if users else pwd.getpwuid(NOBODY)


def as_sudo(user):
    return environment(SUDO_UID=str(user.pw_uid), SUDO_GID=str(user.pw_gid), SUDO_USER=user.pw_name, SUDO_COMMAND="cprofd")


def status(pid):
    with open(f"/proc/{pid}/status") as file:
        return dict(line.rstrip("\n").split(":", 1) for line in file)


def holds(pid):
    """The sets of capabilities that are not empty."""
    found = status(pid)
    return {name: found[name].strip() for name in CAPABILITIES if int(found[name], 16)}


def rightless(client, uid, what, but=0):
    """Once it reads, it has no right and no way to one: `uid` four times, no capability but these."""
    def dropped():
        return client.poll() is not None or status(client.pid)["NoNewPrivs"].strip() == "1"
    expect(until(dropped) and client.poll() is None, what + " keeps its rights, or ended", client.poll())
    found = status(client.pid)
    expect(found["Uid"].split() == [str(uid)] * 4, what + " has another uid", found["Uid"])
    for name in CAPABILITIES:
        want = but if name in ("CapPrm", "CapEff", "CapBnd") else 0
        expect(int(found[name], 16) == want, what + " keeps " + name, found[name])
    return found


def as_user(client, user, what):
    found = rightless(client, user.pw_uid, what)
    groups = sorted(os.getgrouplist(user.pw_name, user.pw_gid))
    expect(found["Gid"].split() == [str(user.pw_gid)] * 4, what + " has another gid", found["Gid"])
    expect(sorted(map(int, found["Groups"].split())) == groups, what + " has other groups", found["Groups"], groups)


def ends(client, sign=signal.SIGINT):
    client.send_signal(sign)
    out, err = client.communicate(timeout=60)
    expect(client.returncode == 0, "exit status %d" % client.returncode, err.decode())
    return out


def start(*args, work, env, **more):
    return subprocess.Popen([CPROFD, *map(str, args)], cwd=work, env=env, stderr=subprocess.PIPE, **more)


# --- the broker ---

def documented():
    """The table of docs/privileges.md, as a mask."""
    with open(os.path.join(ROOT, "docs/privileges.md")) as file:
        rows = re.findall(r"^\| (`CAP_.*?`) \|", file.read().split("## What the broker needs")[1].split("\n## ")[0], re.M)
    with open("/usr/include/linux/capability.h") as file:
        numbers = {name: int(n) for name, n in re.findall(r"^#define (CAP_[A-Z_]+)\s+(\d+)$", file.read(), re.M)}
    return sum(1 << numbers[name] for row in rows for name in re.findall(r"CAP_[A-Z_]+", row))


def is_broker(pid, what):
    """It has what is documented, as far as root has it here, and no way to more."""
    found, own = status(pid), status(os.getpid())
    for name in "CapPrm", "CapEff", "CapBnd":
        want = documented() & int(own[name], 16)
        expect(int(found[name], 16) == want, f"{what}: {name} is not what is documented", found[name], hex(want))
    expect(not int(found["CapInh"], 16) and not int(found["CapAmb"], 16), what + " has capabilities to hand on")
    expect(found["NoNewPrivs"].strip() == "1", what + " may gain rights by exec")


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


def test_broker_of_a_client():
    with folder() as work, target() as process:
        client = start("attach", process.pid, "-o", "a.json", work=work, env=environment())
        rightless(client, 0, "attach")
        brokers = children(client.pid)
        expect(len(brokers) == 1, "not one broker", brokers)
        is_broker(brokers[0], "the broker of attach")
        engines = children(brokers[0])
        expect(len(engines) == 1 and not holds(engines[0]), "not one engine without capabilities", engines)
        ends(client)


def test_broker_of_a_daemon():
    with folder() as work, daemon(os.path.join(work, "socket")) as broker, target() as process:
        client = start("attach", process.pid, "-o", "a.json", "--socket", "socket", work=work, env=environment())
        rightless(client, 0, "attach")
        is_broker(broker.pid, "the daemon")
        ends(client)


def test_engine_beside_a_daemon():
    """--socket none: no engine that others use sees it."""
    with folder() as work, daemon(os.path.join(work, "socket")) as broker, target() as process:
        client = start("attach", process.pid, "-o", "a.json", "--socket", "none", work=work, env=environment(CPROFD_SOCKET=os.path.join(work, "socket")))
        rightless(client, 0, "attach with --socket none")
        expect(len(children(client.pid)) == 1 and not children(broker.pid), "a daemon was asked", children(client.pid), children(broker.pid))
        ends(client)
        expect(os.path.getsize(os.path.join(work, "a.json")) > 100, "no file")


# --- the engine's program ---

def places(pid):
    """Where files, heap and stack begin in its memory, and the files that are there."""
    with open(f"/proc/{pid}/maps") as maps:
        rows = [line.split(None, 5) for line in maps]
    return {(row[5].strip(), row[0].split("-")[0]) for row in rows if len(row) > 5 and not row[5].startswith("[v")}


def engine_of(client):
    broker, = children(client.pid)
    engine, = until(lambda: children(broker))
    return broker, engine


def test_engine_is_a_program_of_its_own():
    """Executed: nothing lies where it lies in the broker, and the broker's program is not there."""
    with folder() as work, target() as process:
        client = start("attach", process.pid, "-o", "a.json", work=work, env=environment())
        rightless(client, 0, "attach")
        broker, engine = engine_of(client)
        program = os.path.realpath(CPROFD) + "-engine"
        expect(os.readlink(f"/proc/{engine}/exe") == program, "another program", os.readlink(f"/proc/{engine}/exe"))
        expect(not places(broker) & places(engine), "it has the broker's addresses", places(broker) & places(engine))
        expect(not {path for path, _ in places(engine)} & {os.path.realpath(CPROFD), "anon_inode:bpf-map"}, "it has the broker's memory", places(engine))
        # Of root's in /proc is who is not dumpable; and from the first instruction on, where the program cannot be read.
        expect(os.stat(f"/proc/{engine}/mem").st_uid == 0, "it is dumpable")
        expect(os.stat(program).st_mode & 0o077 == 0o011, "others may read the program", oct(os.stat(program).st_mode))
        with open(f"/proc/{engine}/cmdline") as line:
            expect(line.read().split("\0")[0] == "cprofd-engine", "another name")
        ends(client)


def test_engine_of_a_program_alone():
    """A copy of cprofd without its engine's program executes itself; never what somebody else put beside it."""
    def plant(path, uid, mode):
        shutil.copy("/bin/true", path)
        os.chown(path, uid, uid)
        os.chmod(path, mode)

    with folder() as work, target() as process:
        alone, beside = os.path.join(work, "cprofd"), os.path.join(work, "cprofd-engine")
        shutil.copy(CPROFD, alone)
        for planted in (), (NOBODY, 0o755), (0, 0o777):
            if planted:
                plant(beside, *planted)
            client = subprocess.Popen([alone, "attach", str(process.pid), "-o", "a.json"], cwd=work, env=environment(), stderr=subprocess.PIPE)
            rightless(client, 0, "attach")
            _, engine = engine_of(client)
            expect(os.readlink(f"/proc/{engine}/exe") == os.path.realpath(alone), "another program", planted)
            expect(os.stat(f"/proc/{engine}/mem").st_uid == 0, "it is dumpable")
            ends(client)
            os.remove(os.path.join(work, "a.json"))


def test_engine_under_a_process_limit():
    """The engine's user has more processes than the caller may have: that is no reason not to execute it, where it may be
    lifted."""
    allowed = int(status(os.getpid())["CapEff"], 16) >> 24 & 1  # CAP_SYS_RESOURCE
    with target() as process, target(uid=NOBODY), target(uid=NOBODY):
        run = cprofd("dump", process.pid, prefix=("prlimit", "--nproc=1"))
        if allowed or not run.returncode:
            fails(0, run=run)
        else: # it is said
            fails(1, "cannot be executed", run=run)


# --- the service ---

# What ProtectSystem=strict, PrivateTmp= and CacheDirectory= make of the file system; and a user that nobody else is.
SERVICE = """
mount --make-rprivate /
for folder in {writable}; do mount -t tmpfs -o mode=1777 tmpfs $folder; done
mount -t tmpfs -o mode=0755 tmpfs {cache}
sed '/^cprofd:/d' /etc/passwd > {work}/passwd; echo 'cprofd:x:{uid}:{uid}::/:/usr/sbin/nologin' >> {work}/passwd
mount --bind {work}/passwd /etc/passwd
mount --bind {run} {run}
mount -o remount,bind,ro /
if [ -z "{writable}" ]; then for folder in /tmp /var/tmp; do mount --bind $folder $folder; mount -o remount,bind,ro $folder; done; fi
exec env CACHE_DIRECTORY={cache} {cprofd} serve --socket {run}/socket
"""
ENGINES_UID = 64123


@contextlib.contextmanager
def service(writable):
    with tempfile.TemporaryDirectory(dir="/run", prefix="cprofd-") as work:
        os.chmod(work, 0o755)
        for name in "run", "cache":
            os.mkdir(os.path.join(work, name))
        program = os.open(CPROFD, os.O_RDONLY) # its path may lie below what is mounted there
        script = SERVICE.format(work=work, run=work + "/run", cache=work + "/cache", writable=writable, uid=ENGINES_UID,
                                cprofd="/proc/self/fd/%d" % program)
        broker = subprocess.Popen(["unshare", "-m", "sh", "-ec", script], stderr=subprocess.PIPE, env=environment(TMPDIR=""), pass_fds=[program])
        os.close(program)
        try:
            expect("listens at" in (line := broker.stderr.readline().decode()), "it did not start", line)
            yield work + "/run/socket", broker
        finally:
            broker.terminate()
            broker.wait(60)
            broker.stderr.close()


SPOOL = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
os.setgroups([])
os.setgid(int(sys.argv[4]))
os.setuid(int(sys.argv[4]))
from lib.client import Client
client = Client(sys.argv[2])
session = client.request("attach", pid=int(sys.argv[3]), spool=True, stream=False)["session"]
print("up", flush=True)
sys.stdin.readline()
print(client.request("snapshot", session=session)["bytes"])
"""


def test_service_spools():
    """A session is recorded and its snapshot made under the unit's settings; and where no /tmp may be written, either."""
    if not mount_namespaces():
        raise Skip("no mount namespaces here")
    for writable in "/tmp /var/tmp", "":
        for uid in NOBODY, 0:
            with service(writable) as (socket, broker), target(uid=uid) as process:
                client = subprocess.Popen([PYTHON, "-c", SPOOL, os.path.dirname(os.path.abspath(__file__)), socket, str(process.pid), str(uid)],
                                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(CPROFD=CPROFD))
                expect(client.stdout.readline() == b"up\n", "it cannot attach", client.stderr)
                engine, = children(broker.pid)
                expect(status(engine)["Uid"].split() == [str(uid or ENGINES_UID)] * 4, "the engine is somebody else", status(engine)["Uid"])
                expect(status(engine)["Gid"].split() == [str(NOBODY)] * 4, "the engine has another group", status(engine)["Gid"])
                time.sleep(0.5)
                out, err = client.communicate(b"\n", timeout=60)
                expect(client.returncode == 0 and int(out) > 500, "no snapshot", writable, uid, err.decode())


def test_who_is_kept_out():
    with folder() as work, daemon(os.path.join(work, "socket")):
        os.chmod(os.path.join(work, "socket"), 0o660)
        group = grp.getgrall()[-1]
        os.chown(os.path.join(work, "socket"), 0, group.gr_gid)
        run = cprofd("status", "--socket", os.path.join(work, "socket"), prefix=as_nobody())
        fails(1, "keep you out", "usermod -aG " + group.gr_name, run=run)
        run = cprofd("status", "--socket", os.path.join(work, "socket"),
                     prefix=("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", f"--groups={group.gr_gid}"))
        fails(0, run=run)


# --- who asks ---

FEWER = {
    "root without CAP_SYS_PTRACE": ("setpriv", "--bounding-set", "-sys_ptrace"),
    "root without any capability": ("setpriv", "--bounding-set", "-all"),
    "root of a user namespace": ("unshare", "--user", "--map-root-user"),
}

SESSIONS = "import sys; from lib import client as e; print(len(e.Client(sys.argv[1]).request('sessions')['sessions']))"


def test_root_without_its_capabilities():
    """What the kernel refuses to such a root is not granted by a daemon, nor may it see sessions of root's."""
    with folder() as work, target(uid=NOBODY) as process, target() as own, daemon(os.path.join(work, "socket")):
        path = os.path.join(work, "socket")
        fails(0, run=cprofd("dump", process.pid, "--socket", path))
        recorded = Client(path)
        recorded.request("attach", pid=process.pid, stream=False)
        for name, prefix in FEWER.items():
            if subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL).returncode:
                print("    %s: there can be none here (is / no mount point?)" % name)
                continue
            for of in process, own:
                read = subprocess.run([*prefix, "head", "-c0", f"/proc/{of.pid}/mem"], stderr=subprocess.PIPE)
                expect(read.returncode and b"denied" in read.stderr, "the kernel lets in " + name, read.stderr)
                for command in (["dump"], ["attach", "-d", "1", "-o", "none.json"]):
                    run = cprofd(*command, of.pid, "--socket", path, cwd=work, prefix=prefix)
                    expect(run.returncode == 1, "%s: %s is served" % (name, command[0]), run.out, run.err)
            seen = subprocess.run([*prefix, PYTHON, "-c", SESSIONS, path], stdout=subprocess.PIPE, cwd=os.path.dirname(__file__))
            expect(seen.stdout == b"0\n", name + " sees sessions of root's", seen.stdout)
        recorded.close()
        expect(not os.path.exists(os.path.join(work, "none.json")), "a file was written")


def test_client_that_ended():
    """Whoever connected is gone when the daemon accepts: nobody can tell what it might see."""
    with folder() as work, target() as process, daemon(os.path.join(work, "socket")) as broker:
        path = os.path.join(work, "socket")
        end = socket.socket(socket.AF_UNIX)
        broker.send_signal(signal.SIGSTOP)
        try:
            subprocess.run([PYTHON, "-c", "import socket, sys; socket.socket(fileno=int(sys.argv[1])).connect(sys.argv[2])",
                            str(end.fileno()), path], pass_fds=[end.fileno()], check=True)
        finally:
            broker.send_signal(signal.SIGCONT)
        client = Client(path, connected=end)
        for request in "attach", "dump":
            try:
                client.request(request, pid=process.pid)
                expect(False, request + " of one that has ended is served")
            except Refused as refused:
                expect(refused.code == "CLIENT_ENDED", request + " is refused with other words", refused)
        client.close()


# --- what root's engine may ask for ---

CHILD = "import ctypes, time; ctypes.CDLL(None).prctl(1, 9); time.sleep(600)"  # PR_SET_PDEATHSIG
PARENT = "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', %r])\nprint('up', flush=True)\nchild.wait()" % CHILD


def refused(client, code, **keys):
    client.named.add(keys["pid"])  # by nobody: it is asked for as it is
    for request in "attach", "dump":
        try:
            client.request(request, **keys)
            expect(False, request + " is served, expected " + code)
        except Refused as refused:
            expect(refused.code == code, "%s is refused with other words than %s" % (request, code), refused)


def test_root_names_its_targets():
    """What no client named is out of reach of root's engine; what was named, and what is below that, is not."""
    with folder() as work, target() as process, target(uid=NOBODY) as users, target(PARENT) as parent, \
            daemon(os.path.join(work, "socket")):
        path = os.path.join(work, "socket")
        child = until(lambda: children(parent.pid))[0]
        asleep(child)
        client = Client(path)
        for pid in process.pid, users.pid, parent.pid, child, 1:
            refused(client, "NOT_NAMED", pid=pid)
        refused(client, "NO_PROCESS", pid=1 << 22)
        other = Client(path, pids=[users.pid, parent.pid])
        sessions = [other.request("attach", pid=pid, stream=False, starting=True)["session"] for pid in (users.pid, parent.pid)]
        other.named.add(child)  # below one that was named
        other.request("dump", pid=child)
        refused(other, "NOT_NAMED", pid=process.pid)
        # A reader that comes later names nothing, and sees root's sessions.
        reader = Client(path)
        expect({row["session"] for row in reader.request("sessions")["sessions"]} == set(sessions), "not root's sessions")
        reader.request("subscribe", session=sessions[0])
        for end in client, other, reader:
            end.close()
        for address in b"\0cprofd\0", b"\0cprofd\0" + bytes(16), b"\0cprofd\0" + os.urandom(16) + b"\1\0\0", b"\0cprofd " + os.urandom(20):
            end = socket.socket(socket.AF_UNIX)
            end.bind(address)
            end.connect(path)
            client = Client(path, connected=end)
            refused(client, "NOT_NAMED", pid=process.pid)
            client.close()


# --- what the administrator allows ---

# As the first arguments of `sh -c`: settings of the machine that this daemon alone sees.
SETTINGS = """
mount -t tmpfs tmpfs /proc/sys/kernel && mkdir /proc/sys/kernel/yama && touch /proc/sys/kernel/osrelease &&
    echo 0 > /proc/sys/kernel/yama/ptrace_scope && echo 2 > /proc/sys/kernel/perf_event_paranoid && exec "$@"
"""
HIDDEN, NO_YAMA = "hidden", "no Yama"


def settings(broker, scope, paranoid):
    for name, value in (("yama/ptrace_scope", scope), ("perf_event_paranoid", paranoid)):
        path = os.path.join("/proc", str(broker.pid), "root", "proc/sys/kernel", name)
        if value == NO_YAMA:
            shutil.rmtree(os.path.dirname(path))
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write("%s\n" % value)
        if value == HIDDEN:
            os.unlink(path)


# --allow, ptrace_scope, perf_event_paranoid; then what a user's attach, dump and record say, and what root's attach says.
SCOPE, PERF, ROOT_ALONE = "ptrace_scope", "perf_event_paranoid", "serves root alone"
POLICIES = [
    ("ptrace", 0, 2, None, None, None, None),
    ("ptrace", 1, 2, SCOPE, SCOPE, None, None),
    ("ptrace", 2, 2, SCOPE, SCOPE, SCOPE, None),
    ("ptrace", 3, 2, SCOPE, SCOPE, SCOPE, SCOPE),
    ("ptrace", HIDDEN, 2, SCOPE, SCOPE, SCOPE, None),
    ("ptrace", NO_YAMA, 2, None, None, None, None),
    ("ptrace", 0, 3, PERF, None, PERF, None),
    ("ptrace", 0, HIDDEN, PERF, None, PERF, None),
    ("own", 2, 4, None, None, None, None),
    ("root", 0, 0, ROOT_ALONE, ROOT_ALONE, ROOT_ALONE, None),
]


SPIN = """
def %s():
    for i in range(10000):
        pass
print("up", flush=True)
while True:
    %s()
"""


def attached_programs(broker):
    """What the kernel calls the programs that the broker has attached somewhere."""
    found = set()
    for fd in os.listdir(f"/proc/{broker}/fdinfo"):
        with contextlib.suppress(OSError), open(f"/proc/{broker}/fdinfo/{fd}") as file:
            text = file.read()
            found |= set(re.findall(r"^prog_id:\s*(\d+)", text, re.M)) if "link_type:" in text else set()
    return found


def session(broker, path, process, name, prefix=()):
    """The programs of a session that must see this function, and no other of SPIN's."""
    with folder(NOBODY) as work:
        client = subprocess.Popen([*prefix, CPROFD, "attach", "-q", str(process.pid), "-d", "0.5", "--mode", "wall", "--socket", path, "-o", "a.json"],
                                  cwd=work, env=environment(), stderr=subprocess.PIPE)
        try:
            programs = until(lambda: attached_programs(broker) or client.poll() is not None)
            err = client.communicate(timeout=60)[1].decode()
            expect(client.returncode == 0 and isinstance(programs, set), "no session", err)
        finally:
            client.kill()
        seen = names(os.path.join(work, "a.json")) & {"first", "second", "third"}
        expect(seen == {name}, "it saw other functions", seen)
    expect(until(lambda: not attached_programs(broker)), "programs stay attached")
    return programs


def test_sampler_of_a_session_before():
    """A sampler that is loaded serves the next session of the same client, with nothing of the one before, and nobody else's."""
    with folder() as run_dir, target(SPIN % ("first", "first")) as one, target(SPIN % ("second", "second")) as two, \
            target(SPIN % ("third", "third"), uid=NOBODY) as theirs:
        path = os.path.join(run_dir, "s.sock")
        with daemon(path) as process:
            roots, again = session(process.pid, path, one, "first"), False
            for turn in range(8):  # it is emptied a moment after a session's end
                until(lambda: not children(process.pid))
                time.sleep(0.3)
                found = session(process.pid, path, one if turn % 2 else two, "first" if turn % 2 else "second")
                again, roots = bool(found & roots), roots | found
                if again:
                    break
            expect(again, "each session loaded a sampler")
            until(lambda: not children(process.pid))
            time.sleep(0.3)
            expect(not session(process.pid, path, theirs, "third", as_nobody()) & roots, "another client has the sampler of root's session")


def test_policy():
    """Settings of the machine, and of the daemon, decide about users as they would without it."""
    if not mount_namespaces():
        raise Skip("no mount namespaces here")
    prefix = ("unshare", "--mount", "sh", "-c", SETTINGS, "sh")
    with folder(NOBODY) as work, folder() as place, target(uid=NOBODY) as process, contextlib.ExitStack() as daemons:
        brokers = {}
        for allow, scope, paranoid, *wanted in POLICIES:
            path = os.path.join(place, allow)
            if allow not in brokers:
                brokers[allow] = daemons.enter_context(daemon(path, prefix=prefix, allow=allow))
            settings(brokers[allow], scope, paranoid)
            user, of = as_nobody(), ("--socket", path)
            tried = [(("attach", process.pid, "-d", "0.2", "-o", "a.json", *of), user),
                     (("dump", process.pid, *of), user),
                     (("record", "-o", "a.json", *of, "--", PYTHON, "-c", BUSY + "busy(0.2)"), user),
                     (("attach", process.pid, "-d", "0.2", "-o", os.path.join(place, "r.json"), *of), ())]
            for (command, by), words in zip(tried, wanted):
                run = cprofd(*command, cwd=work, prefix=by)
                what = "--allow=%s ptrace_scope %s perf_event_paranoid %s: %s" % (allow, scope, paranoid, command[0])
                expect(run.returncode == (1 if words else 0) and (words or "") in run.err, what, run.returncode, run.err)


def test_started_by_another_client():
    """ptrace_scope 1 is about what is below the process that asks: not what another client of the same user started, though they share an engine."""
    if not mount_namespaces():
        raise Skip("no mount namespaces here")
    with folder(NOBODY) as work, folder() as place:
        path = os.path.join(place, "socket")
        with daemon(path, prefix=("unshare", "--mount", "sh", "-c", SETTINGS, "sh"), allow="ptrace") as broker:
            settings(broker, 1, 2)
            starter = subprocess.Popen([*as_nobody(), CPROFD, "record", "-q", "-o", "a.json", "--socket", path, "--", PYTHON, "-c", BUSY + "busy(20)"],
                                       cwd=work, env=environment(), stderr=subprocess.DEVNULL)
            started = None
            try:
                expect(until(lambda: attached_programs(broker.pid)), "who started it may not record it")
                started, = children(starter.pid)
                for command in ("attach", started, "-d", "0.2", "-o", "b.json"), ("dump", started):
                    run = cprofd(*command, "--socket", path, cwd=work, prefix=as_nobody())
                    expect(run.returncode == 1 and SCOPE in run.err, command[0] + ": another client has what this one started", run.returncode, run.err)
            finally:
                for pid in filter(None, (started, starter.pid)):
                    os.kill(pid, signal.SIGKILL)
                starter.wait()


# --- the client ---

# Its own user may look into it for so long, and then not for so long, in turn.
FLICKERS = BUSY + """
import ctypes
prctl = ctypes.CDLL(None).prctl
def secret(seconds):
    busy(seconds)
while True:
    prctl(4, 0) # PR_SET_DUMPABLE
    secret(%s)
    prctl(4, 1)
    busy(%s)
"""


def test_dump_of_one_that_hides_at_times():
    """Nothing is dumped of what runs while the process is not dumpable, whenever the client was authorised."""
    with folder() as place, daemon(os.path.join(place, "socket")), target(FLICKERS % (0.02, 0.02), uid=NOBODY) as process:
        runs = [cprofd("dump", process.pid, "--socket", os.path.join(place, "socket"), prefix=as_nobody()) for _ in range(12)]
        expect(all(run.returncode == 0 or run.err for run in runs), "dumped or refused", [run.err for run in runs])
        told = [run.out for run in runs if re.search(r"^ +secret \(", run.out, re.M)]  # its command line has the word, too
        expect(not told, "nothing of what it hides", told[:1])


def test_attach_to_one_that_hides_at_times():
    """So fast that it hides before and after the client is authorised, and not just then."""
    with folder(NOBODY) as work, folder() as place, daemon(os.path.join(place, "socket")), target(FLICKERS % (0.0002, 0.0002), uid=NOBODY) as process:
        for _ in range(24):
            run = cprofd("attach", process.pid, "-q", "-d", "0.2", "-o", "a.json", "--socket", os.path.join(place, "socket"), cwd=work, prefix=as_nobody())
            expect(run.returncode in (0, 1), "attached or refused", run.err)
            expect(run.returncode or "secret" not in names(os.path.join(work, "a.json")), "a frame of what it hides")


COMPILES = BUSY + """
import ctypes, time
prctl = ctypes.CDLL(None).prctl
def secret():
    for _ in range(4):
        time.sleep(0.003)
        busy(0.003)
def build(told):
    busy(0.005)
    time.sleep(0.005)
    prctl(4, 0) # PR_SET_DUMPABLE
    secret()
    prctl(4, 1)
    time.sleep(0.005)
while True:
    build("work")
"""


def test_a_compile_that_hides_at_times():
    """Where a thread that compiles falls asleep is followed (BROKER_WATCH in mode cpu): not while its process is not dumpable."""
    with folder(NOBODY) as work, folder() as place, daemon(os.path.join(place, "socket")), target(COMPILES, uid=NOBODY) as process:
        with open(os.path.join(work, "my.rules"), "w") as file:
            file.write(RULES.replace("leaf", "build"))
        os.chmod(file.name, 0o644)
        for mode in "cpu", "wall":
            for _ in range(50):  # refused while it hides
                run = cprofd("attach", process.pid, "-d", "2", "--mode", mode, "--rules", "my.rules", "-f", "events", "-o", "a.ndjson",
                             "--socket", os.path.join(place, "socket"), cwd=work, prefix=as_nobody())
                if not run.returncode:
                    break
            expect(run.returncode == 0, "attached", run.err)
            tables, slept = Batches(), 0
            with open(os.path.join(work, "a.ndjson")) as file:
                for event in map(tables.feed, file):
                    if event["ev"] == "samples":
                        for _, stack, cause, wall in rows(event, "stack", "cause", "wall"):
                            found = {function[0] for function, _ in tables.path(stack)}
                            expect("secret" not in found, "a frame of what it hides, mode " + mode, found)
                            slept += wall if cause and "build" in found else 0
            expect(slept > 1e8, "waits in what it shows, mode " + mode, slept)


HIDES_AND_NAPS = BUSY + """
import ctypes, threading
prctl = ctypes.CDLL(None).prctl
def naps():
    while True:
        time.sleep(0.03)
threading.Thread(target=naps, daemon=True).start()
while True:
    prctl(4, 0) # PR_SET_DUMPABLE
    time.sleep(0.05)
    prctl(4, 1)
    time.sleep(0.15)
"""
BEFORE = 16  # causes, docs/protocol.md
NOT_AUTHORISED = 18


def test_waits_of_one_that_hides_at_times():
    """Time of a thread that nobody was allowed to see is time that is not known: not a wait since before the session, nor for a CPU."""
    with folder(NOBODY) as work, folder() as place, daemon(os.path.join(place, "socket")), target(HIDES_AND_NAPS, uid=NOBODY) as process:
        end = time.monotonic() + 60
        while time.monotonic() < end:  # refused while it hides, and on a busy machine an attach is as long as it is seen
            run = cprofd("attach", process.pid, "-d", "3", "--mode", "wall", "-f", "events", "-o", "a.ndjson", "--socket", os.path.join(place, "socket"),
                         cwd=work, prefix=as_nobody())
            if not run.returncode:
                break
        expect(run.returncode == 0, "attached", run.err)
        tables, told = Batches(), {}
        with open(os.path.join(work, "a.ndjson")) as file:
            for event in map(tables.feed, file):
                for _, cause, wall in rows(event, "cause", "wall") if event["ev"] == "samples" else ():
                    told[cause] = told.get(cause, 0) + wall
        expect(told.get(BEFORE, 0) < 3e8 and told.get(NOT_AUTHORISED, 0) > 2e9, "waits since before the session", told)


# One thread is root's until SIGUSR1, the other is the user's and may be looked into. By system calls: the library's would take all threads along.
TWO_USERS = BUSY + """
import ctypes, signal, threading
libc = ctypes.CDLL(None)
told = threading.Event()
signal.signal(signal.SIGUSR1, lambda *_: told.set())
def become():
    libc.syscall(116, 0, 0) # setgroups
    libc.syscall(119, 65534, 65534, 65534) # setresgid
    libc.syscall(117, 65534, 65534, 65534) # setresuid
    libc.prctl(4, 1) # PR_SET_DUMPABLE
def works():
    time.sleep(0.02)
    busy(0.002)
def secret():
    time.sleep(0.001)
    busy(0.01)
def open_to_all():
    works()
def build(told, then):
    then()
def other():
    while not told.is_set():
        build("work", secret)
    print(time.monotonic_ns(), flush=True)
    become()
    while True:
        build("work", open_to_all)
threading.Thread(target=other).start()
become()
while True:
    build("work", works)
"""


def test_a_compile_in_a_thread_of_roots():
    """Of a thread with other rights than its process's first one nothing is told, and where it has the same from some time on, nothing of before: also
    where switches are followed (BROKER_WATCH, wall mode)."""
    for mode in "cpu", "wall":
        with folder(NOBODY) as work, folder() as place, daemon(os.path.join(place, "socket")), target(TWO_USERS) as process:
            with open(os.path.join(work, "my.rules"), "w") as file:
                file.write(RULES.replace("leaf", "build"))
            os.chmod(file.name, 0o644)
            other, = until(lambda: [int(tid) for tid in os.listdir(f"/proc/{process.pid}/task") if int(tid) != process.pid])
            expect(until(lambda: status(process.pid)["Uid"].split() == [str(NOBODY)] * 4) and "0" in status(other)["Uid"].split(), "two users' threads")
            client = subprocess.Popen([*as_nobody(), CPROFD, "attach", str(process.pid), "--mode", mode, "--rules", "my.rules", "-f", "events", "-o", "a.ndjson",
                                       "--socket", os.path.join(place, "socket"), "-d", "4"], cwd=work, env=environment(), stderr=subprocess.PIPE)
            sampled(work, client, seconds=1)
            process.send_signal(signal.SIGUSR1)
            expect(until(lambda: status(other)["Uid"].split() == [str(NOBODY)] * 4), "the thread is the user's, too")
            changes = int(process.stdout.readline())
            err = client.communicate(timeout=60)[1].decode()
            expect(client.returncode == 0, "attached", err)
            tables, slept, ran, at = Batches(), {process.pid: 0, other: 0}, 0, 0
            with open(os.path.join(work, "a.ndjson")) as file:
                for event in map(tables.feed, file):
                    if event["ev"] == "samples":
                        for at, thread, stack, cause, wall, cpu in rows(event, "thread", "stack", "cause", "wall", "cpu"):
                            tid, found = tables.threads[thread]["tid"], [function[0] for function, _ in tables.path(stack)]
                            slept[tid] += wall if cause and "build" in found else 0
                            expect("secret" not in found, "a frame of root's thread, mode " + mode, found)
                            expect(tid != other or at > changes or found in ([], ["(not authorised)"]), "nothing of before, mode " + mode, (at - changes, wall, cause), found)
                            ran += cpu if tid == other else 0
            expect(0 < ran < (at - changes) / 3, "what it ran before is nobody's, mode " + mode, ran, at - changes)
            expect(min(slept.values()) > 1e8, "waits in what it shows, mode " + mode, slept)


def test_client_under_sudo():
    user = somebody()
    with folder(user.pw_uid) as work, target() as process:
        os.chmod(work, 0o700)
        for name, options in (("a.json", ()), ("b.cprof", ()), ("c.svg", ("--mode=wall",))):
            client = start("attach", process.pid, "-o", name, *options, work=work, env=as_sudo(user))
            as_user(client, user, "attach -o " + name)
            ends(client)
            found = os.stat(os.path.join(work, name))
            expect(found.st_uid == user.pw_uid and found.st_size > 100, "the file is not the caller's", found)
        expect(sorted(os.listdir(work)) == ["a.json", "b.cprof", "c.svg"], "something was left behind", os.listdir(work))
        client = start("attach", process.pid, "--stream", work=work, env=as_sudo(user), stdout=subprocess.PIPE)
        as_user(client, user, "attach --stream")
        expect(b'"ev":"end"' in ends(client), "no stream")


def test_top_under_sudo():
    user = somebody()
    with folder() as work, target() as process:
        own, terminal = pty.openpty()
        client = start("top", process.pid, work=work, env={**as_sudo(user), "TERM": "xterm"}, stdin=terminal, stdout=terminal)
        os.close(terminal)
        as_user(client, user, "top")
        os.write(own, b"q")
        expect(client.wait(60) == 0, "top failed", client.communicate()[1])
        os.close(own)


def test_dump_under_sudo():
    user = somebody()
    with folder() as work, target(THREADS) as process:
        client = start("dump", process.pid, "--json", work=work, env=as_sudo(user), stdout=subprocess.PIPE)
        as_user(client, user, "dump")
        out, err = client.communicate(timeout=60)
        expect(client.returncode == 0 and len(json.loads(out)["threads"]) == 101, "no dump", err, out[-200:])


COMMAND = """
import json, os, sys
found = dict(line.rstrip("\\n").split(":", 1) for line in open("/proc/self/status"))
json.dump([os.getresuid(), os.getresgid(), sorted(os.getgroups()), found], open("who", "w"))
""" + BUSY + "busy(60)"


def test_record_under_sudo():
    """The command has its caller's rights, all that sudo's own commands would have; its recorder has none."""
    user = somebody()
    with folder(user.pw_uid) as work:
        client = start("record", "-o", "a.json", "--", PYTHON, "-c", COMMAND, work=work, env=as_sudo(user), stdout=subprocess.DEVNULL)
        as_user(client, user, "record")
        who = os.path.join(work, "who")
        expect(until(lambda: os.path.exists(who) and os.path.getsize(who)), "the command does not run")
        time.sleep(0.3)
        client.terminate()  # is passed on
        err = client.communicate(timeout=60)[1].decode()
        expect(client.returncode == 0 and "ended by signal 15" in err, "the command was not told to end", err)
        profile(os.path.join(work, "a.json"))
        uids, gids, groups, found = json.load(open(who))
        groups_wanted = sorted(os.getgrouplist(user.pw_name, user.pw_gid))
        expect(uids == [user.pw_uid] * 3 and gids == [user.pw_gid] * 3 and groups == groups_wanted, "the command is somebody else", uids, gids, groups)
        own = status(os.getpid())
        expect(found["NoNewPrivs"] == own["NoNewPrivs"] and found["CapBnd"] == own["CapBnd"], "the command was bound", found)


def test_client_of_root():
    with folder() as work, target() as process:
        for name in "a.json", "b.cprof":
            client = start("attach", process.pid, "-o", name, work=work, env=environment())
            rightless(client, 0, "attach of root's")
            ends(client)
            expect(os.path.getsize(os.path.join(work, name)) > 100, "no file")
        run = cprofd("record", "-o", "c.json", "--", PYTHON, "-c", BUSY + "busy(0.3)", cwd=work)
        fails(0, run=run)
        profile(os.path.join(work, "c.json"))


def test_root_in_a_folder_of_others():
    """To name a file there takes two capabilities, which are kept, and no other."""
    with folder(NOBODY) as work, target() as process:
        os.chmod(work, 0o700)
        for name, empty in (("a.json", False), ("b.cprof", True)):
            if empty:
                open(os.path.join(work, name), "w").close()
                os.chown(os.path.join(work, name), NOBODY, NOBODY)
            client = start("attach", process.pid, "-o", name, work=work, env=environment())
            rightless(client, 0, "attach of root's", but=1 << 1 | 1 << 3)  # CAP_DAC_OVERRIDE, CAP_FOWNER
            ends(client)
            expect(os.path.getsize(os.path.join(work, name)) > 100, "no file")
        expect(sorted(os.listdir(work)) == ["a.json", "b.cprof"], "something was left behind", os.listdir(work))


RULES = "compiler mine\nunit\nfile <string>\nfunction leaf\nname told\n"


def test_rules_are_read_before():
    """By whom they are meant for: a file that only the caller may read, and one that they may not."""
    user = somebody()
    with folder(user.pw_uid) as work, target() as process:
        os.chmod(work, 0o700)
        path = os.path.join(work, "my.rules")
        with open(path, "w") as file:
            file.write(RULES)
        for env, name in ((as_sudo(user), "a.html"), (environment(), "b.html")):
            run = cprofd("attach", process.pid, "-d", "0.5", "--rules", "my.rules", "-o", name, cwd=work, env=env)
            fails(0, run=run)
            expect("summary could not" not in run.err, "rules were read too late", run.err)
        os.chmod(path, 0o600)
        run = cprofd("attach", process.pid, "-d", "20", "--rules", "my.rules", "-o", "c.html", cwd=work, env=as_sudo(user))
        fails(1, "my.rules", "Permission denied", run=run)


def main(chosen):
    results = {"passed": 0, "failed": 0, "skipped": 0}
    for name, test in sorted(globals().items()):
        if not name.startswith("test_") or chosen and not any(part in name for part in chosen):
            continue
        try:
            test()
            results["passed"] += 1
        except Skip as skip:
            print("skipped", name, skip)
            results["skipped"] += 1
        except (AssertionError, subprocess.TimeoutExpired) as error:
            print("FAILED", name, error)
            results["failed"] += 1
    print(", ".join(f"{n} {what}" for what, n in results.items()))
    return 1 if results["failed"] else 0


if os.geteuid():
    print("skipped: needs root\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)
sys.exit(main(sys.argv[1:]))
