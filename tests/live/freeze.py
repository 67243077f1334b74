#!/usr/bin/env python3
"""Nobody keeps others waiting: a user whose processes never answer, another who attaches meanwhile, one daemon.

Needs root, /dev/fuse and the built cprofd (CPROFD=path).
"""
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

from mute_files import FLUSH, READ, answer
from patience import until

CPROFD = os.environ.get("CPROFD", os.path.join(os.path.dirname(__file__), "../../build/cprofd"))
HOSTILE, OTHER = 64901, 64902
PYTHON = "/usr/bin/python3"
# Its arguments fill more than a page, which comes to lie on a file that never answers.
ARGUMENTS = """
import ctypes, os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
with open("/proc/self/stat") as file:
    start = int(file.read().rpartition(")")[2].split()[45])
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
page = (start + 4095) & ~4095
assert libc.mmap(page - 4096, 4096, 1, 0x12, fd, 0) == page - 4096
print("ready", flush=True)
time.sleep(600)
"""
# To close the file waits for ever, and so does the exec that closes it, with the lock that whoever looks at the process needs.
EXEC = """
import os, sys, threading, time
fd = os.open(sys.argv[1], os.O_RDONLY)
print("ready", flush=True)
time.sleep(0.5)
os.execv("/bin/sleep", ["sleep", "600"])
"""
SLEEP = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.01)"


class Mute:
    """A file system that opens its one file, and neither reads it nor closes it."""

    def __init__(self, folder):
        self.folder = folder
        self.device = os.open("/dev/fuse", os.O_RDWR)
        options = "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % self.device
        if ctypes.CDLL(None, use_errno=True).mount(b"mute", folder.encode(), b"fuse", 6, options.encode()):
            sys.exit("mount: " + os.strerror(ctypes.get_errno()))
        self.server = os.fork()
        if not self.server:
            self.serve()

    def serve(self):
        import struct
        while True:
            request = os.read(self.device, 1 << 17)
            _, operation, unique, node = struct.unpack("<IIQQ", request[:24])
            if operation in (2, 42) or operation in (READ, FLUSH):
                continue
            body = answer(operation, node)
            error, body = (-body, b"") if isinstance(body, int) else (0, body)
            os.write(self.device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)

    def end(self):
        os.kill(self.server, signal.SIGKILL)
        os.waitpid(self.server, 0)
        os.close(self.device)
        subprocess.run(["umount", "-l", self.folder], check=False)


def start(user, code, *args):
    process = subprocess.Popen([PYTHON, "-c", code, *args], user=user, group=user, extra_groups=[], stdout=subprocess.PIPE)
    process.stdout.readline()
    return process


def ask(user, path, request, seconds=20):
    """The daemon's answer to a user: in a process that is that user."""
    program = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.settimeout(%d)\ns.connect(sys.argv[1])\n"
               "s.sendall(sys.argv[2].encode() + b'\\n')\nfor line in s.makefile():\n"
               "  if '\"answer\"' in line: print(line); break\n" % seconds)
    out = subprocess.run([PYTHON, "-c", program, path, json.dumps(request)], user=user, group=user, extra_groups=[],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(out.stdout) if out.stdout.strip() else None


def attach(user, path, pid):
    return ask(user, path, {"req": "attach", "pid": pid})


def main():
    results = {"passed": 0, "failed": 0, "skipped": 0}

    def check(name, good, what=""):
        results["passed" if good else "failed"] += 1
        print("ok  " if good else "FAIL", name, "" if good else what, flush=True)

    if not os.path.exists("/dev/fuse") or os.geteuid():
        print("0 passed, 0 failed, 1 skipped")
        return 0
    work = tempfile.mkdtemp()
    os.chmod(work, 0o755)
    path, mount = work + "/socket", work + "/mount"
    os.mkdir(mount)
    mute = Mute(mount)
    daemon = subprocess.Popen([CPROFD, "serve", "--socket", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: os.path.exists(path))
    mine = start(OTHER, SLEEP)
    hostile = [start(HOSTILE, ARGUMENTS, mount + "/file", "x" * 9000), start(HOSTILE, EXEC, mount + "/file")]
    time.sleep(1)
    try:
        check("attach before", (attach(OTHER, path, mine.pid) or {}).get("ok"))
        for name, process in zip(("arguments", "held exec"), hostile):
            asking = subprocess.Popen([sys.executable, __file__, "--attach", str(HOSTILE), path, str(process.pid)],
                                      stdout=subprocess.PIPE, text=True)
            time.sleep(0.2)
            got = attach(OTHER, path, mine.pid)
            check(name + ": another user attaches", got and got.get("ok"), got)
            got = ask(OTHER, path, {"req": "status"}, 5)
            check(name + ": status answers", got and got.get("ok"), got)
            got = json.loads(asking.communicate()[0] or "null")
            check(name + ": refused by name", got and got.get("code") == "MUTE", got)
            time.sleep(6)
        daemon.send_signal(signal.SIGTERM)
        check("SIGTERM ends the daemon", until(lambda: daemon.poll() is not None, 10) is not None)
    finally:
        for process in [mine, daemon] + hostile:
            process.kill()
        mute.end()
        for process in [mine, daemon] + hostile:
            process.wait()
        subprocess.run(["rm", "-rf", work], check=False)
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**results))
    return bool(results["failed"])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--attach"]:
        print(json.dumps(attach(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))))
    else:
        sys.exit(main())
