#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Kernel stacks of a program that makes nothing but one system call, against perf's own stacks and /proc/kallsyms. Needs root.

    kernel_stacks.py [SECONDS]"""
import os
import re
import signal
import subprocess
import sys
import tempfile

from lib import CPROFD
from lib.wait import until
from lib.result import check, finish, skip

SECONDS = sys.argv[1] if len(sys.argv) > 1 else "2"
TARGET = """
import os, sys
def in_read():
    fd = os.open("/dev/zero", os.O_RDONLY)
    while True:
        os.read(fd, 1 << 20)
def in_getrandom():
    while True:
        os.getrandom(1 << 16)
def outside():
    while True:
        sum(range(1000))
print("up", flush=True)
globals()[sys.argv[1]]()
"""


def target(function):
    process = subprocess.Popen(["/usr/bin/python3", "-c", TARGET, function], stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    return process


def end(process):
    process.kill()
    process.wait()


def attach(work, pid, *options, before=()):
    """[(frames, weight)], outermost first; what was said."""
    out = os.path.join(work, "out.txt")
    if os.path.exists(out):
        os.unlink(out)
    run = subprocess.run([*before, CPROFD, "attach", str(pid), "-d", SECONDS, "-f", "collapsed", "-o", out, *options],
                         capture_output=True, text=True, timeout=60)
    stacks = []
    if os.path.exists(out):
        for line in open(out):
            frames, weight = line.rstrip("\n").rsplit(" ", 1)
            stacks.append(([re.sub(r" \([^()]*\)$", "", f) for f in frames.split(";")], int(weight),
                           [f.endswith("(kernel)") for f in frames.split(";")]))
    return stacks, run.stderr, run.returncode


def clean(name):
    return name.split(" ")[0].split(".")[0]


def perf_pairs(work, pid):
    """Who called whom, by perf."""
    data = os.path.join(work, "perf.data")
    if subprocess.run(["perf", "record", "-q", "-e", "cpu-clock:k", "-F", "1999", "-g", "-p", str(pid), "-o", data, "--",
                       "sleep", SECONDS], capture_output=True).returncode:
        return None
    text = subprocess.run(["perf", "script", "-i", data, "-F", "ip,sym"], capture_output=True, text=True).stdout
    pairs, last = set(), None
    for line in text.splitlines() + [""]:
        words = line.split()
        if len(words) < 2:
            last = None
        elif words[0].startswith("ffffffff"):
            if last:
                pairs.add((clean(words[1]), last))
            last = clean(words[1])
    return pairs


# Where the work is done, and what must be around it.
CALLS = {"in_read": ("ksys_read", "read"), "in_getrandom": ("__x64_sys_getrandom", "syscall")}
ENTRY = "entry_SYSCALL_64_after_hwframe"


def known(work, function):
    within, libc = CALLS[function]
    process = target(function)
    theirs = perf_pairs(work, process.pid)
    stacks, said, _ = attach(work, process.pid, "--kernel", "--native=off")
    native, said_native, _ = attach(work, process.pid, "--kernel", "--native")
    plain, _, _ = attach(work, process.pid, "--native=off")
    end(process)
    kernel = [s for s in stacks if any(s[2])]
    total, inside = sum(s[1] for s in stacks), sum(s[1] for s in kernel)
    right = sum(w for f, w, k in kernel if within in f and ENTRY in f and function in f and
                f.index(function) < f.index(ENTRY) < f.index(within))
    print("%s: %.1f %% of the time in the kernel, %.2f %% of it in %s" %
          (function, 100 * inside / max(total, 1), 100 * right / max(inside, 1), within))
    check(inside > total / 2 and right > 0.95 * inside, f"{function}: the kernel's frames lie inside of the Python function's",
          stacks[:3], said)
    check(all(k == sorted(k) for _, _, k in kernel), f"{function}: no frame of user space lies inside of the kernel's")
    names = {line.split()[2] for line in open("/proc/kallsyms")}
    strange = {f for frames, _, k in kernel for f, is_kernel in zip(frames, k) if is_kernel} - names
    check(not {clean(s) for s in strange} - {clean(n) for n in names}, f"{function}: /proc/kallsyms has all names", strange)
    interrupts = [f for frames, _, k in kernel for f in frames[-4:] if "hrtimer_interrupt" in f or "perf_swevent" in f]
    check(not interrupts, f"{function}: the interrupt that took the sample is none of it", interrupts[:3])
    if theirs:
        wrong = sum(w for f, w, k in kernel
                    if any((clean(a), clean(b)) not in theirs
                           for a, b, both in zip(f, f[1:], k) if both and a != ENTRY))
        check(wrong < 0.02 * inside, f"{function}: who calls whom is what perf says", wrong, inside)
    else:
        skip(f"{function}: perf does not run here")
    good = sum(w for f, w, k in native if any(k) and libc in f and function in f and ENTRY in f and
               f.index(function) < f.index(libc) < f.index(ENTRY) and f.index(ENTRY) == f.index(libc) + 1)
    cut = sum(w for f, w, k in native if any("(cut" in x for x in f))
    check(good > 0.9 * (sum(w for f, w, k in native if any(k)) - cut) > 0,
          f"{function}: with native frames, libc's {libc} is between", native[:3], said_native)
    check(not any(any(k) for _, _, k in plain), f"{function}: nothing of the kernel without --kernel")


def none(work):
    process = target("outside")
    stacks, _, _ = attach(work, process.pid, "--kernel", "--native=off")
    end(process)
    share = sum(w for _, w, k in stacks if any(k)) / max(sum(s[1] for s in stacks), 1)
    check(share < 0.2, "a program that stays outside of the kernel has little of it", share)


def hidden(work):
    """Without CAP_SYSLOG the kernel shows no address (unless perf_event_paranoid is low)."""
    drop = ["capsh", "--drop=cap_syslog", "--", "-c", '"$0" "$@"']
    seen = subprocess.run([*drop, "head", "-n", "1", "/proc/kallsyms"], capture_output=True, text=True)
    if seen.returncode or not seen.stdout.startswith("0" * 16) or int(open("/proc/sys/kernel/perf_event_paranoid").read()) <= 1:
        skip("hidden names: this kernel shows them to everybody")
        return
    process = target("in_read")
    stacks, said, _ = attach(work, process.pid, "--kernel", "--native=off", before=drop)
    end(process)
    kernel = [f for f, _, k in stacks if any(k) and "in_read" in f]
    once = [f for f in kernel if f.count("[kernel]") == 1 and f[-1] == "[kernel]"]
    check(kernel and len(once) >= len(kernel) - 1, "hidden names: one frame [kernel]", kernel[:5])
    check("kernel_hidden" in said, "hidden names: the summary says so", said)


def others(work):
    """perf_event_open's own rule: who is not root needs a low perf_event_paranoid."""
    if int(open("/proc/sys/kernel/perf_event_paranoid").read()) <= 1:
        skip("other users: perf_event_paranoid lets them see the kernel")
        return
    os.chmod(work, 0o755)
    path = os.path.join(work, "socket")
    daemon = subprocess.Popen([CPROFD, "serve", "--allow=own", "--socket", path], stderr=subprocess.DEVNULL)
    until(lambda: os.path.exists(path))
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    process = subprocess.Popen([*nobody, "/usr/bin/python3", "-c", TARGET, "in_read"], stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    words = [CPROFD, "attach", str(process.pid), "-d", "1", "-f", "collapsed", "-o", "-", "--socket", path]
    with_it = subprocess.run([*nobody, *words, "--kernel"], capture_output=True, text=True)
    without = subprocess.run([*nobody, *words], capture_output=True, text=True)
    end(process)
    daemon.send_signal(signal.SIGTERM)
    daemon.wait()
    check(with_it.returncode == 1 and "perf_event_paranoid" in with_it.stderr, "another user is refused, with the reason",
          with_it.stderr)
    check(without.returncode == 0 and "in_read" in without.stdout, "and may sample without it", without.stderr)


with tempfile.TemporaryDirectory() as work:
    for function in CALLS:
        known(work, function)
    none(work)
    hidden(work)
    others(work)
sys.exit(finish())
