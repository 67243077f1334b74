# SPDX-License-Identifier: MIT
"""For tests that must pass on any machine, even a busy one: waits for conditions instead of times, and computes how far chance moves a share."""
import os
import subprocess
import time


def until(condition, seconds=60, pause=0.02):
    """Polls the condition and returns its first true result; None if there is none in time."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found or time.monotonic() > end:
            return found or None
        time.sleep(pause)


def mount_namespaces():
    """Whether there can be some: not in a root that was changed into and is no mount point itself, as a plain chroot's."""
    return subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0


def kernel_thread():
    """The number of one; 0 where none is seen, as in a PID namespace of its own."""
    for entry in os.listdir("/proc"):
        if entry.isdigit() and os.path.exists(f"/proc/{entry}/stat"):
            with open(f"/proc/{entry}/stat") as f:
                if int(f.read().rpartition(")")[2].split()[6]) & 0x200000:  # PF_KTHREAD
                    return int(entry)
    return 0


def used(pid):
    """Its CPU time so far: ticks of the clock."""
    with open("/proc/%d/stat" % pid) as file:
        words = file.read().rsplit(")", 1)[1].split()
    return int(words[11]) + int(words[12])


def cpu_share(seconds=1):
    """How much of a CPU there is for who wants one."""
    begin, end = time.thread_time(), time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return (time.thread_time() - begin) / seconds


def burned(pid, seconds):
    """Waits until a process has used so much more CPU: it is where it spends its time."""
    begin = used(pid)
    return until(lambda: used(pid) - begin >= seconds * os.sysconf("SC_CLK_TCK"))


def asleep(pid):
    """Waits until all threads of a process have slept for a while."""
    def sleeping():
        states = set()
        try:
            for tid in os.listdir("/proc/%d/task" % pid):
                with open("/proc/%d/task/%s/stat" % (pid, tid)) as file:
                    states.add(file.read().rsplit(")", 1)[1].split()[0])
        except OSError:  # a thread that ended
            return False
        return states == {"S"}
    quiet = 0
    while quiet < 3:
        quiet = quiet + 1 if until(sleeping) else 3
        time.sleep(0.02)


def recorded(path, client):
    """Waits until a client has begun to write a recording to this path, by whatever name it has meanwhile; or has ended."""
    folder, name = os.path.split(path)

    def begun():
        if client.poll() is not None:
            return True
        found = [os.path.join(folder, other) for other in os.listdir(folder) if name in other]
        return any(os.path.getsize(other) > 100 for other in found if os.path.exists(other))
    until(begun)


def spread(share, n):
    """Five standard deviations of a share of n samples: one run in a million is outside."""
    share = min(max(share, 0), 1)  # of what a clock says a little more is sampled
    return 5 * (share * (1 - share) / max(n, 1)) ** 0.5


def few(n, share):
    """How many of n may be what this share is at most in the long run; of 100,000 and more just that."""
    return share * n + 5 * (share * n) ** 0.5 if n < 100000 else share * n
