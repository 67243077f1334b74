#!/usr/bin/python3
"""Native stacks through the life of processes: forked children that inherit JIT code, children that are no
Python, libraries and mappings that come and go, files that are gone or lie in another mount namespace.

    native_life.py [CASE]...    needs root

What is true is told by the targets themselves (who made which function, which library was in use), by the shell
and by the compiler: never by cprofd."""
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from engine_client import Tables

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CPROFD = os.environ.get("CPROFD", os.path.join(ROOT, "build", "cprofd"))
PYTHON = "/usr/bin/python3"
NATIVE_KINDS = (1, 4, 5)
passed = failed = skipped = 0


def check(good, name):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok" if good else "FAILED", name, flush=True)
    return good


def skip(name):
    global skipped
    skipped += 1
    print("skipped", name)


def target(name):
    return os.path.join(ROOT, "tests", "targets", name)


class Stream(Tables):
    """What the stream says of each pid: stacks of names, outermost first, with their counts."""

    def __init__(self):
        self.of = collections.defaultdict(collections.Counter)   # pid -> stack -> samples
        self.names, self.pythons = {}, {}                        # pid -> command, version, the last told
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
    text = subprocess.run(["zstdcat", path], capture_output=True, check=True).stdout
    for line in text.splitlines():
        stream.feed(line)
    return stream


def ledger_adds_up(stream, name):
    ledger = stream.ledger
    stops = sum(row[3] for row in ledger.get("stops", []))
    check(ledger.get("native", 0) == ledger.get("native_whole", 0) + stops + ledger.get("stops_more", 0),
          f"{name}: the ledger's native stacks add up ({ledger.get('native_whole')} of {ledger.get('native')} whole)")
    for row in ledger.get("stops", [])[:6]:
        print("    stop", row)


def record(work, command, *options, rate=999, name="record"):
    """A recording of a command from its first instruction, children too."""
    out = os.path.join(work, name + ".cprof")
    run = subprocess.run([CPROFD, "record", "-s", "--native", "-r", str(rate), "-f", "events", "-o", out, *options, "--",
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
        time.sleep(1)  # attached, and tables are there

    def result(self, stop=True):
        if stop and self.process.poll() is None:
            self.process.send_signal(2)
        self.words = self.process.communicate(timeout=60)[1]
        if not os.path.exists(self.out):
            print(self.words)
        return read(self.out)


# --- forked children ---

def run_forked(work, *arguments, name):
    process = subprocess.Popen([PYTHON, target("life_fork.py"), *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
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
    check(total > 3000 and named >= 0.999 * jit, "forked children: JIT code that was compiled before the fork, and after it, has its name")
    check(not wrong, "forked children: no function of another's")
    check(whole >= 0.999 * total, "forked children: 99.9 % of stacks are whole")
    for pid, number in children.items():
        if not check(stream.with_name(pid, "leaf_shared") > 100 and stream.with_name(pid, f"leaf_own{number}") > 100,
                     f"child {number}: both codes were seen"):
            break
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


CASES = {name[5:]: function for name, function in list(globals().items()) if name.startswith("case_")}


def main():
    wanted = sys.argv[1:] or list(CASES)
    for name in wanted:
        print(f"--- {name}")
        with tempfile.TemporaryDirectory() as work:
            CASES[name](work)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
