# SPDX-License-Identifier: MIT
"""Spends known shares of its CPU time: bytecode, builtins, an extension, the collector, imports, page faults, a system call.

    splits.py SECONDS    prints "up"; then, when it is asked by a line on stdin, and again: the CPU time of each so far, as JSON

Asked for "marks": {"tid", "marks": [[CLOCK_MONOTONIC, how long it was ready without a CPU (the kernel's run_delay), CPU time of
each], ...]}, one of each round."""
import gc
import importlib
import json
import mmap
import os
import sys
import tempfile
import threading
import time
import zlib

clock = time.CLOCK_THREAD_CPUTIME_ID
marks = []
delays = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
used = dict.fromkeys(["bytecode", "builtin", "extension", "collector", "import", "fault", "syscall"], 0)
numbers = [i * 7919 % 100003 for i in range(60000)]
data = os.urandom(1 << 16)
junk = []
for i in range(16000):
    row = [i]
    row.append(row)
    junk.append(row)
folder = tempfile.mkdtemp()
with open(os.path.join(folder, "imported_much.py"), "w") as f:
    f.write("".join("def f%d(a, b=%d):\n    'words %d'\n    return a + b, [a for a in b], {'k%d': a}\n" % (i, i, i, i) for i in range(900)))
sys.path.insert(0, folder)
sys.dont_write_bytecode = False
importlib.import_module("imported_much")
gc.disable()


# Instructions that call nothing.
exec("def bytecode(a=1, b=2, c=3):\n    for i in range(100):\n" + "        a, b, c = c, a, b\n        if a is b: c = a\n" * 1500)


def builtin():
    for i in range(2):
        numbers.count("none of these") # makes nothing that would have to be freed


def extension():
    zlib.compress(data, 6)


def collector():
    gc.collect()


def importing():
    for i in range(2):
        sys.modules.pop("imported_much", None)
        import imported_much


def fault():
    size = 2 << 20
    room = mmap.mmap(-1, size)
    room[::4096] = bytes(size // 4096)
    room.close()


zero = os.open("/dev/zero", os.O_RDONLY)


def syscall():
    for i in range(30):
        os.pread(zero, 1 << 20, 0) # so large that the call itself is nothing


ways = dict(zip(used, [bytecode, builtin, extension, collector, importing, fault, syscall]))


def tell():
    for line in sys.stdin:
        print(json.dumps({"tid": os.getpid(), "marks": marks[:]} if line == "marks\n" else used), flush=True)


threading.Thread(target=tell, daemon=True).start()
print("up", flush=True)
end = time.time() + float(sys.argv[1])
while time.time() < end:
    for name, way in ways.items():
        began = time.clock_gettime_ns(clock)
        way()
        used[name] += time.clock_gettime_ns(clock) - began
    marks.append([time.clock_gettime_ns(time.CLOCK_MONOTONIC), int(os.pread(delays, 100, 0).split()[1]), *used.values()])
