#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""No user can stall the daemon for others: only the client that asked waits for something that may never answer. Needs root.

    freeze.py [--children N] [--all]

Users' targets have their arguments on a page of a FUSE mount that does not answer, or a library on one that never lets it be closed; another one's engine is stopped
while it has to be told of many children; clients send sockets that linger. Meanwhile somebody else attaches, and the daemon ends when it is told to."""
import argparse
import contextlib
import ctypes
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import mute_files
from lib.wait import until
from lib import CPROFD
from lib.result import check, finish, skip

USER, OTHER = 65534, 65533
CROWD = 65500
ENGINES = 4 # of one user (docs/privileges.md, Limits)
BUSY = "print('ready', flush=True)\nwhile True: sum(range(1000))"
# Its arguments' page becomes the file's; nothing here touches it. (The kernel leaves a gap of 0 to 8 KB, at random, between the arguments and
# the frames of main: it begins anew until those are in another page.)
MUTE_ARGUMENTS = """
import ctypes, os, signal, sys
start, arguments = (int(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[i]) for i in (25, 45))
page = arguments & ~4095
if start >= page:
    os.execv(sys.executable, sys.orig_argv)
libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
file = os.open(sys.argv[1], os.O_RDONLY)
assert libc.mmap(page, 4096, 1, 0x12, file, 0) == page
os.write(1, b"ready\\n")
while True:
    signal.pause()
"""
PARENT = """
import os, signal, sys, time
for i in range(int(sys.argv[1])):
    if not os.fork():
        signal.pause()
os.write(1, b"ready\\n")
while True:
    sum(range(1000))
    time.sleep(0.001)
"""
WRITES = """
import os, signal, sys
os.pwrite(os.open(sys.argv[1], os.O_RDWR), bytes(4096), 0)
os.write(1, b"dirty\\n")
signal.pause()
"""
THREADS = """
import sys, threading
threading.stack_size(65536)
event = threading.Event()
for i in range(int(sys.argv[1])):
    threading.Thread(target=event.wait, daemon=True).start()
print("ready", flush=True)
while True:
    sum(range(1000))
"""


def become(uid, group=False):
    """Before exec. group: it leads a group of its own, which is no session: that is scheduled as one (sched_autogroup), whatever its nice value is."""
    def run():
        if group:
            os.setpgid(0, 0)
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    return run


class Mute:
    """A mount whose file can be opened and mapped, and is never read."""

    def __init__(self, folder):
        self.folder = folder
        self.device = os.open("/dev/fuse", os.O_RDWR)
        options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % self.device
        if ctypes.CDLL(None, use_errno=True).mount(b"mute", folder.encode(), b"fuse", 6, options.encode()):
            raise OSError(ctypes.get_errno(), "mount")
        self.ends, self.told = os.pipe()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while self.ends not in select.select([self.device, self.ends], [], [])[0]:
            request = os.read(self.device, 1 << 17)
            _, operation, unique, node = struct.unpack("<IIQQ", request[:24])
            body = None if operation in (2, 42) else self.answer(operation, node, request)
            if body is None:
                continue
            error, body = (-body, b"") if isinstance(body, int) else (0, body)
            os.write(self.device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)

    def answer(self, operation, node, request):
        return None if operation == mute_files.READ else mute_files.answer(operation, node)

    def close(self):
        os.write(self.told, b"x")
        self.thread.join()
        os.close(self.device) # who waits is told that there is no answer
        subprocess.run(["umount", "-l", self.folder], stderr=subprocess.DEVNULL)


class Unflushed(Mute):
    """A mount whose file is mapped and read. Once it is `silent`, who closes it waits for ever."""

    def __init__(self, folder, content):
        self.content, self.silent, self.closers = content, False, []
        super().__init__(folder)

    def answer(self, operation, node, request):
        if operation == mute_files.READ:
            offset, size = struct.unpack_from("<QI", request, 48)
            return self.content[offset:offset + size]
        if operation == mute_files.FLUSH and self.silent:
            self.closers.append(struct.unpack_from("<I", request, 32)[0])
            return None
        return mute_files.answer(operation, node, len(self.content))


class Unwritten(Mute):
    """A mount whose files, 0 and so on, are written behind the writer's back, and never are: whoever closes one that is dirty waits for ever."""
    WRITEBACK, WRITE = 1 << 16, 16

    def answer(self, operation, node, request):
        if operation == self.WRITE:
            return None
        if operation == mute_files.LOOKUP:
            node = mute_files.FILE + int(request[40:].rstrip(b"\0"))
            return struct.pack("<4Q2I", node, 0, 1000, 1000, 0, 0) + mute_files.attributes(node, 4096)
        body = mute_files.answer(operation, node)
        if operation == mute_files.INIT:
            body = body[:12] + struct.pack("<I", self.WRITEBACK) + body[16:]
        return body


