#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Recordings of at most 1 MB that try to exhaust their reader: every reader handles each of them within limits of memory and
CPU time (measured by the kernel, wait4), or refuses it with an error message.

    hostile_recordings.py [--all] [--only CLASS,..] [--readers NAME,..] [--keep DIR] [--list]

By default most classes are read by one reader each, in turn; --all: each by each (10 minutes).

run-live: beside
"""
import argparse
import collections
import itertools
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time

from lib.command import CPROFD, environment, expect, folder

SIZE = 1_000_000    # of a file
MEMORY_KB = 300 << 10
CPU_SECONDS = 10    # of a machine that does nothing else; sanitizers and loaded machines: --patience
NOW = 1_000_000_000
passed = failed = skipped = 0


# --- lines of recordings ---

def line(ev, **fields):
    return (json.dumps({"ev": ev, **fields}, separators=(",", ":")) + "\n").encode()


def head(**session):
    fields = dict(id=1, pid=7, rate=999, mode="cpu", monotonic=NOW, boottime=NOW, realtime=NOW, boot_id="b", command="c",
                  subprocesses=True, native=True, idle=True)
    return (line("hello", major=1, minor=7, server="s", features=[]) + line("session", **{**fields, **session}) +
            line("epoch", number=0, time=NOW) + line("process", id=0, pid=7, start=1, time=NOW, name="p", python="3.11.2") +
            line("thread", id=0, process=0, tid=7, start=1, time=NOW, name="t"))


def end(time=NOW + 10 ** 9):
    return line("ledger", time=time, samples=1, whole=1, losses={}) + line("end", time=time, reason="exited", detail="")


def rows(ev, items, first, batch=4000):
    """Lines of rows, as many as fit into a line."""
    items = iter(items)
    while True:
        part = list(itertools.islice(items, batch))
        if not part:
            return
        yield line(ev, first=first, rows=part)
        first += len(part)


def one_function(name="f"):
    return line("functions", first=0, rows=[[name, "f.py", 1, "", 0]]) + line("frames", first=0, rows=[[0, 0, 1]])


def samples(stacks, batch=4000, step=1_000_000, **columns):
    """A sample of each stack, in turn."""
    stacks, first = iter(stacks), True
    while True:
        part = list(itertools.islice(stacks, batch))
        if not part:
            return
        n = len(part)
        # the first time of each line is absolute
        samples.time = NOW if first else samples.time
        first = False
        times = [samples.time + step] + [step] * (n - 1)
        samples.time += step * n
        yield line("samples", t=times, wall=[step] * n, cpu=[step] * n, thread=columns.get("thread", [0] * n)[:n], stack=part,
                   **{key: column[:n] for key, column in columns.items() if key != "thread"})


def upto(size, *parts):
    """As many lines as fit."""
    total = 0
    for part in itertools.chain(*[[p] if isinstance(p, bytes) else p for p in parts]):
        total += len(part)
        if total > size:
            return
        yield part


# --- classes of hostile recordings: chunks of bytes; zstd: the file is compressed; often: without --all, too ---

CLASSES = {}


def hostile(zstd=False, often=True):
    def keep(function):
        CLASSES[function.__name__] = function, zstd, often
        return function
    return keep


def chain(depth, first=1):
    return rows("stacks", ([i, 0] for i in range(first - 1, first + depth - 1)), first)


@hostile()
def deep_stack():
    """One stack, as deep as fits."""
    yield head() + one_function()
    yield from upto(SIZE - 5000, chain(200_000))
    yield from samples([1, 2, 3])
    yield end()


@hostile(often=False)
def deep_stacks():
    """Nodes of a stack of 16,000 frames, all sampled."""
    yield head() + one_function()
    yield from chain(16_000)
    yield from upto(800_000, samples(range(16_000, 1, -1)))
    yield end()


@hostile(often=False)
def broom():
    """18,000 leaves at the end of 12,000 frames, each met."""
    yield head()
    yield from rows("functions", (["f%d" % i, "", 0, "", 0] for i in range(200)), 0)
    yield from rows("frames", ([i, 0] for i in range(200)), 0)
    yield from rows("stacks", ([i, i % 200] for i in range(12_000)), 1)
    yield from rows("stacks", ([12_000 - i // 200, i % 200] for i in range(18_000)), 12_001)
    yield from samples(range(12_001, 30_001))
    yield end()


@hostile(often=False)
def broom_of_long_names():
    """Each of 12,000 frames has a name of 16 KB."""
    yield head() + line("functions", first=0, rows=[["n" * 16_000, "f.py", 1, "", 0]] + [["f%d" % i, "", 0, "", 0] for i in range(10_000)])
    yield from rows("frames", ([i, 0] for i in range(10_000)), 0)
    yield from chain(12_000)
    yield from rows("stacks", ([12_000, i] for i in range(10_000)), 12_001)
    yield from samples(range(12_001, 22_001))
    yield end()


@hostile(zstd=True)
def broom_zstd():
    """800,000 leaves at the end of 12,000 frames."""
    yield head()
    yield from rows("functions", (["f%d" % i, "", 0, "", 0] for i in range(2000)), 0)
    yield from rows("frames", ([i, 0] for i in range(2000)), 0)
    yield from rows("stacks", ([i, i % 200] for i in range(12_000)), 1)
    yield from rows("stacks", ([12_000 - i // 2000, i % 2000] for i in range(800_000)), 12_001)
    yield from samples(range(12_001, 812_001))
    yield end()


@hostile(zstd=True)
def deep_threads():
    """One deep stack, met by each of 60,000 threads in each of 10 classes."""
    yield head() + one_function()
    yield from chain(12_000)
    yield from rows("classes", (["c%d" % i, ""] for i in range(10)), 1)
    for i in range(1, 60_000):
        yield line("thread", id=i, process=0, tid=i, start=i, time=NOW + i, name="t")
    for at in range(0, 600_000, 4000):
        yield line("samples", t=[NOW + 10 ** 6] * 1 + [1] * 3999, wall=[1000] * 4000, cpu=[1000] * 4000,
                   thread=[i % 60_000 for i in range(at, at + 4000)], stack=[12_000] * 4000, **{"class": [i // 60_000 for i in range(at, at + 4000)]})
    yield end()


@hostile()
def many_threads():
    yield head()
    yield one_function() + line("stacks", first=1, rows=[[0, 0]])
    yield from upto(SIZE - 5000, (line("thread", id=i, process=0, tid=i, start=i, time=NOW + i * 1000, name="t") for i in range(1, 30_000)))
    yield end()


@hostile(zstd=True)
def threads_zstd():
    """200,000 threads, a sample of each."""
    yield head()
    yield one_function() + line("stacks", first=1, rows=[[0, 0]])
    for i in range(1, 200_000):
        yield line("thread", id=i, process=0, tid=i, start=i, time=NOW + i, name="t")
    for at in range(0, 200_000, 4000):
        yield line("samples", t=[NOW + 10 ** 6] * 1 + [1] * 3999, wall=[10] * 4000, cpu=[10] * 4000, thread=list(range(at, at + 4000)), stack=[1] * 4000)
    yield end()


@hostile(zstd=True)
def processes_zstd():
    """60,000 processes with an ended thread each, half of them of one number."""
    yield head()
    yield one_function() + line("stacks", first=1, rows=[[0, 0]])
    for i in range(1, 60_000):
        yield line("process", id=i, pid=i // 2 + 8, start=i, time=NOW + i, name="p", python="3.11.2")
        yield line("thread", id=i, process=i, tid=i // 2 + 8, start=i, time=NOW + i, name="t")
        if i % 3:
            yield line("thread_end", id=i, time=NOW + i + 5, wall=5, cpu=0)
    yield from samples([1] * 60_000, thread=list(range(4000)))
    yield end()


@hostile()
def thread_spread():
    """Threads whose time goes far: bins of all of them are merged."""
    yield head()
    yield one_function() + line("stacks", first=1, rows=[[0, 0]])
    yield from (line("thread", id=i, process=0, tid=i, start=i, time=NOW, name="t") for i in range(1, 3500))
    for at in range(20):
        yield line("samples", t=[NOW + (at + 1) * 10 ** 12] + [10 ** 8] * 999, wall=[10 ** 12] * 1000, cpu=[7] * 1000,
                   thread=[(at * 1000 + i) % 3500 for i in range(1000)], stack=[i % 2 for i in range(1000)])
    yield end(NOW + 10 ** 14)


@hostile()
def nested_units():
    """Compiles in compiles, as deep as fits."""
    yield head() + one_function() + line("stacks", first=1, rows=[[0, 0]])
    yield from upto(SIZE - 150_000, rows("units", ([i, 0, i % 3, "c", "n%d" % i, "s", NOW + i] for i in range(40_000)), 1))
    yield from samples([1] * 4000, unit=list(range(1, 4001)))
    yield end()


@hostile()
def units_of_no_name():
    yield head() + one_function() + line("stacks", first=1, rows=[[0, 0]])
    yield from upto(SIZE - 200_000, rows("units", ([i % 250 and i, 0, 0, "c", "", "", NOW + i] for i in range(60_000)), 1))
    yield from (line("unit_name", id=i, time=NOW + 20, name="x%d" % i, signature="") for i in range(1, 2000))
    yield end()


@hostile(zstd=True, often=False)
def units_zstd():
    """250,000 compiles with long names."""
    name = "n" * 200
    yield head() + one_function() + line("stacks", first=1, rows=[[0, 0]])
    yield from rows("units", ([i % 200 and i, 0, i % 3, "c", name + str(i), "s", NOW + i] for i in range(250_000)), 1)
    yield end()


@hostile()
def unit_threads():
    """Compiles of many threads."""
    yield head() + one_function() + line("stacks", first=1, rows=[[0, 0]])
    yield from (line("thread", id=i, process=0, tid=i, start=i, time=NOW, name="t") for i in range(1, 6_000))
    yield from rows("units", ([0, i, 0, "c", "n", "s", NOW + i, 1] for i in range(6_000)), 1)
    yield from samples([1] * 4000, unit=list(range(1, 4001)), thread=list(range(4000)))
    yield end()


@hostile(zstd=True, often=False)
def epochs_of_units():
    """Calls that go on from epoch to epoch."""
    yield head() + one_function() + line("stacks", first=1, rows=[[0, 0]])
    units = [line for line in rows("units", ([i % 250 and i, 0, 0, "c", "n%d" % i, "", NOW + i] for i in range(4000)), 1)]
    yield from units
    for number in range(1, 500):
        yield line("epoch", number=number, time=NOW + number * 10 ** 6)
        yield line("process", id=0, pid=7, start=1, time=NOW, name="p", python="3.11.2")
        yield line("thread", id=0, process=0, tid=7, start=1, time=NOW, name="t")
        yield from units
    yield end()


@hostile(zstd=True, often=False)
def epochs():
    """Nothing but epochs."""
    yield head()
    part = b"".join(line("epoch", number=i, time=NOW) for i in range(1000))
    for _ in range(1500):
        yield part
    yield end()


@hostile(zstd=True)
def huge_names():
    """200 functions with names of 1 MB."""
    yield head()
    for i in range(200):
        yield line("functions", first=i, rows=[["%d" % i + "n" * 1_000_000, "f" * 100_000, 1, "", 0]])
    yield end()


@hostile(zstd=True, often=False)
def unsafe_names():
    """Names that grow when they are shown."""
    yield head()
    for i in range(300):
        yield line("functions", first=i, rows=[["%d" % i + "\x1b\u202e" * 50_000, "f", 1, "", 0]])
        yield line("frames", first=i, rows=[[i, 0, 1]])
        yield line("stacks", first=i + 1, rows=[[i, i]])
    yield from samples(range(1, 300))
    yield end()


@hostile(zstd=True)
def samples_zstd():
    """10 million samples of two stacks in turn."""
    yield head() + one_function()
    yield line("frames", first=1, rows=[[0, 1, 2]]) + line("stacks", first=1, rows=[[0, 0], [0, 1], [1, 1]])
    batch = line("samples", t=[NOW + 10 ** 6] + [1000] * 15999, wall=[1000] * 16000, cpu=[1000] * 16000, thread=[0] * 16000, stack=[1, 3] * 8000)
    for _ in range(600):
        yield batch
    yield end()


@hostile(zstd=True, often=False)
def functions_zstd():
    """500,000 functions, each sampled."""
    yield head()
    for at in range(0, 500_000, 4000):
        yield line("functions", first=at, rows=[["f%d" % i, "", 0, "", 0] for i in range(at, at + 4000)])
        yield line("frames", first=at, rows=[[i, 0] for i in range(at, at + 4000)])
        yield line("stacks", first=at + 1, rows=[[0, i] for i in range(at, at + 4000)])
        yield from samples(range(at + 1, at + 4001))
    yield end()


@hostile(zstd=True)
def bomb_of_zeros():
    for _ in range(200):
        yield bytes(1 << 20)


@hostile(zstd=True)
def bomb_of_newlines():
    yield head()
    for _ in range(500):
        yield b"\n" * (1 << 20)
    yield end()


@hostile(zstd=True)
def bomb_of_unknown_events():
    yield head()
    part = line("unknown", x=1) * 50_000
    for _ in range(400):
        yield part
    yield end()


@hostile(zstd=True, often=False)
def bomb_of_hellos():
    part = line("hello", major=1, minor=7, server="s", features=["f"] * 100) * 1000
    for _ in range(300):
        yield part


@hostile(zstd=True, often=False)
def nested_arrays():
    yield head()
    part = b'{"ev":"x","y":' + b"[" * 2000 + b"]" * 2000 + b"}\n"
    for _ in range(100_000):
        yield part
    yield end()


@hostile(zstd=True, often=False)
def wide_line():
    """Lines of 4 MB of numbers."""
    yield head()
    part = b'{"ev":"samples","t":[' + b"1," * 2_000_000 + b"1]}\n"
    for _ in range(200):
        yield part
    yield end()


@hostile(zstd=True, often=False)
def wide_unknown():
    """Lines of 4 MB of what nobody asked for."""
    yield head()
    part = b'{"ev":"end","time":5,"x":[' + b"{}," * 1_300_000 + b"1]}\n"
    for _ in range(200):
        yield part


@hostile()
def ledger_names():
    """Each ledger has losses of other names."""
    yield head()
    for i in range(0, 40_000, 100):
        yield line("ledger", time=NOW, samples=1, whole=1, losses={"l%d" % n: 1 for n in range(i, i + 100)})
    yield end()


@hostile(zstd=True, often=False)
def ledgers_zstd():
    yield head()
    for i in range(0, 2_000_000, 2000):
        yield line("ledger", time=NOW, samples=1, whole=1, losses={"loss%d" % n: 1 for n in range(i, i + 2000)})
    yield end()


@hostile(zstd=True, often=False)
def classes_zstd():
    """600,000 classes of time, each met."""
    yield head() + one_function() + line("stacks", first=1, rows=[[0, 0]])
    for at in range(0, 600_000, 4000):
        yield line("classes", first=at + 1, rows=[["c%d" % i, "d"] for i in range(at, at + 4000)])
        yield from samples([1] * 4000, **{"class": list(range(at + 1, at + 4001))})
    yield end()


@hostile()
def huge_times():
    """Samples that are years apart, up to what a time can be, and back."""
    yield head() + one_function() + line("stacks", first=1, rows=[[0, 0]])
    big = 2 ** 53 - 2 * NOW
    for i in range(4000):
        yield line("samples", t=[big if i % 2 else NOW + i], wall=[2 ** 52], cpu=[2 ** 52 - i], thread=[0], stack=[i % 2])
    yield end(2 ** 53)


@hostile()
def times_beyond():
    yield head() + line("samples", t=[2 ** 63 - 1], wall=[2 ** 63 - 1], cpu=[1], thread=[0], stack=[0]) + end()


@hostile()
def beyond_tables():
    yield head() + one_function() + line("stacks", first=1, rows=[[0, 7]]) + end()


@hostile()
def parents_in_circles():
    yield head() + one_function() + line("stacks", first=1, rows=[[2, 0], [1, 0]]) + end()


@hostile()
def sparse_ids():
    yield head() + line("functions", first=4_000_000_000, rows=[["f", "", 0, "", 0]]) + end()


@hostile()
def sparse_threads():
    yield head() + line("thread", id=1 << 29, process=0, tid=8, start=1, time=NOW, name="t") + end()


@hostile()
def collisions():
    """Names that a hash without a secret (FNV-1a) gives neighbouring slots: made of blocks that leave its low bits as they are."""
    prime, mask = 0x100000001b3, (1 << 24) - 1
    random.seed(1)

    def state(text, at):
        for byte in text:
            at = (at ^ byte) * prime & 0xffffffffffffffff
        return at
    # 14 pairs of blocks, each pair a collision of the 64-bit state's low bits: 2^14 names of one hash (low 24 bits)
    at, pairs = 0xcbf29ce484222325, []
    alphabet = b"abcdefghijklmnopqrstuvwxyz0123456789"
    for byte in b"\x00\x00\x00\x00\x00":
        at = (at ^ byte) * prime & 0xffffffffffffffff
    for _ in range(14):
        seen = {}
        while True:
            text = bytes(random.choices(alphabet, k=8))
            low = state(text, at) & mask
            if low in seen and seen[low] != text:
                pairs.append((seen[low].decode(), text.decode()))
                at = state(text, at)
                break
            seen[low] = text
    yield head()
    names = ("".join(pair[(i >> n) & 1] for n, pair in enumerate(pairs)) for i in range(1 << 14))
    yield from upto(SIZE - 5000, rows("functions", ([name, "", 0, "", 0] for name in names), 0))
    yield end()


# --- what reads them ---

READERS = {
    "report": ["report", "{file}"],
    "tables": ["report", "--by=class,thread,unit,source,source-line,phase,pass,trigger,tree,chain,repeat,failed,function,line,package,module,file,callee", "{file}"],
    "json": ["report", "--json", "{file}"],
    "csv": ["report", "--by=tree", "--csv", "{file}"],
    "callers": ["report", "--callers=*", "--callees=*", "{file}"],
    "speedscope": ["convert", "{file}", "-f", "speedscope", "-o", "{out}"],
    "collapsed": ["convert", "{file}", "-f", "collapsed", "-t", "--units", "-o", "{out}"],
    "svg": ["convert", "{file}", "-f", "svg", "-t", "-o", "{out}"],
    "html": ["convert", "{file}", "-f", "html", "-o", "{out}"],
    "pprof": ["convert", "{file}", "-f", "pprof", "-o", "{out}"],
    "otlp": ["convert", "{file}", "-f", "otlp", "-o", "{out}"],
    "events": ["convert", "{file}", "-f", "events", "--window", "0,5", "-o", "{out}"],
    "skip": ["convert", "{file}", "-f", "events", "--skip-first=1", "-o", "{out}"],
    "diff": ["diff", "{file}", "{file}"],
    "inclusive": ["diff", "--sort=inclusive", "--by=function,line,package,module,file", "{file}", "{file}"],
    "diffsvg": ["diff", "{file}", "{file}", "-o", "{out}"],
}


def write(name, directory):
    function, zstd, _ = CLASSES[name]
    path = os.path.join(directory, name + ".cprof")
    samples.time = NOW
    if zstd:
        with open(path, "wb") as file, subprocess.Popen(["zstd", "-q", "-3", "-c"], stdin=subprocess.PIPE, stdout=file) as process:
            for chunk in function():
                process.stdin.write(chunk)
            process.stdin.close()
        expect(process.returncode == 0, "zstd failed")
    else:
        with open(path, "wb") as file:
            for chunk in function():
                file.write(chunk)
    return path


def run(args, limit):
    """Its exit status (None: too long), CPU seconds, KB, words."""
    with tempfile.TemporaryFile() as err:
        started = time.monotonic()
        process = subprocess.Popen([CPROFD, *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=err, env=environment(),
                                   preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1)))
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
        err.seek(0)
        words = err.read(4000).decode(errors="replace")
    return status, used.ru_utime + used.ru_stime, used.ru_maxrss, words, time.monotonic() - started


def measure(name, reader, path, options):
    global passed, failed
    out = os.path.join(os.path.dirname(path), "out.svg" if reader == "diffsvg" else "out")
    status, cpu, kb, words, wall = run([arg.format(file=path, out=out) for arg in READERS[reader]], int(CPU_SECONDS * options.patience) + 1)
    size = os.path.getsize(out) if os.path.exists(out) else 0
    if size:
        os.unlink(out)
    why = []
    if os.WIFSIGNALED(status):
        why.append(f"ended by signal {os.WTERMSIG(status)}")
    elif os.WEXITSTATUS(status) not in (0, 1):
        why.append(f"exit status {os.WEXITSTATUS(status)}")
    elif os.WEXITSTATUS(status) and READERS[reader][0] != "diff" and (not words.strip() or "Cannot allocate" in words or "Sanitizer" in words):
        why.append("refused without a word of why")
    if cpu > CPU_SECONDS * options.patience:
        why.append(f"{cpu:.1f} s of CPU time")
    if kb > options.memory_kb:
        why.append(f"{kb >> 10} MB")
    passed += not why
    failed += bool(why)
    first = words.strip().splitlines()[0][:150] if words.strip() else ""
    if why or options.verbose:
        print(f"  {'FAILED' if why else 'ok    '}  {name:24} {reader:10} {os.path.getsize(path):8} bytes: {', '.join(why) or 'good'} "
              f"({cpu:.2f} s, {kb >> 10} MB, out {size >> 10} KB) {first}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--readers", default="")
    parser.add_argument("--keep")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--patience", type=float, default=3)
    parser.add_argument("--memory-kb", type=int, default=MEMORY_KB)
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [name for name in CLASSES if options.all or options.list or CLASSES[name][2]]
    if options.list:
        print("\n".join("%-24s %s" % (name, (CLASSES[name][0].__doc__ or "").split("\n")[0]) for name in names))
        return 0
    turn = collections.deque(options.readers.split(",") if options.readers else READERS)
    with folder() as work:
        for name in names:
            path = write(name, options.keep or work)
            expect(os.path.getsize(path) <= 1.02 * SIZE, f"{name}: {os.path.getsize(path)} bytes")
            for reader in list(turn) if options.all or options.readers else [turn[0]]:
                measure(name, reader, path, options)
            turn.rotate(-1)
            if not options.keep:
                os.unlink(path)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
