# SPDX-License-Identifier: MIT
"""A control group (cgroup v2) of a test's own."""
import contextlib
import os
import tempfile

from lib.wait import until


def make(name=None):
    """A new one's folder, or None: there are none here."""
    with open("/proc/mounts") as mounts:
        places = [line.split()[1] for line in mounts if line.split()[2] == "cgroup2"]
    try:
        if not name:
            return tempfile.mkdtemp(prefix="cprofd-", dir=places[0])
        os.mkdir(os.path.join(places[0], name))
        return os.path.join(places[0], name)
    except (IndexError, OSError):
        return None


def end(cgroup):
    def ended():
        with contextlib.suppress(OSError):  # who was in it is a zombie still
            os.rmdir(cgroup)
            return True
    if cgroup:
        until(ended, 5)
