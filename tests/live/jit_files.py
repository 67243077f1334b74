#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What JIT compilers write for perf: perf maps and jitdumps of running processes, found, read as they grow, and believed no
further than they deserve.

    jit_files.py [CASE]...    needs root

What is true: the target says which function it runs from when to when; the names are those in its file; the code is
assembled by hand, so its callers are known."""
import collections
import concurrent.futures
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from lib import CPROFD, LIVE, ROOT
from lib.result import check, counts, finish, skip
from lib.wait import few, mount_namespaces, spread, until, used
from native_life import PYTHON, read

NOBODY = 65534
# Starts a program that is no Python, as its child.
PARENT = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
WORK = """
import sys, time
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def key(x):
    return fib(3) + x
def generate(n):
    for i in range(n):
        yield key(i)
def work():
    fib(11)
    sorted(range(20), key=key)
    sum(generate(20))
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    work()
"""
# Each time the trampolines are in new memory; CPython can do so 255 times.
SWITCHES = WORK + """
for _ in range(240):
    sys.activate_stack_trampoline("perf")
    for _ in range(12):
        work()
    sys.deactivate_stack_trampoline()
    work()
"""
# Who may be directly below whom in the programs above, its machinery left out.
BELOW = {"<module>": {"work"}, "work": {"fib", "generate", "key"}, "fib": {"fib"}, "key": {"fib"}, "generate": {"key"}}
SCRIPT = """
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
function mix(a) { let s = 0; for (const x of a) s += Math.sqrt(x) * 3; return s; }
function work() { const a = []; for (let i = 0; i < 2000; i++) a.push(i); return fib(20) + mix(a); }
const end = Date.now() + 1000 * Number(process.argv[2]);
while (Date.now() < end) work();
"""


def clean():
    for path in glob.glob("/tmp/perf-*.map") + glob.glob("/tmp/jit-*.dump"):
        pid = int(re.findall(r"-(\d+)\.", path)[0])
        if not os.path.exists("/proc/%d" % pid) and path not in BEFORE:
            os.unlink(path)


BEFORE = set(glob.glob("/tmp/perf-*.map") + glob.glob("/tmp/jit-*.dump"))


def build(work):
    path = os.path.join(work, "jit_files")
    subprocess.run(["gcc", "-std=gnu17", "-O2", "-g", "-D_GNU_SOURCE", "-I", os.path.join(ROOT, "daemon"), "-o", path,
                    os.path.join(ROOT, "tests/targets/jit_files.c"), os.path.join(ROOT, "daemon/base/buf.c")], check=True)
    return path


def record(work, command, *options, rate=999):
    """A recording of a child that is no Python; its standard output; what cprofd said."""
    out = os.path.join(work, "record.cprof")
    run = subprocess.run([CPROFD, "record", "-s", "--native", "-r", str(rate), "-f", "events", "-o", out, *options, "--", PYTHON, "-c",
                          PARENT, *command], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=400)
    stream = read(out)
    clean()
    return stream, run


def steps(text):
    """[(number, begin, end)]"""
    return [tuple(map(int, line.split())) for line in text.splitlines() if re.fullmatch(r"\d+ \d+ \d+", line)]


def judge(stream, told, after=0):
    """Of the samples within a step (but for its first ms): how many there are, which are named as it says, and whole; and
    those that are false."""
    n = named = whole = 0
    wrong = []
    for pid, samples in stream.times.items():
        if not any("from_outer" in stack for at, stack in samples):
            continue  # the parent
        for at, stack in samples:
            step = [k for k, begin, end in told if k >= after and begin + 1e6 <= at < end - 1e6]
            jit = [w for w in stack if re.match(r"(outer|inner) \d", w)]
            if not step or not ({"run", "from_outer"} & set(stack) or jit):
                continue
            n += 1
            named += bool(jit)
            whole += not any(w.startswith("(cut:") for w in stack)
            if any(w.split()[1] != str(step[0]) for w in jit):
                wrong.append((step[0], stack))
            # main > run > outer > from_outer > inner, as far as it goes, or a clock's call below run.
            order = [w.split()[0] for w in stack if w.split()[0] in ("main", "run", "outer", "from_outer", "inner")]
            if not any(w.startswith(("(cut:", "(unknown")) for w in stack) and order != ["main", "run", "outer", "from_outer", "inner"][:len(order)]:
                wrong.append((step[0], stack))
    return n, named, whole, wrong


def told_truly(work, target, way, what="plain", after=0, count=12, ms=150, least=0.7):
    stream, run = record(work, [target, way, str(count), str(ms), what])
    told = steps(run.stdout)
    for stop in stream.ledger.get("stops", [])[:4]:
        print("   ", stop)
    n, named, whole, wrong = judge(stream, told, after)
    check(len(told) == count and n > (count - after) * ms * 0.3, "%s, %s: %d samples" % (way, what, n))
    check(not wrong, "%s, %s: every name is the one of its time, in the order of calls %s" % (way, what, wrong[:1] or ""))
    check(n - named <= few(n, 0.1), "%s, %s: %d of %d have a JIT's name" % (way, what, named, n))
    if least:
        check(n - whole <= few(n, 1 - least), "%s, %s: %d of %d are whole" % (way, what, whole, n))
    return stream, n, whole


# --- cases ---

def named(work):
    target = build(work)
    for way in ("map", "dump", "rows"):
        told_truly(work, target, way, "apart", least=0.98)
        # Where other code comes to a place, walks are not believed until its name is read.
        told_truly(work, target, way, "plain", least=0.7)


def blind(work):
    """Code that cannot be followed: the stack is cut there, and says why."""
    stream, n, whole = told_truly(work, build(work), "map", "blind", least=0)
    # Of the two inner frames the return into `outer` is met in all but the clock's calls.
    cut = sum(k for pid in stream.of for stack, k in stream.of[pid].items()
              if any(a.startswith("(cut:") and b.startswith("outer") for a, b in zip(stack, stack[1:])))
    check(cut > 0.8 * n, "blind: %d of %d are cut outside of what nobody can follow" % (cut, n))


def rotated(work):
    target = build(work)
    told_truly(work, target, "map", "truncate")
    # A file that is another one is found when code is met that nobody knows: a moment later.
    told_truly(work, target, "map", "again", after=8, least=0.3)
    told_truly(work, target, "dump", "again", after=8, least=0.3)


def inside(work):
    """Its own PID namespace and /tmp: the file has its own number, and lies in its own root."""
    target = build(work)
    stream, run = record(work, ["unshare", "--fork", "--pid", "--mount", "sh", "-c",
                                "mount -t tmpfs tmpfs /tmp && exec \"$@\"", "sh", target, "map", "8", "150", "plain"])
    told = steps(run.stdout)
    n, named_, whole, wrong = judge(stream, told)
    if not told:
        return skip("inside: no namespaces here (%s)" % run.stderr[-200:].strip())
    check(n > 200 and n - named_ <= few(n, 0.1) and not wrong, "inside: %d of %d are named %s" % (named_, n, wrong[:1] or ""))
    check(n - whole <= few(n, 0.3), "inside: %d of %d are whole" % (whole, n))


def former(work):
    """A file that a process with the same pid left, whose code lay at the same addresses: no name of it is taken."""
    target = build(work)
    stream, run = record(work, ["unshare", "--mount", "sh", "-c",
                                "mount -t tmpfs tmpfs /tmp && unshare --fork --pid setarch -R \"$1\" map 3 50 apart >/dev/null && "
                                "grep -q outer /tmp/perf-1.map && sleep 0.1 && exec unshare --fork --pid setarch -R \"$1\" none 6 150 apart",
                                "sh", target])
    told = steps(run.stdout)
    if not told:
        return skip("former: no namespaces here (%s)" % run.stderr[-200:].strip())
    begin = told[0][1]
    stacks = max(([stack for at, stack in samples if at >= begin] for samples in stream.times.values()), key=len)
    wrong = [stack for stack in stacks if any(re.match(r"(outer|inner) \d", w) for w in stack)]
    check(len(stacks) > 50 and not wrong, "former: %d of %d have another one's names %s" % (len(wrong), len(stacks), wrong[:1] or ""))


def pythons():
    lines = subprocess.run([os.path.join(LIVE, "pythons.sh")], stdout=subprocess.PIPE, text=True).stdout.splitlines()
    found = {}
    for line in lines:
        name, path = line.split(None, 1)
        version = name.split(".")[1]
        if int(re.match(r"\d+", version)[0]) >= 12:
            found.setdefault(name, path)
    return found


def illegal(stack):
    """A pair of frames that the program cannot have; machinery and C left out."""
    names = [w for w in stack if w in BELOW]
    for a, b in zip(names, names[1:]):
        if b not in BELOW.get(a, ()):
            return a, b
    return None


def python(work):
    """-X perf, -X perf_jit: trampolines tear no stack, and are no second frame of a function."""
    tried = False
    for name, path in pythons().items():
        for option in ("perf", "perf_jit"):
            if option == "perf_jit" and re.match(r"3\.12", name):
                continue
            script = os.path.join(work, "work.py")
            with open(script, "w") as file:
                file.write(WORK)
            process = subprocess.Popen([path, "-X", option, script, "300"], cwd=work, stderr=subprocess.DEVNULL)
            file = "/tmp/perf-%d.map" % process.pid if option == "perf" else "/tmp/jit-%d.dump" % process.pid
            until(lambda: process.poll() is not None or os.path.exists(file), 10)
            time.sleep(0.3)
            if process.poll() is not None or not os.path.exists(file):
                process.kill()
                process.wait()
                skip("python: %s -X %s writes no file" % (name, option))
                continue
            out = os.path.join(work, "python.cprof")
            run = subprocess.run([CPROFD, "attach", str(process.pid), "-d", "2.5", "-r", "999", "-f", "events", "-o", out],
                                 capture_output=True, text=True)
            process.kill()
            process.wait()
            clean()
            tried = True
            if not check(run.returncode == 0, "python: %s -X %s is profiled %s" % (name, option, run.stderr[-200:] if run.returncode else "")):
                continue
            stream = read(out)
            # The first tables, and names, may come late on a busy machine: the latter half.
            times = [stack for at, stack in stream.times[process.pid]]
            stacks = list(collections.Counter(times[len(times) // 2:]).items())
            n, whole = sum(k for s, k in stacks), sum(k for s, k in stacks if not any(w.startswith("(cut:") for w in s))
            all_ = sum(k for s, k in stacks)
            through = sum(k for s, k in stacks if "_Py_trampoline_func" in s)
            torn = [(illegal(s), s) for s, k in stacks if illegal(s)]
            check(n > 50 and n - whole <= few(n, 0.01), "python: %s -X %s: %d of %d are whole" % (name, option, whole, n))
            check(through > 0.9 * all_ and not any("py::" in w for s, k in stacks for w in s),
                  "python: %s -X %s: trampolines are the interpreter's, %d of %d go through one" % (name, option, through, all_))
            check(not torn, "python: %s -X %s: calls are in their order %s" % (name, option, torn[:1] or ""))
            # One frame of Python for each trampoline.
            twice = [s for s, k in stacks if not any(w.startswith("(cut:") for w in s) and
                     sum(w == "_Py_trampoline_func" for w in s) < sum(w in ("fib", "key", "work", "<module>") for w in s) - 1]
            check(not twice, "python: %s -X %s: a frame for each of them %s" % (name, option, twice[:1] or ""))
    if not tried:
        skip("python: no CPython from 3.12 on writes such files here")


def switched(work):
    """Trampolines that the program turns on and off while it runs: no file names them in time."""
    found = pythons()
    for name, path in found.items():
        with open(os.path.join(work, "work.py"), "w") as file:
            file.write(SWITCHES)
        stream, run = record(work, [path, file.name, "1"], rate=4999)
        if "Error" in run.stderr:
            skip("switched: %s has no trampolines" % name)
            continue
        times = [stack for _, stack in max(stream.times.values(), key=len)]
        stacks = times[-(len(times) // 4):]  # of the loop; tables and names may come late
        cuts = [(i, word) for i, stack in enumerate(stacks) for word in stack if word.startswith("(cut:")]
        cut = len({i for i, _ in cuts})
        torn = [(illegal(stack), stack) for stack in stacks if illegal(stack)]
        check(len(stacks) > 50 and cut <= few(len(stacks), 0.005), "switched: %s: %d of %d are cut" % (name, cut, len(stacks)),
              collections.Counter(word for _, word in cuts), "between", cuts[:1], cuts[-1:], run.stderr)
        check(not torn, "switched: %s: calls are in their order %s" % (name, torn[:1] or ""))
    if not found:
        skip("switched: no CPython from 3.12 on here")


def node(work):
    if not shutil.which("node"):
        return skip("node: it is not installed")
    with open(os.path.join(work, "work.js"), "w") as file:
        file.write(SCRIPT)
    process = subprocess.Popen([PYTHON, "-c", PARENT, "node", "--perf-basic-prof", "work.js", "600"], cwd=work)
    time.sleep(1)
    out = os.path.join(work, "node.cprof")
    run = subprocess.run([CPROFD, "attach", str(process.pid), "-s", "--native", "-d", "3", "-r", "999", "-f", "events", "-o", out],
                         capture_output=True, text=True)
    child = [int(p) for p in open("/proc/%d/task/%d/children" % (process.pid, process.pid)).read().split()][0]
    lines = set(line.rstrip("\n").split(" ", 2)[2] for line in open("/tmp/perf-%d.map" % child))
    os.kill(child, signal.SIGKILL)
    process.wait()
    clean()
    check(run.returncode == 0, "node: it is profiled")
    stacks = read(out).of[child]
    n = sum(stacks.values())
    script = [w for s in stacks for w in s if "work.js" in w]
    inside = sum(k for s, k in stacks.items() if any("work.js" in w for w in s))
    check(n > 100 and inside > 0.7 * n, "node: functions of its script are in %d of %d" % (inside, n))
    check(any(re.search(r"fib .*work\.js", w) for w in script) and all(w in lines for w in script),
          "node: by the names in its file %s" % ([w for w in script if w not in lines][:1] or ""))


# --- targets that mean no good ---

HOSTILE = """
import ctypes, mmap, os, sys, time
code = mmap.mmap(-1, 65536, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(b"\\x48\\xff\\xcf\\x75\\xfb\\xc3")
at = ctypes.addressof(ctypes.c_char.from_buffer(code))
spin = ctypes.CFUNCTYPE(None, ctypes.c_long)(at)
path = "/tmp/perf-%d.map" % os.getpid()
line = "%x 6 mine\\n" % at
{setup}
print("up", at, flush=True)
end = time.monotonic() + 300
while time.monotonic() < end:
    spin(3000000)
    {each}
"""
# A file system of its own over /tmp, which has this one file. It never answers a request of the kind NONE, one
# to read after PAUSE, each time anew, and the first one to open after LATE.
FUSE = """
import struct, threading
libc = ctypes.CDLL(None, use_errno=True)
assert not libc.unshare(0x20000) and not libc.mount(b"none", b"/", None, 0x44000, None)
fuse = os.open("/dev/fuse", os.O_RDWR)
assert not libc.mount(b"mute", b"/tmp", b"fuse", 0, b"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % fuse)
now = int(time.time()) + 1
def attr(node):
    return struct.pack("=6Q10I", node, len(line), 8, now, now, now, 0, 0, 0, 0o40755 if node == 1 else 0o100644, 1, 0, 0, 0, 4096, 0)
def answer():
    while True:
        request = os.read(fuse, 1 << 20)
        length, kind, unique, node = struct.unpack_from("=IIQQ", request)
        body, error = b"", 0
        if kind in (2, 36, 42, NONE):
            continue
        elif kind == 26:
            body = struct.pack("=4I2H2I2H8I", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, *[0] * 8)
        elif kind == 1 and request[40:].rstrip(b"\\0").decode() == os.path.basename(path):
            body = struct.pack("=4Q2I", 2, 0, 9, 9, 0, 0) + attr(2)
        elif kind == 1:
            error = -2
        elif kind == 3:
            body = struct.pack("=Q2I", 9, 0, 0) + attr(node)
        elif kind == 15:
            time.sleep(PAUSE)
            body = line.encode()[struct.unpack_from("=Q", request, 48)[0]:]
        elif kind in (14, 27):
            time.sleep(LATE.pop() if kind == 14 and LATE else 0)
            body = struct.pack("=Q2I", 1, PAUSE > 0, 0)
        elif kind not in (18, 25, 29):
            error = -38
        os.write(fuse, struct.pack("=IiQ", 16 + len(body), error, unique) + body)
threading.Thread(target=answer, daemon=True).start()
assert os.stat(path).st_size == len(line)
"""
CASES = {
    # setup, each round, the least and the largest share that is named by it, options
    "a usual file": ("open(path, 'w').write(line)", "pass", (0.5, 1)),
    "a FIFO": ("os.mkfifo(path)", "pass", (0, 0)),
    "a folder": ("os.mkdir(path)", "pass", (0, 0)),
    "a socket": ("import socket; s = socket.socket(socket.AF_UNIX); s.bind(path)", "pass", (0, 0)),
    "a link": ("open(path + '.x', 'w').write(line); os.symlink(path + '.x', path)", "pass", (0, 0)),
    "a link to a device": ("os.symlink('/dev/zero', path)", "pass", (0, 0)),
    "another user's file": ("open(path, 'w').write(line); os.chown(path, 65534, 65534)", "pass", (0, 0)),
    "an old file": ("open(path, 'w').write(line); os.utime(path, (1, time.time() - 60))", "pass", (0, 0)),
    "an old file that it goes on with": ("open(path, 'w').write(line); os.utime(path, (1, time.time() - 60))",
                                         "time.monotonic() > end - 299.7 and open(path, 'a').write(line)", (0.1, 1)),
    # Whatever else the engine keeps of the code, it asks for the file again.
    "a late file": ("pass", "time.monotonic() > end - 299 and not os.path.exists(path) and open(path, 'w').write(line)", (0.1, 1)),
    "a late file, leaves": ("pass", "time.monotonic() > end - 299 and not os.path.exists(path) and open(path, 'w').write(line)", (0.1, 1), "--native=leaf"),
    "a file of a file system of its own": ("NONE, PAUSE, LATE = 0, 0, []" + FUSE, "pass", (0.5, 1)),
    "a file that is read slowly": ("NONE, PAUSE, LATE = 0, 0.1, []" + FUSE, "pass", (0.5, 1)),
    # Nothing but the begin is late: it is asked for again.
    "a file that is open late once": ("NONE, PAUSE, LATE = 0, 0, [0.8]" + FUSE, "pass", (0.1, 1)),
    "a file that is never open": ("NONE, PAUSE, LATE = 14, 0, []" + FUSE, "pass", (0, 0)),
    "a file that is never read": ("NONE, PAUSE, LATE = 15, 0, []" + FUSE, "pass", (0, 0)),
    "a file of 3 GB": ("f = open(path, 'w'); f.truncate(3 << 30); f.close(); open(path, 'a').write('\\n' + line)", "pass", (0, 1)),
    "a file that shrinks and grows": ("open(path, 'w').write(line)",
                                      "f = open(path, 'w'); f.write(('%x 1 x\\n' % (at + 99)) * 50000 + line); f.close(); os.truncate(path, 7)", (0, 1)),
    "a file that never ends": ("f = open(path, 'w')", "f.write('%x 6 mine' % at + 'x' * 1000000)", (0, 0)),
    "lines that overlap": ("open(path, 'w').write(''.join('%x %x all\\n' % (at - i, 65536) for i in range(200000)) + line)", "pass", (0, 1)),
}


def engine_memory(seconds, pid):
    """The largest PSS of cprofd's processes below `pid`, MB."""
    most, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        total, pids = 0, [pid]
        for p in pids:
            try:
                pids += [int(c) for t in glob.glob("/proc/%d/task/*/children" % p) for c in open(t).read().split()]
                total += int(re.search(r"^Pss:\s+(\d+)", open("/proc/%d/smaps_rollup" % p).read(), re.M)[1])
            except (OSError, TypeError):
                pass
        most = max(most, total)
        time.sleep(0.2)
    return most / 1024


def hostile_file(work, name, setup, each, least, most, options=(), again=True):
    process = subprocess.Popen([PYTHON, "-c", HOSTILE.replace("{setup}", setup).replace("{each}", each)], stdout=subprocess.PIPE, text=True)
    path = "/tmp/perf-%d.map" % process.pid
    out = os.path.join(work, re.sub(r"\W", "_", name) + ".cprof")
    try:
        if not check(process.stdout.readline().startswith("up"), "hostile: %s: the target runs" % name):
            return
        seconds = "5" if "late" in name or "goes on" in name else "2" if "/dev/fuse" in setup or each != "pass" else "1"
        begin = time.monotonic()
        cprofd = subprocess.Popen([CPROFD, "attach", str(process.pid), "-d", seconds, "-r", "499", "-f", "events", "-o", out, *options],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        begun = used(process.pid)
        memory = engine_memory(int(seconds), cprofd.pid)
        cpu = (used(process.pid) - begun) / os.sysconf("SC_CLK_TCK")
        error = cprofd.communicate(timeout=60)[1]
        took = time.monotonic() - begin
    finally:
        process.kill()
        process.communicate()
        for p in (path, path + ".x"):
            if os.path.isdir(p) and not os.path.islink(p):
                os.rmdir(p)
            elif os.path.lexists(p):
                os.unlink(p)
    if not check(cprofd.returncode == 0 and took < 45, "hostile: %s: the recording ends in time (%.1f s) %s" %
                 (name, took, error[-300:] if cprofd.returncode else "")):
        return
    if again and took > int(seconds) + 6 and "/dev/fuse" not in setup: # the machine stood still
        return hostile_file(work, name, setup, each, least, most, options, False)
    stacks = [stack for times in read(out).times.values() for at, stack in times]
    names = [any(w.startswith("mine") for w in stack) for stack in stacks]
    # Where it is to be read: as soon as it is, on a busy machine later.
    n, mine = len(names) - (names.index(True) if least and True in names else 0), sum(names)
    check(len(names) > min(10, cpu * 499 / 2 - 2), "hostile: %s: %d samples of %.2f s" % (name, len(names), cpu))
    check((mine > 5 and mine >= (least - spread(least, n)) * n if least else True) and mine <= most * n, "hostile: %s: %d of %d are named by it" % (name, mine, n))
    check(memory < 160, "hostile: %s: %d MB at most" % (name, memory))


def hostile(work):
    mounts = mount_namespaces()
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        running = []
        for name, (setup, each, (least, most), *options) in CASES.items():
            if FUSE in setup and not os.path.exists("/dev/fuse"):
                skip("hostile: %s: no /dev/fuse here" % name)
            elif FUSE in setup and not mounts:
                skip("hostile: %s: no mount namespace can be made here (is / a mount point?)" % name)
            else:
                running.append(pool.submit(hostile_file, work, name, setup, each, least, most, options))
        for of in running:
            of.result()


ALL = {"named": named, "blind": blind, "rotated": rotated, "inside": inside, "former": former, "python": python, "switched": switched,
       "node": node, "hostile": hostile}


def main():
    for name in sys.argv[1:] or ALL:
        with tempfile.TemporaryDirectory(prefix="cprofd-jit-", dir="/var/tmp") as work:
            ALL[name](work)
    return finish() or int(not counts["passed"])


if __name__ == "__main__":
    sys.exit(main())
