#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# run-live: beside
"""Are the unwind tables and the lines of one session used by the next?

    cache.py

Evidence is in the cache folder: a file that is read gets a new access time, and a file that is made anew is renamed into place."""
import os
import subprocess
import tempfile
import time

from lib.command import BUSY, CPROFD, PYTHON, environment, expect

TARGET = BUSY + "import ssl, decimal, ctypes\nbusy(60)\n"


def attach(pid, cache, output):
    subprocess.run([CPROFD, "attach", "-q", "-d", "2", "--native", "-f", "events", "-o", output, str(pid)], check=True,
                   env=environment(CACHE_DIRECTORY=cache), stdout=subprocess.DEVNULL)


def tables(cache):
    found = {}
    for folder, _, files in os.walk(cache):
        for name in files:
            if name.endswith((".unwind", ".kept")):
                state = os.stat(os.path.join(folder, name))
                found[name] = (state.st_ino, state.st_mtime_ns, state.st_atime_ns)
    return found


def main():
    passed = 0
    with tempfile.TemporaryDirectory() as folder:
        cache = os.path.join(folder, "cache")
        os.mkdir(cache, 0o755)
        os.chmod(folder, 0o755)
        target = subprocess.Popen([PYTHON, "-c", TARGET], stdout=subprocess.PIPE)
        try:
            target.stdout.readline()
            attach(target.pid, cache, os.path.join(folder, "first.cprof"))
            for place, _, files in os.walk(cache):
                for name in files:  # mounted with relatime: a read is noted if it is the first since the file was written
                    path = os.path.join(place, name)
                    os.utime(path, ns=(0, os.stat(path).st_mtime_ns))
            first = tables(cache)
            expect(first, "the first session kept no table")
            print("ok a session keeps its tables: %d" % len(first))
            passed += 1
            time.sleep(0.1)
            attach(target.pid, cache, os.path.join(folder, "second.cprof"))
            second = tables(cache)
        finally:
            target.kill()
            target.wait()
    expect(any(name.endswith(".kept") for name in first) or not os.path.isdir("/usr/lib/debug/.build-id"), "no lines were kept")
    # A function more was met: its lines or names were added.
    anew = [name for name in first if not name.startswith(("lines-", "names-")) and second.get(name, ())[:2] != first[name][:2]]
    expect(not anew, "the next session made anew what was kept", anew)
    # Unpacked debug information is read when a function more was met.
    unread = [name for name in first if second[name][2] <= first[name][2] and not name.startswith("sections-")]
    expect(not unread, "the next session did not read tables", unread)
    print("ok the next session reads them")
    print("%d passed, 0 failed, 0 skipped" % (passed + 1))


main()
