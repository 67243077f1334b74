# SPDX-License-Identifier: MIT
"""The daemon's socket (docs/protocol.md of cprofd): requests and their answers."""
from __future__ import annotations

import array
import json
import os
import socket
import struct
from typing import Any

PATH = "/run/cprofd/cprofd.sock"
LINE_MAX = 5 << 20  # the server's lines are at most 4 MiB


class Error(Exception):
    """Something went wrong; its text says what to do."""


class NoDaemon(Error):
    """No daemon answers at the socket."""


class Refused(Error):
    """The daemon refused a request. `code` is for programs: "NOT_YOURS", "LIMIT" ..."""

    def __init__(self, answer: dict[str, Any]) -> None:
        text = answer.get("error", "refused")
        super().__init__("%s (%s)" % (text, answer["hint"]) if answer.get("hint") else text)
        self.code: str = answer.get("code", "")


class Client:
    """A connection, of one thread. Root names the process that it will ask for, as the daemon wants."""

    def __init__(self, path: str | None = None, pid: int | None = None, timeout: float = 60) -> None:
        self.path = path or os.environ.get("CPROFD_SOCKET", PATH)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        self._data = b""
        self._id = 0
        try:
            if pid is not None and os.geteuid() == 0:
                self._socket.bind(b"\0cprofd\0" + os.urandom(16) + struct.pack("=i", pid))
            self._socket.connect(self.path)
            self.hello = json.loads(self._line())
        except OSError as error:
            self.close()
            raise NoDaemon(
                "no cprofd daemon answers at %s: %s. `sudo systemctl enable --now cprofd.socket` starts it, or `sudo cprofd serve`"
                % (self.path, "you may not connect (group cprofd?)" if isinstance(error, PermissionError) else error.strerror or error)
            ) from None

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def _line(self) -> bytes:
        while b"\n" not in self._data:
            more = self._socket.recv(1 << 20)
            if not more or len(self._data) > LINE_MAX:
                raise Error("the daemon closed the connection")
            self._data += more
        line, _, self._data = self._data.partition(b"\n")
        return line

    def request(self, req: str, pass_fd: int | None = None, **keys: Any) -> dict[str, Any]:
        """The answer to a request. Events that come before it are dropped: ask for sessions without `stream`."""
        self._id += 1
        line = json.dumps({"req": req, "id": self._id, **keys}).encode() + b"\n"
        passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [pass_fd]))] if pass_fd is not None else []
        try:
            self._socket.sendmsg([line], passed)
        except BrokenPipeError:
            pass  # why is in what it sent before
        except OSError as error:
            raise Error("the daemon does not answer: %s" % error) from None
        while True:
            try:
                answer = json.loads(self._line())
            except socket.timeout:
                raise Error("the daemon does not answer") from None
            if answer.get("ev") == "answer" and answer.get("id", self._id) == self._id:
                break
        if not answer.get("ok"):
            raise Refused(answer)
        return answer  # type: ignore[no-any-return]
