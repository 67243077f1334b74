# SPDX-License-Identifier: MIT
"""Profiles this process through the daemon."""
from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from typing import Any

from .client import Client, Error
from .recording import Recording


def _unlink(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)


class Profile(Recording):
    """A recording of this process, from `with` to the end of its block.

    path: where it is kept; without one it goes with this object. The other arguments are those of the request `attach` of the protocol."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, rate: int = 999, native: str = "full", mode: str = "cpu",
                 subprocesses: bool = False, socket: str | None = None, **more: Any) -> None:
        self._own = path is None
        super().__init__(path if path is not None else "")
        self._keys = dict(rate=rate, native=native, mode=mode, subprocesses=subprocesses, **more)
        self._where = socket
        self._client: Client | None = None
        self._session = 0

    def start(self) -> None:
        if self._client:
            raise Error("this profile was started already")
        client = Client(self._where, pid=os.getpid())
        try:
            self._session = client.request("attach", pid=os.getpid(), stream=False, spool=True, **self._keys)["session"]
        except BaseException:
            client.close()
            raise
        self._client = client

    def stop(self) -> None:
        client, self._client = self._client, None
        if not client:
            raise Error("this profile was not started")
        with client:
            if self._own:
                file, self.path = tempfile.mkstemp(prefix="cprofd-", suffix=".cprof")
                weakref.finalize(self, _unlink, self.path)
            else:
                file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            try:
                client.request("stop", pass_fd=file, session=self._session, fd=True)
            finally:
                os.close(file)

    def __enter__(self) -> Profile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()



def profile(path: str | os.PathLike[str] | None = None, **how: Any) -> Profile:
    """`with cprofd.profile() as p:` profiles this process; afterwards `p` is its recording."""
    return Profile(path, **how)