class Daemon:
    def __init__(self, folder, log=subprocess.DEVNULL, env=None):
        self.program = os.path.join(folder, "cprofd")
        os.replace(shutil.copy(CPROFD, self.program + ".new"), self.program)  # a process of an earlier daemon may still run it
        self.socket = os.path.join(folder, "socket")
        self.process = subprocess.Popen([self.program, "serve", "--socket", self.socket], stderr=log, env=env)
        until(lambda: os.path.exists(self.socket))
        os.chmod(self.socket, 0o666)

    def attach(self, uid, pid, *options, wait=True):
        client = subprocess.Popen([self.program, "attach", str(pid), "--socket", self.socket, "-q", "-d", "0.3", "--stream", *options],
                                  preexec_fn=become(uid), cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={"PATH": "/usr/bin:/bin"})
        if not wait:
            return client
        begin = time.monotonic()
        try:
            out, err = client.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            client.kill()
            out, err = client.communicate()
        return client.returncode, time.monotonic() - begin, out, err.decode()

    def engines(self):
        with open("/proc/%d/task/%d/children" % (self.process.pid, self.process.pid)) as file:
            return [int(word) for word in file.read().split()]

    def end(self):
        begin = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        return time.monotonic() - begin


def start(uid, *words):
    target = subprocess.Popen([sys.executable if uid is None else "/usr/bin/python3", "-c", *words], preexec_fn=become(uid, group=True),
                              stdout=subprocess.PIPE, cwd="/")
    target.stdout.readline()
    return target


def stop(target):
    os.killpg(target.pid, signal.SIGKILL)
    target.wait()


