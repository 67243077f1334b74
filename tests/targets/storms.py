# SPDX-License-Identifier: MIT
"""A target of tests/live/storms.py: does too much of one thing, until its input ends.

    storms.py KIND COUNTER [PROGRAM]

COUNTER is a file whose first 8 bytes are how many it has made so far. It prints `up` when it has begun to make them at full rate. PROGRAM: of `jit`,
jit_churn; of `dlopen`, a library with a function `work` that takes ms."""
import ctypes
import itertools
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import _ctypes

EXEC_RATE, THREAD_RATE = 500, 1000  # a second
BOMB, CROWD, OBJECTS, MAPPINGS = 2000, 5000, 100000, 50000
IMAGE = 3800 # bytes of an object's image, about
PR_SET_PDEATHSIG = 1
LONGEST = 600  # s: by then it ends in any case

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
over = threading.Event()


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Counter:
    def __init__(self, path):
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 8)
        self.n = 0

    def add(self, n=1):
        self.set(self.n + n)

    def set(self, n):
        self.n = n
        struct.pack_into("Q", self.memory, 0, self.n)


def paced(rate):
    """Comes back at this rate, and catches up."""
    begin = time.monotonic()
    for n in itertools.count(1):
        if over.is_set():
            return
        yield n
        time.sleep(max(0, begin + n / rate - time.monotonic()))


def execs(counter):
    """Programs that end at once, of which at most 50 are waited for."""
    running = 0
    for _ in paced(EXEC_RATE):
        os.posix_spawn("/bin/true", ["true"], {})
        counter.add()
        running += 1
        while running and os.waitpid(-1, 0 if running > 50 else os.WNOHANG)[0]:
            running -= 1
    while running:
        os.waitpid(-1, 0)
        running -= 1


def bomb(counter):
    """Each process forks two, those two each, ... until there are 2,000, which live until the last is there; then again."""
    while not over.is_set():
        ready, go = os.pipe(), os.pipe()
        top = explode(1, ready, go)
        os.close(ready[1])
        born = 0
        while more := os.read(ready[0], 4096):
            born += len(more)
            counter.add(len(more))
            if born >= BOMB:
                break
        os.close(go[0])
        os.close(go[1])
        for pid in top:
            os.waitpid(pid, 0)
        os.close(ready[0])


def explode(number, ready, go):
    """Processes are numbered as a heap is; the target is number 1, and no other number is above BOMB + 1."""
    children = []
    for child in (2 * number, 2 * number + 1):
        if child > BOMB + 1:
            continue
        pid = os.fork()
        if pid:
            children.append(pid)
            continue
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        mine = explode(child, ready, go)
        os.close(go[1])
        spin(0.001)
        os.write(ready[1], b"x")
        os.close(ready[1])
        os.read(go[0], 1)
        for pid in mine:
            os.waitpid(pid, 0)
        os._exit(0)
    return children


def births(counter):
    """Threads that live for 0.3 ms of CPU."""
    for _ in paced(THREAD_RATE):
        thread = threading.Thread(target=spin, args=(0.0003,))
        thread.start()
        counter.add()
        if threading.active_count() > 200:
            thread.join()


def crowd(counter):
    """Threads of which each one runs for a moment every 10 s."""
    def live():
        counter_lock.acquire()
        counter.add()
        counter_lock.release()
        while not over.wait(random.uniform(5, 15)):
            spin(0.0005)
    counter_lock = threading.Lock()
    threading.stack_size(65536)
    for _ in range(CROWD):
        threading.Thread(target=live, daemon=True).start()
    up()
    while not over.is_set():
        spin(0.002)
        time.sleep(0.02)


def dlopen(counter):
    """Copies of a library, loaded, called, and unloaded in turn, where the one before lay."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [shutil.copy(sys.argv[3], os.path.join(folder, "storm_%d.so" % i)) for i in range(40)]
        while not over.is_set():
            library = ctypes.CDLL(random.choice(paths))
            library.work(1)
            _ctypes.dlclose(library._handle)
            counter.add()


def jit(counter):
    """100,000 objects on the list of a child, which come and go."""
    begun = False
    child = subprocess.Popen([sys.argv[3], str(LONGEST), str(OBJECTS)], stdout=subprocess.PIPE)
    child.stdout.readline()
    while not over.is_set():
        with open("/proc/%d/statm" % child.pid) as file:
            counter.set(int(file.read().split()[1]) * 4096 // IMAGE)
        if not begun and counter.n > 0.9 * OBJECTS:
            begun = up() or True
        spin(0.002)
        time.sleep(0.02)
    child.kill()
    child.wait()


def mappings(counter):
    """50,000 in each of two processes, every other one executable; some come and go."""
    READ, EXECUTE, PRIVATE_ANONYMOUS = 1, 4, 0x22
    places = [libc.mmap(None, 4096, READ | (EXECUTE if i % 2 else 0), PRIVATE_ANONYMOUS, -1, 0) for i in range(MAPPINGS)]
    child = os.fork()
    if not child:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    else:
        counter.add(2 * MAPPINGS)
        up()
    while child == 0 or not over.is_set():
        i = random.randrange(MAPPINGS)
        libc.munmap(places[i], 4096)
        places[i] = libc.mmap(None, 4096, READ | (EXECUTE if i % 2 else 0), PRIVATE_ANONYMOUS, -1, 0)
        spin(0.002)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def churn(counter):
    """Functions that are never the same: recordings grow."""
    for n in itertools.count():
        if over.is_set():
            return
        name, space = "f%d_%s" % (n, "".join(random.choices("abcdefgh", k=400))), {"spin": spin}
        exec("def %s():\n    spin(0.001)\n" % name, space)
        space[name]()
        counter.add()


KINDS = {"churn": churn, "exec": execs, "fork": bomb, "births": births, "threads": crowd, "dlopen": dlopen, "jit": jit, "mappings": mappings}


def up():
    os.write(1, b"up\n")


def main():
    counter = Counter(sys.argv[2])
    signal.alarm(LONGEST)
    threading.Thread(target=lambda: (os.read(0, 1), over.set()), daemon=True).start()
    if sys.argv[1] not in ("threads", "jit", "mappings"):
        up()
    KINDS[sys.argv[1]](counter)


main()
