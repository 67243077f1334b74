#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Native stacks through the life of processes: forked children that inherit JIT code, children that are no
Python, libraries and mappings that come and go, files that are gone or lie in another mount namespace.

    native_life.py [CASE]...    needs root

The ground truth comes from the targets themselves (who made which function, which library was in use), the shell
and the compiler: never from cprofd."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from lib import CPROFD, ROOT, recording
from lib.recording import Tables
from lib.wait import few, recorded, spread
from lib.result import check, finish, skip

PYTHON = "/usr/bin/python3"


class Stream(Tables):
    """What the stream says of each pid: stacks of names, outermost first, with their counts."""

    def __init__(self):
        self.of = collections.defaultdict(collections.Counter)   # pid -> stack -> samples
        self.names, self.pythons, self.images = {}, {}, {}       # pid -> command, version, of its last image
        self.thread_names = collections.defaultdict(set)
        self.times = collections.defaultdict(list)               # pid -> (time, stack)
        self.ledger, self.end, self.known = {}, None, {}
        super().__init__()

    def clear(self):
        super().clear()
        self.known = {}

    def feed(self, line):
        event = super().feed(line)
        if event["ev"] == "process":
            image = event.get("start", 0), event.get("exec", 0)
            if image >= self.images.get(event["pid"], (0, 0)):  # what it was before an exec may be told later
                self.images[event["pid"]] = image
                self.names[event["pid"]] = event.get("name", "")
                self.pythons[event["pid"]] = event.get("python", "")
        elif event["ev"] == "thread":
            self.thread_names[self.processes[event["process"]]["pid"]].add(event.get("name", ""))
        return event

    def batch(self, event):
        n, now = len(event["t"]), 0
        zeros = [0] * n
        for i in range(n):
            now += event["t"][i]
            thread = self.threads[event.get("thread", zeros)[i]]
            stack = event.get("stack", zeros)[i]
            if stack not in self.known:
                self.known[stack] = tuple(name for name, _ in self.words(stack))
            pid = self.processes[thread["process"]]["pid"]
            self.of[pid][self.known[stack]] += 1
            self.times[pid].append((now, self.known[stack]))

    def total(self, pid):
        return sum(self.of[pid].values())

    def whole(self, pid):
        return sum(n for stack, n in self.of[pid].items() if not any(w.startswith("(cut:") for w in stack))

    def with_name(self, pid, pattern):
        return sum(n for stack, n in self.of[pid].items() if any(re.fullmatch(pattern, w) for w in stack))

    def settled(self, pids, after=0.1):
        """Samples, and whole ones, later than so many seconds after each process was met first."""
        total = whole = 0
        for pid in pids:
            for time, stack in self.times[pid]:
                if time > self.times[pid][0][0] + after * 1e9:
                    total += 1
                    whole += not any(w.startswith("(cut:") for w in stack)
        return total, whole

    def worst(self, pids, most=8):
        """Stacks that are cut, for people."""
        cut = collections.Counter()
        for pid in pids:
            for stack, n in self.of[pid].items():
                for at, word in enumerate(stack):
                    if word.startswith("(cut:"):
                        cut[" < ".join(reversed(stack[max(at - 1, 0):at + 3]))] += n
        for stack, n in cut.most_common(most):
            print("   ", n, "x", stack)


def read(path):
    stream = Stream()
    for event in recording.read(path):
        stream.feed(event)
    return stream


def ledger_adds_up(stream, name):
    ledger = stream.ledger
    stops = sum(row[3] for row in ledger.get("stops", []))
    check(ledger.get("native", 0) == ledger.get("native_whole", 0) + stops + ledger.get("stops_more", 0),
          f"{name}: the ledger's native stacks add up ({ledger.get('native_whole')} of {ledger.get('native')} whole)")
    print("    stops", ledger.get("stops", [])[:6])