def others(daemon, target, usual, what):
    """Somebody else is served as ever. (One answer that is waited for takes two seconds.)"""
    result = daemon.attach(OTHER, target.pid)
    check(not result[0] and b'"samples"' in result[2] and result[1] < max(2, 2 * usual),
          "%s: another user attaches: %.2f s, else %.2f s: %.2f" % (what, result[1], usual, result[1] / usual), result[3])
    begin = time.monotonic()
    status = subprocess.run([daemon.program, "status", "--socket", daemon.socket], preexec_fn=become(OTHER), cwd="/", timeout=30,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    check(not status.returncode, "%s: status answers: %.2f s" % (what, time.monotonic() - begin), status.stderr)


def ends(daemon, what):
    took = daemon.end()
    check(daemon.process.poll() is not None and took < 6, "%s: SIGTERM ends the daemon: %.2f s" % (what, took))


@contextlib.contextmanager
def mute_targets(folder):
    """Of eight users, by user."""
    mount = os.path.join(folder, "mount")
    os.mkdir(mount)
    mute, targets = Mute(mount), {}
    try:
        for user in [USER] + [CROWD + i for i in range(7)]:
            targets[user] = start(user, MUTE_ARGUMENTS, os.path.join(mount, "file"))
        yield targets
    finally:
        mute.close()
        for target in targets.values():
            stop(target)


def mute_arguments(daemon, other, usual, folder):
    """Three attaches of one user at once, and of eight users."""
    with mute_targets(folder) as targets:
        for what, pairs in (("3 of one user", [(USER, targets[USER])] * 3), ("8 users", list(targets.items()))):
            clients = [daemon.attach(user, target.pid, wait=False) for user, target in pairs]
            time.sleep(0.3)
            others(daemon, other, usual, "mute arguments, %s" % what)
            errors = [client.communicate(timeout=30)[1].decode() for client in clients]
            told = sum(client.returncode == 1 and "inside the kernel" in err for client, err in zip(clients, errors))
            check(told == len(clients), "mute arguments, %s: who asked is told" % what, told, *errors)
        others(daemon, other, usual, "after mute arguments")
        clients = [daemon.attach(user, target.pid, wait=False) for user, target in targets.items()]
        time.sleep(0.3)
        ends(daemon, "mute arguments")
        for client in clients:
            client.communicate(timeout=30)


def late_helpers(daemon, other, usual, folder):
    """Eight users have as many calls in the kernel as each may have, 32 in all: who has none is served."""
    with mute_targets(folder) as targets:
        for turn in range(5):
            clients = [daemon.attach(user, target.pid, wait=False) for user, target in targets.items()]
            errors = [client.communicate(timeout=30)[1].decode() for client in clients]
            what = "never came back" if turn == 4 else "inside the kernel"
            check(all(what in err for err in errors), "late helpers: attach %d of 8 users is refused by name" % (turn + 1), *errors)
        others(daemon, other, usual, "32 late helpers")


def engine_of(daemon, user):
    """The eldest process of that user's: helpers come and go."""
    for pid in daemon.engines():
        with open("/proc/%d/status" % pid) as file:
            if file.read().split("Uid:")[1].split()[0] == str(user):
                return pid
    raise LookupError(user)


def stopped_engine(daemon, other, usual, children):
    own = start(USER, BUSY)
    parent = start(USER, PARENT, str(children))
    try:
        holder = daemon.attach(USER, own.pid, "-d", "60", wait=False) # its engine is there, and stays
        holder.stdout.readline()
        stopped = [engine_of(daemon, USER)]
        os.kill(stopped[0], signal.SIGSTOP)
        client = daemon.attach(USER, parent.pid, "-s", wait=False)
        others(daemon, other, usual, "stopped engine, %d children" % children)
        client.kill()
        client.communicate()
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        result = daemon.attach(USER, parent.pid, "-s")
        check(not result[0] and result[2].count(b'"ev":"process"') > children, "all children are told to an engine that reads",
              result[2].count(b'"ev":"process"'), result[3])
        others(daemon, other, usual, "%d children" % children)
        engines = daemon.engines()
        for pid in engines:
            os.kill(pid, signal.SIGSTOP)
        check(engines, "engines are stopped")
        took = daemon.end()
        holder.kill()
        holder.communicate()
        check(daemon.process.poll() is not None and took < 6, "stopped engines: SIGTERM ends the daemon: %.2f s" % took, daemon.process.returncode)
    finally:
        stop(own)
        stop(parent)


def mute_flush(daemon, other, usual, folder):
    """A user's target has mapped a library of a file system that lets it be opened and read, and never closed."""
    library, mount = (os.path.join(folder, name) for name in ("library.so", "mount"))
    subprocess.run(["gcc", "-shared", "-x", "c", "-o", library, "-"], input=b"int work(int n) { int s = 0; while (n--) s += n; return s; }", check=True)
    os.mkdir(mount)
    with open(library, "rb") as file:
        mute = Unflushed(mount, file.read())
    target = None
    try:
        target = start(USER, "import ctypes, sys\nwork = ctypes.CDLL(sys.argv[1]).work\n" + BUSY.replace("sum(range(1000))", "work(100000)"), os.path.join(mount, "file"))
        mute.silent = True
        client = daemon.attach(USER, target.pid, "--native=full", "-d", "60", wait=False)
        check(until(lambda: len(mute.closers) > 1), "mute flush: who opened it waits, and who read it", mute.closers)
        others(daemon, other, usual, "mute flush")
        ends(daemon, "mute flush")
        client.kill()
        client.communicate()
    finally:
        mute.close()
        if target:
            stop(target)


def lingering_socket(seconds):
    """Whoever closes it last waits for its peer, who does not read."""
    listener = socket.create_server(("127.0.0.1", 0))
    sender = socket.create_connection(listener.getsockname())
    peer = listener.accept()[0]
    sender.setblocking(False)
    try:
        while True:
            sender.send(bytes(1 << 16))
    except BlockingIOError:
        pass
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, seconds))
    return sender, peer


