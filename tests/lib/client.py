# SPDX-License-Identifier: MIT
"""A client of cprofd's socket, and a daemon started for the test."""
import array
import contextlib
import json
import os
import socket
import struct
import subprocess
import time

from lib import CPROFD


class Refused(Exception):
    def __init__(self, answer):
        super().__init__(f"{answer.get('code')}: {answer.get('error')}")
        self.answer = answer
        self.code = answer.get("code")


class Client:
    """One connection. Raw lines of events are kept as they came, in order."""

    def __init__(self, path, timeout=60, connected=None, pids=()):
        """`pids`: what root will ask for (docs/protocol.md, Root). What it asks for otherwise is named by a connection more."""
        self.path, self.named = path, {int(pid) for pid in pids}
        self.socket = connected or socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        if pids:
            self.socket.bind(b"\0cprofd\0" + os.urandom(16) + struct.pack("=%di" % len(pids), *pids))
        if not connected:
            self.socket.connect(path)
        self.data = b""
        self.events = []          # raw lines that are no answers
        self.last_id = 0
        self.hello = json.loads(self.line())

    def close(self):
        self.socket.close()

    def name(self, pid):
        """Until root's engine ends it may ask for what any of its clients named."""
        if not os.geteuid() and pid not in self.named:
            Client(self.path, pids=[pid]).close()
            self.named.add(pid)

    def line(self):
        while b"\n" not in self.data:
            more = self.socket.recv(1 << 20)
            if not more:
                raise EOFError("the server closed the connection")
            self.data += more
        line, _, self.data = self.data.partition(b"\n")
        return line

    def read(self, n):
        while len(self.data) < n:
            more = self.socket.recv(1 << 20)
            if not more:
                raise EOFError("the server closed the connection")
            self.data += more
        out, self.data = self.data[:n], self.data[n:]
        return out

    def answer(self):
        """The next answer; events before it are kept."""
        while True:
            line = self.line()
            if line.startswith(b'{"ev":"answer"'):
                return json.loads(line)
            self.events.append(line)

    def request(self, req, fds=(), **keys):
        if req in ("attach", "dump") and isinstance(keys.get("pid"), int) and 0 < keys["pid"] < 1 << 31:
            self.name(keys["pid"])
        self.last_id += 1
        line = json.dumps({"req": req, "id": self.last_id, **keys}).encode() + b"\n"
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        with contextlib.suppress(BrokenPipeError): # refused as it connected: that is there to be read
            self.socket.sendmsg([line], ancillary)
        answer = self.answer()
        assert answer.get("id") == self.last_id or "id" not in answer and not answer["ok"], answer
        if not answer["ok"]:
            raise Refused(answer)
        return answer

    def until_end(self):
        """Raw lines up to and with `end`."""
        while not self.events or not self.events[-1].startswith(b'{"ev":"end"'):
            line = self.line()
            if not line.startswith(b'{"ev":"answer"'):
                self.events.append(line)
        return self.events


class Daemon:
    """`cprofd serve` on a socket of its own."""

    def __init__(self, folder, env=None):
        self.path = os.path.join(folder, "socket")
        self.process = subprocess.Popen([CPROFD, "serve", "--allow=own", "--socket", self.path], env=env)
        deadline = time.monotonic() + 60
        while not os.path.exists(self.path):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("cprofd serve did not start")
            time.sleep(0.02)

    def connect(self, **keys):
        return Client(self.path, **keys)

    def engines(self):
        """pids of the daemon's children that run."""
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as f:
            return [int(pid) for pid in f.read().split()]

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False
        return True
