# SPDX-License-Identifier: MIT
"""Profiles this process through the daemon."""
from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from typing import Any

from .client import Client, Error
from .recording import Compile, Recording


def _unlink(path: str, pid: int) -> None:
    """Not in a child that was forked meanwhile: the file is its parent's."""
    if os.getpid() == pid:
        with contextlib.suppress(OSError):
            os.unlink(path)


class Profile(Recording):
    """A recording of this process, from `with` to the end of its block.

    path: where it is kept; without one it goes with this object. The other arguments are those of the request `attach` of the protocol.
    A child that is forked in the block is recorded with `subprocesses`; leaving the block, it leaves the recording to its parent."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, rate: int = 999, native: str = "full", mode: str = "cpu",
                 subprocesses: bool = False, idle: bool = False, kernel: bool = False, gil: bool = False, socket: str | None = None) -> None:
        self._own = path is None
        super().__init__(os.path.abspath(path) if path is not None else "")
        self._keys: dict[str, Any] = dict(rate=rate, native=native, mode=mode, subprocesses=subprocesses, idle=idle, kernel=kernel, gil=gil)
        self._where = socket
        self._client: Client | None = None
        self._session = self._pid = 0
        self._file = -1
        self._finalizer: Any = None

    def _open(self) -> int:
        """The file, before anything is recorded for it."""
        if self._finalizer:
            self._finalizer()
        try:
            if not self._own:
                return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            file, self.path = tempfile.mkstemp(prefix="cprofd-", suffix=".cprof")
        except OSError as error:
            raise Error("no recording can be written: %s" % error) from None
        self._finalizer = weakref.finalize(self, _unlink, self.path, os.getpid())
        return file

    def start(self) -> None:
        if self._client:
            raise Error("this profile was started already")
        self._about, self._units, self._pid = None, None, os.getpid()
        client = Client(self._where, pid=self._pid)
        try:
            if "stop-fd" not in client.hello.get("features", ()):
                raise Error("the daemon at %s is of an older version than this package" % client.path)
            self._file = self._open()
            self._session = client.request("attach", pid=self._pid, stream=False, spool=True, **self._keys)["session"]
        except BaseException:
            client.close()
            if self._file >= 0:
                os.close(self._file)
            self._file = -1
            raise
        self._client = client

    def stop(self) -> None:
        client, self._client = self._client, None
        if not client:
            raise Error("this profile was not started")
        try:
            with client:
                if os.getpid() == self._pid:
                    client.request("stop", pass_fd=self._file, session=self._session, fd=True)
        finally:
            os.close(self._file)
            self._file = -1

    @property
    def units(self) -> list[Compile]:
        if self._client:
            raise Error("this profile goes on: its compiles are known when it has ended")
        return super().units

    def __enter__(self) -> Profile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def profile(path: str | os.PathLike[str] | None = None, **how: Any) -> Profile:
    """`with cprofd.profile() as p:` profiles this process; afterwards `p` is its recording."""
    return Profile(path, **how)