def connect(daemon, uid, groups):
    os.setgroups(groups)
    os.setegid(uid)
    os.seteuid(uid)
    client = socket.socket(socket.AF_UNIX)
    try:
        client.connect(daemon.socket)
    finally:
        os.seteuid(0)
        os.setegid(0)
    return client


def read_all(client):
    """What came, and whether the daemon has closed it."""
    text = b""
    client.settimeout(10)
    try:
        while more := client.recv(1 << 16):
            text += more
    except ConnectionResetError: # it did not read what came
        pass
    except TimeoutError:
        return text, False
    return text, True


def log_in(daemon):
    """As often as a user may have engines."""
    logins = [connect(daemon, USER, [i]) for i in range(ENGINES)]
    for login in logins:
        login.recv(4096) # its engine is there
    return logins


def refuse(daemon, sent):
    """Each of these clients will be refused, and sends a descriptor that nobody receives. The daemon is stopped until all of it is there."""
    os.kill(daemon.process.pid, signal.SIGSTOP)
    refused = []
    for fd in sent:
        refused.append(connect(daemon, USER, [ENGINES]))
        socket.send_fds(refused[-1], [b"{"], [fd])
        os.close(fd)
    return refused


def lingering(daemon, other, usual, _):
    """Who is refused has sent sockets that wait for long as they are closed."""
    sockets = [lingering_socket(600) for _ in range(4)]
    logins = log_in(daemon)
    refused = refuse(daemon, [sender.detach() for sender, _ in sockets])
    os.kill(daemon.process.pid, signal.SIGCONT)
    said = [read_all(client)[0] for client in refused]
    check(all(b"answer" in words for words in said), "lingering sockets: who is refused is told", *said)
    others(daemon, other, usual, "lingering sockets")
    ends(daemon, "lingering sockets")
    for one in *logins, *refused, *(peer for _, peer in sockets):
        one.close()


def unwritten(daemon, other, usual, folder):
    """Who is refused has sent files that are never closed to the end, more than closers there are: not even SIGKILL ends who closes one."""
    mount = os.path.join(folder, "mount")
    os.mkdir(mount)
    mute = Unwritten(mount)
    held = log_in(daemon)
    writers = []
    try:
        for i in range(3): # each time as many as may wait to be accepted
            path = os.path.join(mount, str(i))
            held += refuse(daemon, [os.open(path, os.O_RDWR) for _ in range(24)])
            writers.append(start(0, WRITES, path)) # what was closed here was not dirty yet
            os.kill(daemon.process.pid, signal.SIGCONT)
            check(all(client.recv(1 << 16) for client in held[-24:]), "unwritten files: who is refused is told")
        others(daemon, other, usual, "unwritten files")
        held.append(connect(daemon, OTHER, []))
        held[-1].shutdown(socket.SHUT_WR)
        text, closed = read_all(held[-1])
        check(closed and text.endswith(b"\n"), "unwritten files: another user's connection is closed")
        ends(daemon, "unwritten files")
    finally:
        mute.close()
    for one in held:
        one.close()
    for writer in writers:
        stop(writer)


SEIZE, SYSCALL, DETACH, GET_SYSCALL_INFO, SYSGOOD = 0x4206, 24, 17, 0x420e, 1
OPENAT = {"x86_64": 257, "aarch64": 56}


