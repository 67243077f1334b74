#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""What a change of the inside must not change: recordings are made by one program, and all that can be made of them (every format, every table
of `report`, comparisons) is made by that program and by another one. Bytes, messages and exit status have to be the same, the version aside.
Needs root, and Numba for python3.

    identity.py [--keep DIR] OLD [NEW]

OLD: the cprofd of before, with its engine beside it; NEW: that of this tree. --keep: where recordings stay; those that are there are used again."""
import argparse
import concurrent.futures
import difflib
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PYTHON = "/usr/bin/python3"
COMPILE = """
import numba, numpy, threading, time
def make(i):
    space = {"numba": numba}
    exec("@numba.njit\\ndef kernel_%d(x):\\n    s = 0.0\\n    for i in range(x.shape[0]):\\n        s += x[i] ** %d\\n    return s" % (i % 3, i), space)
    return space["kernel_%d" % (i % 3)]
threading.Thread(target=time.sleep, args=(100,), daemon=True, name="rest").start()
end = time.monotonic() + 3
i = 0
while time.monotonic() < end:
    i += 1
    make(i)(numpy.arange(100.0))
"""
WORK = """
import json, os, re, sys, threading, time
lock = threading.Lock()
def leaf(n):
    return sum(i * i for i in range(n))
def work(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        leaf(3000)
        sorted(range(20000), key=lambda x: -x)
        json.loads(json.dumps(list(range(1000))))
        re.sub("a+", "b", "ab" * 1000)
        with lock:
            time.sleep(0.003)
"""
THREADS = WORK + """
threads = [threading.Thread(target=work, args=(2,), name="worker %d" % i) for i in range(3)]
[t.start() for t in threads]
[t.join() for t in threads]
"""
CHILDREN = WORK + """
for i in range(6):
    pid = os.fork()
    if not pid:
        work(0.3)
        os._exit(0)
    work(0.1)
    os.waitpid(pid, 0)
"""
# name: what runs, and the options of `record`
RECORDINGS = {
    "numba": (COMPILE, []),
    "wall": (THREADS, ["--mode=wall"]),
    "wall_numba": (COMPILE, ["--mode=wall", "--kernel"]),
    "children": (CHILDREN, ["-s", "--mode=wall"]),
    "fast": (COMPILE, ["-r", "9999"]),
    "off": (THREADS, ["--native=off"]),
    "gil": (THREADS, ["--gil", "--native=leaf"]),
}
FORMATS = "speedscope collapsed svg html pprof firefox otlp events".split()
VIEWS = [[], ["--lines"], ["--units"], ["--threads"], ["--interpreter-frames"], ["--idle"], ["--hide-imports"], ["--exclude", "json*"],
         ["--skip-first", "1"], ["--window", "0.5,1.5"], ["--module", "numba"], ["--function", "leaf"], ["--class", "interpreter"], ["-v"]]
TABLES = "class thread unit source phase pass trigger tree chain repeat failed function line package module file callee".split()
REPORTS = [["--by", table, form] for table in TABLES for form in ("--csv", "--json", "--color=always")] + [
    [], ["-v"], ["--tree", "--phases"], ["--tree", "--depth=3"], ["--until=90"], ["--sort=inclusive"], ["--sort=start", "--by=unit,phase,pass"],
    ["--callers", "leaf"], ["--callees", "work"], ["--callees", "*compile*", "--lines"], ["--native-frames", "--functions"],
    ["--skip-first", "1", "--by=unit,function"], ["--window", "0.5,1.5"], ["--exclude", "json*"], ["--hide-imports", "--top=0"]]
DIFFS = [[], ["--json"], ["--top=20", "--color=always"], ["--by=line,package,module,file,class", "--sort=inclusive", "--top=10"], ["--per=compile"],
         ["-o", "x.html"], ["-o", "x.svg"], ["-o", "x.speedscope.json"]]


def record(program, folder):
    for name, (code, options) in RECORDINGS.items():
        path = os.path.join(folder, name + ".cprof")
        if not os.path.exists(path):
            subprocess.run([program, "record", "-q", *options, "-o", path, "--", PYTHON, "-c", code], check=True, stdin=subprocess.DEVNULL)


def commands():
    for name in RECORDINGS:
        file = name + ".cprof"
        yield from (["convert", file, "-f", form, *view, "-o", "-"] for form in FORMATS for view in VIEWS)
        yield from (["report", *options, file] for options in REPORTS)
    yield ["report", "numba.cprof", "fast.cprof"]
    yield ["report", "--json", "numba.cprof", "fast.cprof", "wall_numba.cprof"]
    for sides in (["numba.cprof", "fast.cprof"], ["wall.cprof", "vs", "off.cprof", "children.cprof"]):
        yield from (["diff", *sides, *options] for options in DIFFS)


def result(program, version, command, folder):
    """Status, stdout, stderr, and the file that was written."""
    with tempfile.TemporaryDirectory() as work:
        words = [os.path.join(folder, w) if w.endswith(".cprof") else w for w in command]
        done = subprocess.run([program, *words], cwd=work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        parts = [b"%d" % done.returncode, done.stdout, done.stderr]
        for name in sorted(os.listdir(work)):
            with open(os.path.join(work, name), "rb") as file:
                parts += [name.encode(), file.read()]
    return [part.replace(version, b"VERSION") for part in parts]


def version_of(program):
    return subprocess.run([program, "--version"], stdout=subprocess.PIPE, check=True).stdout.split()[-1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep")
    parser.add_argument("old")
    parser.add_argument("new", nargs="?", default=os.path.join(ROOT, "build", "cprofd"))
    options = parser.parse_args()
    programs = [os.path.abspath(p) for p in (options.old, options.new)]
    versions = [version_of(p) for p in programs]
    same = differs = refused = 0

    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folder = os.path.abspath(options.keep or temporary)
        os.makedirs(folder, exist_ok=True)
        record(programs[0], folder)
        both = [(c, [pool.submit(result, p, v, c, folder) for p, v in zip(programs, versions)]) for c in commands()]
        for command, runs in both:
            old, new = (run.result() for run in runs)
            refused += old[0] != b"0"
            if old == new:
                same += 1
                continue
            differs += 1
            print("DIFFERS cprofd", *command)
            lines = [b"\n".join(r).decode(errors="replace").splitlines() for r in (old, new)]
            print("".join("      %.300s\n" % line for line in list(difflib.unified_diff(*lines, "old", "new", "", "", 0))[:8]), end="")
    print("%d the same (%d of all refused by the old one), %d differ" % (same, refused, differs))
    return 1 if differs or refused > same / 3 else 0


if __name__ == "__main__":
    sys.exit(main())
