#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Unwind tables are cached across sessions. Can a forged file poison the tables of the genuine one? And are damaged files of the
cache harmless?

    cache_poison.py      needs root

A library comes in two builds that differ in nothing but .eh_frame: build-id, headers, size and code are the same, and so are the
name and the time of the last change where they are put. The forged one is profiled first; then the genuine one must be whole.

run-live: beside
"""
import contextlib
import mmap
import os
import re
import subprocess
import sys
import tempfile
import time

import freeze
from lib.command import CPROFD, PYTHON, environment, expect
from lib.result import check, finish, skip

DEPTH = 12
FUNCTIONS = 3000    # others: small tables are not worth keeping
BUILD_ID = "5a" * 20
SOURCE = "volatile long sink;\n" \
    "__attribute__((noinline)) long deep0(long n) { long s = 0; while (n--) s += n ^ sink; return s; }\n" + "".join(
        "__attribute__((noinline)) long deep%d(long n) { volatile char pad[%d]; pad[n & 7] = 1; return deep%d(n) + pad[n & 7]; }\n" % (i, 24 + i % 3 * 16, i - 1)
        for i in range(1, DEPTH)) + "long work(long n) { return deep%d(n) + 1; }\n" % (DEPTH - 1) + "".join(
        "long other%d(long n) { volatile char pad[%d]; pad[n & 7] = 1; return deep0(n) + pad[n & 7]; }\n" % (i, 24 + i % 4 * 16) for i in range(FUNCTIONS))
TARGET = "import ctypes, sys\nlib = ctypes.CDLL(sys.argv[1])\nprint('up', flush=True)\nwhile True: lib.work(3000000)\n"


def build(work):
    """The genuine and the forged library, as bytes."""
    with open(work + "/deep.c", "w") as file:
        file.write(SOURCE)
    subprocess.run(["gcc", "-O1", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-fPIC", "-S", "-o", work + "/deep.s", work + "/deep.c"], check=True)
    with open(work + "/deep.s") as file:
        text = file.read()
    # Frames that are 16 bytes larger than they are: no caller is found where it is said to be.
    wrong = re.sub(r"(\.cfi_def_cfa_offset )(\d+)", lambda m: m[1] + str(int(m[2]) + 16) if int(m[2]) > 16 else m[0], text)
    made = []
    for name, assembly in ("genuine", text), ("forged", wrong):
        with open(f"{work}/{name}.s", "w") as file:
            file.write(assembly)
        subprocess.run(["gcc", "-shared", "-Wl,--build-id=0x" + BUILD_ID, "-o", f"{work}/{name}.so", f"{work}/{name}.s"], check=True)
        made.append(read(f"{work}/{name}.so"))
    expect(len(made[0]) == len(made[1]) and made[0] != made[1], "the two builds are not of one size")
    return made


def put(path, data, when=None):
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, 0o755)
    if when:
        os.utime(path, ns=when)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def attach(library, cache, work):
    """The share of the library's time whose stacks are whole, with all its functions in order."""
    for seconds in 1, 3, 10, 30: # a loaded machine
        share = attach_for(seconds, library, cache, work)
        if share is not None:
            return share
    raise AssertionError("the library was not met")


def attach_for(seconds, library, cache, work):
    output = work + "/out.txt"
    with subprocess.Popen([PYTHON, "-c", TARGET, library], stdout=subprocess.PIPE, cwd="/") as target:
        try:
            expect(target.stdout.readline().strip() == b"up", "the target did not start")
            run = subprocess.run([CPROFD, "attach", "-q", "-d", str(seconds), "-f", "collapsed", "--interpreter-frames", "-o", output, str(target.pid)], env=environment(CACHE_DIRECTORY=cache),
                                 capture_output=True, text=True)
        finally:
            target.kill()
    expect(run.returncode == 0, "attach failed", run.stderr)
    want = ";".join(["work"] + ["deep%d" % i for i in reversed(range(DEPTH))])
    good = total = 0
    with open(output) as file:
        for line in file:
            stack, _, us = line.rpartition(" ")
            names = ";".join(frame.partition(" (")[0] for frame in stack.split(";"))
            if "deep" in names or "work" in names:
                total += int(us)
                good += int(us) * bool(want.startswith(names[names.find("work"):]) and "work" in names and re.match(r"_start|__libc_start|main", names))
    return good / total if total else None


def tables(cache):
    return {os.path.join(folder, name): b"" for folder, _, files in os.walk(cache) for name in files if name.endswith((".unwind", ".kept"))}


@contextlib.contextmanager
def mounted(*args):
    """mount ARGS... FOLDER"""
    subprocess.run(["mount", *args], check=True, capture_output=True)
    try:
        yield args[-1]
    finally:
        subprocess.run(["umount", "-l", args[-1]], check=True)


def state(path):
    status = os.stat(path)
    return status.st_atime_ns, status.st_mtime_ns


# --- attacks: each puts the forged library at a path, yields that, puts the genuine one there, yields again ---

def renamed(work, genuine, forged):
    path = work + "/lib.so"
    put(path, forged)
    when = state(path)
    yield path
    put(path + ".new", genuine, when)
    os.replace(path + ".new", path)
    yield path


def rewritten(work, genuine, forged):
    path = work + "/lib.so"
    put(path, forged)
    when = state(path)
    yield path
    with open(path, "r+b") as file: # the same inode
        file.write(genuine)
    os.utime(path, ns=when)
    expect(state(path) == when, "the time was not put back")
    yield path