def opened_by(pid, done):
    """Paths that the main thread of a process opens, until done(). (linux/ptrace.h, struct ptrace_syscall_info)"""
    libc, info, paths = ctypes.CDLL(None, use_errno=True), ctypes.create_string_buffer(88), set()
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    if libc.ptrace(SEIZE, pid, None, SYSGOOD):
        raise OSError(ctypes.get_errno(), "ptrace")
    os.kill(pid, signal.SIGSTOP)
    while True:
        _, status = os.waitpid(pid, 0)
        stopped_by = os.WSTOPSIG(status)
        if stopped_by == signal.SIGTRAP | 0x80 and libc.ptrace(GET_SYSCALL_INFO, pid, 88, ctypes.addressof(info)) > 0:
            entered, number, _, path = info.raw[0] == 1, *struct.unpack_from("<3Q", info.raw, 24)
            if entered and number == OPENAT[os.uname().machine]:
                with open("/proc/%d/mem" % pid, "rb", 0) as memory:
                    memory.seek(path)
                    paths.add(memory.read(64).split(b"\0")[0].decode(errors="replace"))
            if done():
                libc.ptrace(DETACH, pid, None, None)
                return paths
        passed = 0 if stopped_by & 0x80 or status >> 16 or stopped_by == signal.SIGSTOP else stopped_by
        libc.ptrace(SYSCALL, pid, None, passed)


def own_reads(daemon, other, usual, folder):
    """To read /proc/PID/stat holds the memory of that process. The daemon leaves it to others: it could be the one that has to unmap a mute file."""
    parent = start(USER, PARENT, "3")
    try:
        client = daemon.attach(USER, parent.pid, "-s", "--native=full", wait=False)
        ends = []
        paths = opened_by(daemon.process.pid, lambda: client.poll() is not None and (ends.append(0) or len(ends) > 20))
        client.communicate()
        check("/proc/%d/task" % parent.pid in paths, "what the daemon opens is seen", *paths)
        read = [path for path in paths if re.fullmatch(r"/proc/\d+/(task/\d+/)?(stat|status|statm|maps|smaps.*|environ|cmdline|auxv|mem)", path)]
        check(not read, "the daemon reads nothing that holds another process's memory", *read[:5])
    finally:
        stop(parent)


def half_open(daemon, other, usual, n):
    """Clients that say nothing, or half a request, and read nothing."""
    clients = []
    for i in range(n):
        client = socket.socket(socket.AF_UNIX)
        client.connect(daemon.socket)
        if i % 2:
            client.sendall(b'{"request":"att')
        clients.append(client)
    others(daemon, other, usual, "%d half-open clients" % n)
    ends(daemon, "half-open clients")
    for client in clients:
        client.close()


def crowds(daemon, other, usual, n):
    """Many threads, and many children, are opened while others are served."""
    for code, count, options in (THREADS, n, ()), (THREADS, n, ("--mode=wall",)), (PARENT, n * 2 // 5, ("-s",)):
        target = start(USER, code, str(count))
        client = daemon.attach(USER, target.pid, "-d", "5", *options, wait=False)
        try:
            time.sleep(0.2)
            others(daemon, other, usual, "%d of %s" % (count, " ".join(options) or "threads"))
        finally:
            client.kill()
            client.communicate()
            stop(target)
    ends(daemon, "crowds")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--children", type=int, default=600)
    parser.add_argument("--all", action="store_true", help="5,000 threads, 2,000 children and 32 late helpers, too")
    arguments = parser.parse_args()
    if os.geteuid():
        skip("needs root")
        return finish()
    other = start(OTHER, BUSY)
    try:
        cases = {mute_arguments: None, stopped_engine: arguments.children, half_open: 40, mute_flush: None, lingering: None, unwritten: None, own_reads: None}
        if arguments.all:
            cases.update({late_helpers: None, crowds: 5000})
        for case, given in cases.items():
            with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
                os.chmod(folder, 0o755)
                daemon = Daemon(folder)
                try:
                    daemon.attach(OTHER, other.pid)
                    usual = daemon.attach(OTHER, other.pid)[1]
                    case(daemon, other, usual, given or folder)
                finally:
                    daemon.process.kill()
                    daemon.process.wait()
    finally:
        stop(other)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
