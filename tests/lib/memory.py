# SPDX-License-Identifier: MIT
"""Processes that belong together, and the memory that they take."""
import contextlib
import os
import re


def family(pid):
    """A process and all that it started, by any of its threads; whoever ended meanwhile is left out."""
    found = [pid]
    with contextlib.suppress(OSError):
        for tid in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, tid)) as file:
                found += [one for child in file.read().split() for one in family(int(child))]
    return found


def fdinfo_of(pid):
    """What the kernel says of each descriptor of a process: {key: value}."""
    with contextlib.suppress(OSError):
        for fd in os.listdir("/proc/%d/fdinfo" % pid):
            with contextlib.suppress(OSError), open("/proc/%d/fdinfo/%s" % (pid, fd)) as file:
                yield dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def maps_of(pid):
    """{map id: bytes} of the BPF maps that a process holds, as the kernel counts them."""
    return {keys["map_id"]: int(keys["memlock"]) for keys in fdinfo_of(pid) if "map_id" in keys}


def pss_of(pid):
    """Bytes. Without pages of maps, which are counted there."""
    try:
        with open("/proc/%d/smaps" % pid) as file:
            parts = re.split(r"^[0-9a-f]+-[0-9a-f]+ ", file.read(), flags=re.M)
    except OSError: # it was a helper, and has ended
        return 0
    return sum(int(re.search(r"^Pss: +(\d+)", part, re.M)[1]) * 1024 for part in parts[1:] if "anon_inode:bpf" not in part.split("\n")[0])