def record(work, command, *options, rate=999, name="record"):
    """A recording of a command from its first instruction, children too."""
    out = os.path.join(work, name + ".cprof")
    run = subprocess.run([CPROFD, "record", "-v", "-s", "--native", "-r", str(rate), "-f", "events", "-o", out, *options, "--",
                          *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if not os.path.exists(out):
        print(run.stderr)
    return read(out), run


class Attached:
    """cprofd on a process that runs, children too."""

    def __init__(self, work, pid, *options, rate=999, name="attach"):
        self.out = os.path.join(work, name + ".cprof")
        self.process = subprocess.Popen([CPROFD, "attach", str(pid), "-s", "--native", "-r", str(rate), "-f", "events", "-o",
                                         self.out, *options], stderr=subprocess.PIPE, text=True)
        recorded(self.out, self.process)
        time.sleep(0.7)  # tables are there

    def result(self, stop=True):
        if stop and self.process.poll() is None:
            self.process.send_signal(2)
        self.words = self.process.communicate(timeout=120)[1]
        if not os.path.exists(self.out):
            print(self.words)
        return read(self.out)


# --- forked children ---

def run_forked(work, *arguments, name):
    process = subprocess.Popen([PYTHON, os.path.join(ROOT, "tests", "targets", "life_fork.py"), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    assert "ready" in process.stdout.readline()
    attached = Attached(work, process.pid, name=name)
    process.stdin.write("\n")
    process.stdin.flush()
    children = {}
    for line in process.stdout:
        word, number, pid = line.split()
        children[int(pid)] = int(number)
    process.wait()
    return process.pid, children, attached.result(stop=False), attached


def case_fork(work):
    parent, children, stream, _ = run_forked(work, "6", "400", name="fork")
    children[parent] = 0
    total = sum(map(stream.total, children))
    whole = sum(map(stream.whole, children))
    wrong = named = jit = 0
    for pid, number in children.items():
        for stack, n in stream.of[pid].items():
            makers = {int(m[1]) for m in (re.match(r"(?:leaf|caller)_own(\d+)$", w) for w in stack) if m}
            wrong += n * bool(makers - {number})
            # A frame of JIT code is called by ctypes: below it there is a name, or an address.
            jit += n * any(w.startswith(("leaf_", "caller_", "JIT code", "(unknown native")) for w in stack)
            named += n * any(w.startswith(("leaf_", "caller_")) for w in stack)
        print(f"    pid {pid}, number {number}: {stream.total(pid)} samples, {stream.whole(pid)} whole, "
              f"{stream.with_name(pid, 'leaf_shared')} in shared code, {stream.with_name(pid, f'leaf_own{number}')} in its own")
    stream.worst(children)
    print(f"    {total} samples, {100 * whole / max(total, 1):.2f} % whole, {named} of {jit} in JIT code named, {wrong} wrong")
    check(total > 3000 and jit - named <= few(jit, 0.001), "forked children: JIT code that was compiled before the fork, and after it, has its name")
    check(not wrong, "forked children: no function of another's")
    # What is cut is each process' own new code, until its table is there.
    check(total - whole <= few(total, 0.03), "forked children: stacks are whole")
    check(all(stream.with_name(pid, "leaf_shared") > 100 and stream.with_name(pid, f"leaf_own{number}") > 100
              for pid, number in children.items()), "forked children: both codes were seen in each")
    ledger_adds_up(stream, "forked children")


def case_pool(work):
    _, children, stream, _ = run_forked(work, "4", "500", "numba", name="pool")
    kernel = r"__main__.kernel_before_the_fork\(.*\)"
    named = sum(stream.with_name(pid, kernel) for pid in children)
    total = sum(map(stream.total, children))
    whole = sum(map(stream.whole, children))
    print(f"    {len(children)} workers: {total} samples, {named} in the kernel, {100 * whole / max(total, 1):.2f} % whole")
    stream.worst(children)
    check(total > 1000 and named > 0.9 * total, "a pool of forked workers: the kernel that was compiled before has its name")
    ledger_adds_up(stream, "a pool")


BRIEF = r"""
import os, subprocess, time
DATA = list(range(20000))
def parents():
    until = time.process_time() + 0.4
    while time.process_time() < until:
        sum(DATA)
def work():
    until = time.process_time() + 0.006
    while time.process_time() < until:
        sum(DATA)
parents()  # tables are there
for number in range(160):
    pid = os.fork()
    if not pid:
        work()
        if number % 4 == 0:
            os.execv("/bin/true", ["true"])
        os._exit(0)
    os.waitpid(pid, 0)
"""


def case_brief(work):
    """Children that end, or execute another program, before their samples are handed on: their image was their parent's."""
    stream, _ = record(work, [PYTHON, "-c", BRIEF], name="brief")
    rows = sum(row[:2] == ["work", "<string>"] for row in stream.functions)
    pids = [pid for pid in stream.of if stream.with_name(pid, "work")]
    total, whole = (sum(n for pid in pids for stack, n in stream.of[pid].items() if "work" in stack and good(stack))
                    for good in (bool, lambda stack: not any(w.startswith("(cut:") for w in stack)))
    told = sum(n for pid in pids for stack, n in stream.of[pid].items()
               if "work" in stack and set(stack[stack.index("work") + 1:]) & {"sum", "time.process_time", "process_time"})
    stream.worst(pids)
    print(f"    {len(pids)} children, {total} samples, {whole} whole, {told} in what was called")
    check(len(pids) > 100 and total - whole <= few(total, 0.01), "children of 6 ms: stacks are whole")
    check(rows == 1, f"children of 6 ms: their function is one row of the recording ({rows})")
    check(told >= total - few(total, 0.05), "children of 6 ms: what they called has its name")
    ledger_adds_up(stream, "children of 6 ms")


# --- children that are no Python ---

PROGRAM = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static volatile unsigned long sum;
static double left;
__attribute__((noinline)) void innermost(void) { for (int i = 0; i < 20000; i++) sum += (unsigned long)i * i; }
static double spent(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
__attribute__((noinline)) void middle(void) { double end = spent() + left; do innermost(); while (spent() < end); sum++; }
static void *in_thread(void *name) { pthread_setname_np(pthread_self(), name); middle(); return NULL; }
int main(int argc, char **argv)
{
	pthread_t thread;
	left = atoi(argv[1]) / 1000.0;
	if (argc > 2)
		pthread_create(&thread, NULL, in_thread, argv[2]);
	middle();
	if (argc > 2)
		pthread_join(thread, NULL);
	return 0;
}
"""

SPAWNER = r"""
import os, subprocess, sys
work = sys.argv[1]
def tell(kind, process):
    print("child", kind, process.pid, flush=True)
    process.wait()
for i in range(3):
    tell("program", subprocess.Popen([work + "/program", "300", "worker_%d" % i]))
    tell("static", subprocess.Popen([work + "/program_static", "200"]))
    tell("shell", subprocess.Popen(["sh", "-c", "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done; exit"]))
    pid = os.fork()
    if not pid:
        os.execv(work + "/program", ["program", "200"])
    print("child", "program", pid, flush=True)
    os.waitpid(pid, 0)
for i in range(10):
    tell("short", subprocess.Popen([work + "/program", "6"]))
for i in range(4):
    process = subprocess.Popen(["gcc", "-O2", "-o", work + "/again", work + "/program.c", "-pthread"])
    process.wait()
    print("child", "gcc", process.pid, flush=True)
"""


def case_foreign(work):
    with open(os.path.join(work, "program.c"), "w") as file:
        file.write(PROGRAM)
    for extra, out in ([], "program"), (["-static"], "program_static"):
        subprocess.run(["gcc", "-O1", "-g0", "-fno-optimize-sibling-calls", *extra, "-o", os.path.join(work, out),
                        os.path.join(work, "program.c"), "-pthread"], check=True)
    stream, run = record(work, [PYTHON, "-c", SPAWNER, work], name="foreign")
    kinds = collections.defaultdict(list)
    for line in run.stdout.splitlines():
        _, kind, pid = line.split()
        kinds[kind].append(int(pid))
    for kind, pids in kinds.items():
        total, whole = sum(map(stream.total, pids)), sum(map(stream.whole, pids))
        rooted = sum(n for pid in pids for stack, n in stream.of[pid].items()
                     if stack and (stack[0] in ("_start", "__clone3", "clone3", "_dl_start") or "_start" in stack[:2]))
        print(f"    {kind}: {len(pids)} processes, {total} samples, {whole} whole, {rooted} from their begin on; "
              f"{stream.with_name(pids[0], 'innermost')} of the first in innermost()")
    compilers = [pid for pid, name in stream.names.items() if re.search(r"\b(cc1|as|ld|collect2)\b", name)]
    # Whatever a gcc started, it came before the next gcc: by then the tables of these programs are there.
    later = [pid for pid in compilers if stream.times[pid] and stream.times[pid][0][0] > stream.times[kinds["gcc"][1]][0][0]]
    for pid in compilers:
        print(f"    {stream.names[pid].split()[0]}: {stream.total(pid)} samples, {stream.whole(pid)} whole")
    every = [pid for pids in kinds.values() for pid in pids] + compilers
    stream.worst(every)
    long = kinds["program"] + kinds["static"] + kinds["shell"]
    total, whole = stream.settled(long)
    check(total > 1000 and total - whole <= few(total, 0.001), f"programs that are no Python: {whole} of {total} stacks are whole after 100 ms")
    total, whole = sum(map(stream.total, long)), sum(map(stream.whole, long))
    check(total - whole <= few(total, 0.02), f"programs that are no Python: {whole} of {total} stacks are whole in all")
    total = sum(map(stream.total, kinds["program"]))
    check(sum(stream.with_name(pid, "innermost") for pid in kinds["program"]) > 0.9 * total, "their functions have names")
    check(all(f"worker_{i}" in set().union(*(stream.thread_names[pid] for pid in kinds["program"])) for i in range(3)),
          "their threads have names")
    odd = [(pid, stream.names.get(pid), stream.pythons.get(pid)) for pid in every if stream.pythons.get(pid) or not stream.names.get(pid)]
    check(not odd, f"each is told as a process without Python {odd or ''}")
    check(len(compilers) >= 12, "cc1, as and the linker are processes of the recording")
    # What comes before a process' mappings are read is cut: more of it on a busy machine.
    brief = later + kinds["short"]
    total, whole = sum(map(stream.total, brief)), sum(map(stream.whole, brief))
    check(total > 50 and whole >= (0.5 - spread(0.5, total)) * total, f"those that live for some ms: {whole} of {total} stacks are whole")
    unknown = sum(stream.with_name(pid, re.escape("(cut: the process was not identified yet)")) for pid in every)
    total = sum(map(stream.total, every))
    check(unknown <= few(total, 0.02), f"few samples are of a process that nobody knew yet: {unknown} of {total}")
    shell = subprocess.Popen(["sh", "-c", "sleep 30; true"])
    refused = subprocess.run([CPROFD, "attach", str(shell.pid), "-s", "--native", "-d", "1", "-o", os.path.join(work, "no.json")],
                             capture_output=True, text=True)
    shell.kill()
    check(refused.returncode == 1 and "no CPython" in refused.stderr and "cprofd record -s --native" in refused.stderr,
          "to attach to a process that is no Python is refused, and what is possible is said")
    ledger_adds_up(stream, "children that are no Python")
    export = subprocess.run([CPROFD, "convert", os.path.join(work, "foreign.cprof"), "-f", "speedscope", "-o", "-"],
                            capture_output=True, check=True)
    about = json.loads(export.stdout)["cprofd"]
    check(about["native"]["samples"] == stream.ledger["native"] and about["native"]["whole"] == stream.ledger["native_whole"]
          and [s["count"] for s in about["native"]["stops"]] == [row[3] for row in stream.ledger["stops"]],
          "the speedscope file has the ledger of native stacks")
    check(f"{stream.ledger['native']:,}" in run.stderr and "native stacks:" in run.stderr, "so has the summary")


# --- libraries that come and go ---

LIBRARY = r"""
extern volatile unsigned long turns;
static __attribute__((noinline)) unsigned long deep_%(n)d(unsigned long to)
{
	volatile char room[%(room)d];
	room[0] = 1;
	for (unsigned long i = 0; i < to; i++)
		room[i %% sizeof(room)] += (char)(i * 7);
	return room[0];
}
__attribute__((noinline)) unsigned long in_library_%(n)d(unsigned long to)
{
	volatile char room[%(other)d];
	room[1] = 2;
	return deep_%(n)d(to) + room[1];
}
"""

CHURN = r"""
import _ctypes, ctypes, sys, time
work, count, seconds, hold = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])
print("ready", flush=True)
sys.stdin.readline()
now, end, k = time.monotonic_ns, time.monotonic() + seconds, 0
log = []
def work_in(function, until):
    while time.monotonic() < until:
        function(20000)
while time.monotonic() < end:
    number = k % count
    k += 1
    before = now()
    library = ctypes.CDLL(work + "/library_%d.so" % number)
    function = getattr(library, "in_library_%d" % number)
    function.argtypes, function.restype = [ctypes.c_ulong], ctypes.c_ulong
    address = ctypes.cast(function, ctypes.c_void_p).value
    work_in(function, time.monotonic() + hold)
    log.append((number, before, now(), address))
    handle = library._handle
    del function, library
    _ctypes.dlclose(handle)
for row in log:
    print("library", *row, flush=True)
"""


def case_churn(work):
    """Libraries of one size: each comes to the address of the one before. Who is there is told by the target."""
    for n in range(5):
        path = os.path.join(work, f"library_{n}.c")
        with open(path, "w") as file:
            file.write(LIBRARY % {"n": n, "room": 64 + 160 * n, "other": 32 + 80 * (4 - n)})
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-fno-stack-protector", "-fomit-frame-pointer", "-o",
                        path[:-1] + "so", path], check=True)
    for hold in (0.25, 0.03):
        churn(work, hold)


def churn(work, hold):
    process = subprocess.Popen([PYTHON, "-c", CHURN, work, "5", "4", str(hold)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True)
    process.stdout.readline()
    attached = Attached(work, process.pid, name=f"churn{hold}")
    process.stdin.write("\n")
    process.stdin.flush()
    rows = [tuple(map(int, line.split()[1:])) for line in process.stdout]
    process.wait()
    stream = attached.result(stop=False)
    addresses = len({row[3] for row in rows})
    total = wrong = missing = odd = 0
    late = []  # ms from the mapping to the first right sample
    for number, begin, end, _ in rows:
        right = None
        for time_, stack in stream.times[process.pid]:
            if not begin <= time_ <= end:
                continue
            there = [w for w in stack if re.match("(in_library|deep)_", w)]
            if not there and stack[-1] not in ("(unknown native code)",) and not any(w.startswith("(cut") for w in stack):
                continue  # the Python around it
            total += 1
            others = [w for w in there if not w.endswith(f"_{number}")]
            wrong += bool(others)
            # deep() is called by in_library() alone.
            odd += f"deep_{number}" in stack and not any(w.startswith("(cut") for w in stack) and f"in_library_{number}" not in stack
            missing += not there
            if right is None and there and not others and not any(w.startswith("(cut") for w in stack):
                right = (time_ - begin) / 1e6
        if right is not None:
            late.append(right)
    late.sort()
    every, whole = stream.total(process.pid), stream.whole(process.pid)
    print(f"    held {hold} s: {len(rows)} libraries at {addresses} addresses: {every} samples, {100 * whole / every:.2f} % whole; "
          f"{total} in libraries, {wrong} with another's name, {missing} with none, {odd} of an odd shape; first right one after "
          f"{late[len(late) // 2] if late else 0:.1f} ms (median), {late[-1] if late else 0:.1f} (most)")
    stream.worst([process.pid])
    check(not wrong and not odd, f"libraries that come and go each {hold} s: no wrong name, no stack of an odd shape")
    if total < 300:
        skip(f"the share of libraries that come and go each {hold} s: the target had the CPU for {total} samples only")
        return
    # Until a library's table is there its walks are cut: a few ms of each, more on a busy machine.
    check(whole >= (0.85 if hold > 0.1 else 0.5) * every, f"libraries that come and go each {hold} s: stacks are whole")
    ledger_adds_up(stream, "libraries that come and go")


# --- many mappings, odd names, files that are gone, other roots ---

MAPPINGS = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static volatile unsigned long sum;
__attribute__((noinline)) void innermost(void) { for (int i = 0; i < 50000; i++) sum += (unsigned long)i * i; }
__attribute__((noinline)) void outer(void) { innermost(); sum++; }
void spin(int files, int ms, char **names)
{
	char *room = mmap(NULL, 2l * 4096 * files, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < files; i++) {
		int fd = open(names[i % 8], O_RDONLY);
		if (mmap(room + 8192l * i, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
			perror("mmap");
		close(fd);
	}
	fprintf(stdout, "mapped\n");
	fflush(stdout);
	for (int i = 0; i < ms; i++)
		outer();
}
"""

MANY = r"""
import ctypes, sys, time
library = ctypes.CDLL(sys.argv[1])
names = (ctypes.c_char_p * 8)(*[n.encode() for n in sys.argv[4:12]])
print("ready", flush=True)
sys.stdin.readline()
begin = time.monotonic()
library.spin(int(sys.argv[2]), 1, names)
while time.monotonic() < begin + float(sys.argv[3]):
    library.outer()
"""


def engine_of(pid):
    """CPU seconds of an attached cprofd with its broker and engine, and the most memory that one of them had, in MB."""
    found, spent, most = [str(pid)], 0, 0
    for child in found:
        found += subprocess.run(["ps", "-o", "pid=", "--ppid", child], capture_output=True, text=True).stdout.split()
        try:
            words = open(f"/proc/{child}/stat").read().rsplit(")", 1)[1].split()
            spent += (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
            most = max(most, int(re.search(r"VmHWM:\s+(\d+)", open(f"/proc/{child}/status").read())[1]) // 1024)
        except (OSError, TypeError):
            pass
    return spent, most


def case_mappings(work):
    """10,000 executable mappings of files whose names hold newlines, spaces and " (deleted)"."""
    source, library = os.path.join(work, "mappings.c"), os.path.join(work, "libmappings.so")
    with open(source, "w") as file:
        file.write(MAPPINGS)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
    names = [os.path.join(work, name) for name in ("a b.so", "new\nline.so", "gone (deleted).so", "x (deleted)", " ", "tab\t.so",
                                                   "\\012.so", "7f0000000000-7f0000001000 r-xp 00000000 00:00 0 x.so")]
    for name in names:
        shutil.copy(library, name)
    process = subprocess.Popen([PYTHON, "-c", MANY, library, "10000", "8", *names], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    process.stdout.readline()
    attached = Attached(work, process.pid, name="mappings")
    before, _ = engine_of(attached.process.pid)
    process.stdin.write("\n")
    process.stdin.flush()
    process.stdout.readline()
    begin = time.monotonic()
    time.sleep(5)
    spent, most = engine_of(attached.process.pid)
    share = (spent - before) / (time.monotonic() - begin)
    lines = sum(" r-xp " in line for line in open(f"/proc/{process.pid}/maps", errors="replace"))
    process.wait()
    stream = attached.result(stop=False)
    total, whole = stream.settled([process.pid], 3)
    print(f"    {lines} executable mappings: {total} samples, {whole} whole; cprofd took {100 * share:.1f} % of a core, {most} MB")
    stream.worst([process.pid])
    check(lines > 10000, "there are 10,000 executable mappings")
    check(total > 100 and total - whole <= few(total, 0.01), "10,000 executable mappings: stacks are whole")
    check(stream.with_name(process.pid, "innermost") > 0.8 * total, "10,000 executable mappings: functions have names")
    check(share < 0.3, "10,000 executable mappings: the engine's time is bounded")
    ledger_adds_up(stream, "many mappings")


def build_library(path, inner):
    with open(path + ".c", "w") as file:
        file.write("""
static volatile unsigned long sum;
__attribute__((noinline)) void %s(void) { for (int i = 0; i < 50000; i++) sum += (unsigned long)i * i; }
__attribute__((noinline)) void outer(void) { %s(); sum++; }
""" % (inner, inner))
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", path, path + ".c"], check=True)


LOADED = r"""
import ctypes, os, sys, time
library = ctypes.CDLL(sys.argv[1])
print("ready", flush=True)
begin = time.monotonic()
while time.monotonic() < begin + float(sys.argv[2]):
    library.outer()
"""


def profile_ready(work, process, name, inner):
    attached = Attached(work, process.pid, "-d", "2", name=name.replace(" ", "_"))
    stream = attached.result(stop=False)
    process.kill()
    process.wait()
    pid = max(stream.of, key=stream.total, default=process.pid)
    total, whole = stream.settled([pid], 0.3)
    named = stream.with_name(pid, inner)
    print(f"    {name}: {total} samples, {whole} whole, {named} in {inner}()")
    stream.worst([pid])
    check(total > 100 and total - whole <= few(total, 0.01) and named > 0.8 * total, f"{name}: stacks are whole and named")


def case_files(work):
    library = os.path.join(work, "libfirst.so")
    build_library(library, "inner_first")
    process = subprocess.Popen([PYTHON, "-c", LOADED, library, "20"], stdout=subprocess.PIPE, text=True)
    assert "ready" in process.stdout.readline()
    os.unlink(library)
    build_library(library, "another")
    profile_ready(work, process, "a library that was replaced on disk", "inner_first")

    build_library(os.path.join(work, "libhidden.so"), "inner_hidden")
    inside = os.path.join(work, "mnt")
    os.mkdir(inside)
    script = (f"mount -t tmpfs none {inside} && cp {work}/libhidden.so {inside}/lib.so && exec {PYTHON} -c '{LOADED}' {inside}/lib.so 20")
    process = subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdout=subprocess.PIPE, text=True)
    if "ready" in process.stdout.readline():
        check(not os.path.exists(os.path.join(inside, "lib.so")), "the library is in the other mount namespace only")
        profile_ready(work, process, "a library of another mount namespace", "inner_hidden")
    else:
        skip("another mount namespace: none can be made here (is / a mount point?)")

    root = os.path.join(work, "root")
    for folder in ("usr", "lib", "lib64", "bin", "etc", "tmp", "proc"):
        os.makedirs(os.path.join(root, folder))
    script = (f"for d in usr lib lib64 bin etc; do mount --rbind /$d {root}/$d; done; mount -t tmpfs none {root}/tmp; "
              f"cp {work}/libhidden.so {root}/tmp/lib.so; exec chroot {root} {PYTHON} -c '{LOADED}' /tmp/lib.so 20")
    process = subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdout=subprocess.PIPE, text=True)
    if "ready" in process.stdout.readline():
        profile_ready(work, process, "a target in another root", "inner_hidden")
    else:
        skip("another root: no mount namespace can be made here (is / a mount point?)")


CASES = {name[5:]: function for name, function in list(globals().items()) if name.startswith("case_")}


def main():
    wanted = sys.argv[1:] or list(CASES)
    for name in wanted:
        print(f"--- {name}")
        with tempfile.TemporaryDirectory() as work:
            CASES[name](work)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