def mapped(work, genuine, forged):
    """Changed through memory, without a write()."""
    path = work + "/lib.so"
    put(path, forged)
    when = state(path)
    yield path
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), len(genuine)) as memory:
        memory[:] = genuine
        memory.flush()
    os.utime(path, ns=when)
    yield path


def other_system(work, genuine, forged):
    """The same inode number, size and time on a file system that takes the place of the first, with its device number."""
    folder = work + "/mnt"
    os.makedirs(folder, exist_ok=True)
    with mounted("-t", "tmpfs", "cprofd-test", folder):
        put(folder + "/lib.so", forged)
        when, first = state(folder + "/lib.so"), os.stat(folder + "/lib.so")
        yield folder + "/lib.so"
    with mounted("-t", "tmpfs", "cprofd-test", folder):
        put(folder + "/lib.so", genuine, when)
        expect(os.stat(folder + "/lib.so").st_ino == first.st_ino, "tmpfs gave another inode number")
        yield folder + "/lib.so"


def bound(work, genuine, forged):
    """Mounted over the genuine one."""
    path = work + "/lib.so"
    put(path, genuine)
    put(work + "/other.so", forged, state(path))
    with mounted("--bind", work + "/other.so", path):
        yield path
    yield path


def overlaid(work, genuine, forged):
    for name in "lower", "upper", "work", "merged", "base":
        os.makedirs(f"{work}/o/{name}", exist_ok=True)
    with mounted("-t", "tmpfs", "cprofd-test", work + "/o/base"):
        for name in "lower", "upper", "work":
            os.mkdir(f"{work}/o/base/{name}")
        put(work + "/o/base/lower/lib.so", forged)
        when = state(work + "/o/base/lower/lib.so")
        with mounted("-t", "overlay", "-o", f"lowerdir={work}/o/base/lower,upperdir={work}/o/base/upper,workdir={work}/o/base/work", "overlay", work + "/o/merged"):
            path = work + "/o/merged/lib.so"
            yield path
            put(path + ".new", genuine, when)
            os.replace(path + ".new", path) # into the upper layer
            yield path


def of_fuse(work, genuine, forged):
    folder = work + "/fuse"
    os.makedirs(folder, exist_ok=True)
    mute = freeze.Unflushed(folder, forged)
    try:
        yield folder + "/file"
    finally:
        mute.close()
    put(folder + "/file", genuine)
    yield folder + "/file"


ATTACKS = (renamed, rewritten, mapped, other_system, bound, overlaid, of_fuse)


def attack(how, work, genuine, forged):
    cache = work + "/cache"
    os.mkdir(cache, 0o755)
    steps = how(work, genuine, forged)
    try:
        path = next(steps)
        whole = attach(path, cache, work)
        for _ in range(5): # tables are kept when nothing else is to be done
            kept = tables(cache)
            if how is of_fuse or any(BUILD_ID in name for name in kept):
                break
            whole = attach(path, cache, work)
        fuse = how is of_fuse # nothing of it is kept
        check(whole < 0.5, f"{how.__name__}: the forged library's own stacks are not whole: {whole:.2f}")
        check(any(os.path.basename(name).startswith(BUILD_ID) for name in kept) != fuse, f"{how.__name__}: {'nothing of it' if fuse else 'its table'} is kept", kept)
        path = next(steps)
        whole = attach(path, cache, work)
        check(whole > 0.9, f"{how.__name__}: the genuine one is whole behind it: {whole:.2f}")
    except (OSError, subprocess.CalledProcessError) as error:
        skip(f"{how.__name__}: {error}")
    finally:
        steps.close()


def damaged(work, genuine):
    """What is left of the cache is refused and made anew, or not: stacks are whole in any case."""
    cache, path = work + "/cache", work + "/lib.so"
    os.mkdir(cache, 0o755)
    put(path, genuine)
    attach(path, cache, work)
    kept = tables(cache)
    for number, name in enumerate(sorted(kept)):
        data = bytearray(read(name))
        how = number % 4
        if how == 0:
            data = data[:len(data) // 2]
        elif how == 1:
            data[len(data) // 2] ^= 0x40
        elif how == 2:
            data += bytes(64)
        else:
            data = bytearray(b"")
        with open(name, "wb") as file:
            file.write(data)
        kept[name] = bytes(data)
    whole = attach(path, cache, work)
    check(whole > 0.9, f"damaged: stacks are whole: {whole:.2f}")
    lib = [name for name in kept if name.endswith(".unwind")]
    for _ in range(5):
        if lib and all(os.path.exists(name) and read(name) != kept[name] for name in lib):
            break
        attach(path, cache, work)
    left = [name for name in lib if not os.path.exists(name) or read(name) == kept[name]]
    check(lib and not left, "damaged: what was cut, changed, lengthened, emptied is made anew", *left)
    for name in lib: # and what is no file
        os.unlink(name)
        if lib.index(name) % 2:
            os.mkfifo(name)
        else:
            os.symlink("/etc/passwd", name)
    started = time.monotonic()
    whole = attach(path, cache, work)
    check(whole > 0.9, f"damaged: symbolic links and pipes in place of tables: {whole:.2f}, {time.monotonic() - started:.1f} s")


def main():
    if os.geteuid():
        skip("needs root")
        finish()
        return 0
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        genuine, forged = build(top)
        for how in ATTACKS:
            work = os.path.join(top, how.__name__)
            os.mkdir(work)
            os.chmod(work, 0o755)
            attack(how, work, genuine, forged)
        work = os.path.join(top, "damaged")
        os.mkdir(work)
        damaged(work, genuine)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
