#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What cprofd costs, beside an empty BPF program and py-spy, on a real Numba compile.

    bench.py [--python PATH] [--pairs N] [--rounds N] [--seconds S] [PART ...]

Parts: bpf (BPF time a sample; in turn that of cprofd without rules, which reads no locals, and an empty program's, which tells
how fast the machine is meanwhile), native (the same with native stacks), target (the target's CPU a compile against an empty program, interleaved), own (cprofd's own CPU a
sample without and with native stacks, PSS and memlock), lost (records lost at 9999 Hz), switches (wall mode at ten thousand switches a second: switches.py), flat (memory over minutes), start (attach to first sample), pyspy.
Without parts: all but flat.
All figures are of this run on this machine; a ratio is of medians over interleaved pairs.
"""
import argparse
import glob
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(ROOT, "build")
CPROFD = os.environ.get("CPROFD", os.path.join(BUILD, "cprofd"))
NO_RULES = os.path.join(BUILD, "no-rules/cprofd")


class Target:
    """The Numba loop, or another of its kind; collects (time of arrival, CPU seconds) of each compile."""

    def __init__(self, python, file="numba_loop.py"):
        self.process = subprocess.Popen([python, os.path.join(ROOT, "tests/targets", file)],
                                        stdout=subprocess.PIPE, universal_newlines=True)
        assert self.process.stdout.readline().strip() == "ready"
        self.compiles = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.compiles.append((time.monotonic(), float(line)))

    def between(self, start, end):
        """CPU seconds of the compiles that lay wholly within."""
        inside = [c for c in self.compiles if start <= c[0] <= end]
        return [cpu for _, cpu in inside[1:]]

    def close(self):
        self.process.kill()
        self.process.wait()


def bpftool(kind):
    return json.loads(subprocess.check_output(["bpftool", "-j", kind, "show"]))


def held(pid):
    """Ids of the programs that it has descriptors of."""
    ids = set()
    for p in tree(pid):
        try:
            for fd in os.listdir("/proc/%d/fdinfo" % p):
                ids.update(int(i) for i in re.findall(r"^prog_id:\s+(\d+)", open("/proc/%d/fdinfo/%s" % (p, fd)).read(), re.M))
        except OSError:
            pass
    return ids


def programs(pid):
    """All that this process and its children have loaded: also those that follow forks, mappings and switches."""
    ids = held(pid)
    return {p["id"]: p for p in bpftool("prog") if p["id"] in ids}


def tree(pid):
    pids, todo = [], [pid]
    while todo:
        p = todo.pop()
        pids.append(p)
        try:
            todo += [int(c) for c in open("/proc/%d/task/%d/children" % (p, p)).read().split()]
        except OSError:
            pass
    return pids


def cpu_of(pids):
    """Seconds, of the threads that are there: as the scheduler counts, not by its ticks."""
    total = 0
    for p in pids:
        try:
            for tid in os.listdir("/proc/%d/task" % p):
                total += int(open("/proc/%d/task/%s/schedstat" % (p, tid)).read().split()[0])
        except OSError:
            pass
    return total / 1e9


def pss_of(pids):
    """Bytes, but for BPF maps that a process has mapped: these are in memlock_of()."""
    total = 0
    for p in pids:
        try:
            for kind, size in re.findall(r"^[0-9a-f]+-[0-9a-f]+ .{4} \S+ \S+ \d+ *(.*)\n(?:.*\n)*?Pss:\s+(\d+)", open("/proc/%d/smaps" % p).read(), re.M):
                total += 0 if kind == "anon_inode:bpf-map" else int(size)
        except OSError:
            pass
    return total * 1024


def maps_of(pids):
    """{map id: (what it is, bytes)} of the BPF maps that these processes hold, each map once."""
    found = {}
    for p in pids:
        try:
            fds = os.listdir("/proc/%d/fdinfo" % p)
        except OSError:
            continue
        for fd in fds:
            try:
                text = open("/proc/%d/fdinfo/%s" % (p, fd)).read()
            except OSError:
                continue
            info = dict(re.findall(r"^(\w+):\s+(\d+)", text, re.M))
            if "map_id" in info:
                found[int(info["map_id"])] = ("type %s, %s x %s" % (info["map_type"], info["value_size"], info["max_entries"]),
                                              int(info["memlock"]))
    return found


def memlock_of(pids):
    return sum(size for _, size in maps_of(pids).values())


def start_cprofd(pid, rate, seconds, out="/dev/null", native="off", program=CPROFD):
    return subprocess.Popen([program, "attach", str(pid), "-r", str(rate), "-d", str(seconds), "-f", "events",
                             "-o", out, "--native=" + native], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, universal_newlines=True)


FOLDER = [] # of recordings that nobody reads


def out_file():
    if not FOLDER:
        FOLDER.append(tempfile.TemporaryDirectory(prefix="cprofd-bench-"))  # which goes with this process
    return os.path.join(tempfile.mkdtemp(dir=FOLDER[0].name), "bench.cprof")


def finish(process):
    _, words = process.communicate()
    if process.returncode:
        sys.exit("cprofd failed: %s" % words)
    return words


def start_empty(pid, rate, seconds):
    p = subprocess.Popen([os.path.join(BUILD, "tools/bench/empty"), os.path.join(BUILD, "tools/bench/empty.bpf.o"), str(pid),
                          str(rate), str(seconds)], stdout=subprocess.PIPE)
    p.stdout.readline()
    return p


def due(pid, rate):
    """Samples of all that the process ran. The program runs more often: ticks that it leaves out are no samples."""
    ns = 0
    for file in glob.glob("/proc/%d/task/*/schedstat" % pid):
        with open(file) as stat:
            ns += int(stat.read().split()[0])
    return ns / 1e9 * rate


def bpf_time(pid, seconds, target, rate):
    """us of BPF a sample, of the programs that this process and its children hold."""
    before, samples = programs(pid), due(target, rate)
    time.sleep(seconds)
    after, samples = programs(pid), due(target, rate) - samples
    return sum(prog.get("run_time_ns", 0) - before.get(i, {}).get("run_time_ns", 0) for i, prog in after.items()) / samples / 1000


def part_bpf(target, args, native="off", name="bpf"):
    subprocess.check_call(["sysctl", "-q", "kernel.bpf_stats_enabled=1"])
    try:
        kinds = [name, "empty"] + ["no rules"] * (native != "leaf" and os.path.exists(NO_RULES))
        seen = {(kind, rate): [] for rate in (999, 9999) for kind in kinds}
        for _ in range(args.rounds):
            for kind, rate in seen:
                if kind == "empty":
                    p = start_empty(target.process.pid, rate, args.seconds / 2 + 3)
                else:
                    p = start_cprofd(target.process.pid, rate, args.seconds / 2 + 5, out_file(), native,
                                     NO_RULES if kind == "no rules" else CPROFD)
                    time.sleep(2)
                seen[kind, rate].append(bpf_time(p.pid, args.seconds / 2, target.process.pid, rate))
                finish(p)
        for (kind, rate), figures in seen.items():
            print("%-8s %5d Hz: %.2f us a sample (median of %d runs, %.2f to %.2f)" % (
                kind, rate, statistics.median(figures), len(figures), min(figures), max(figures)), flush=True)
    finally:
        subprocess.check_call(["sysctl", "-q", "kernel.bpf_stats_enabled=0"])


def part_target(target, args):
    for rate in args.rates or (999, 9999):
        ratios, empties, ours = [], [], []
        for pair in range(args.pairs):
            medians = {}
            for which in (("empty", "cprofd") if pair % 2 else ("cprofd", "empty")):
                if which == "empty":
                    p = start_empty(target.process.pid, rate, args.seconds + 1)
                else:
                    p = start_cprofd(target.process.pid, rate, args.seconds + 1, out_file())
                    time.sleep(0.5)
                start = time.monotonic()
                time.sleep(args.seconds)
                end = time.monotonic()
                p.wait()
                medians[which] = statistics.median(target.between(start, end))
            empties.append(medians["empty"])
            ours.append(medians["cprofd"])
            ratios.append(medians["cprofd"] / medians["empty"])
        print("target  %5d Hz: %.4fx CPU a compile of an empty program's (%d pairs, quartiles %.4f-%.4f; %.1f ms, %.1f ms)" % (
            rate, statistics.median(ratios), len(ratios), *statistics.quantiles(ratios, n=4)[::2],
            1000 * statistics.median(ours), 1000 * statistics.median(empties)), flush=True)


def part_own(target, args):
    for native, rate in (("off", 999), ("full", 999), ("off", 9999), ("full", 9999)):
        subprocess.check_call(["sysctl", "-q", "kernel.bpf_stats_enabled=1"])
        p = start_cprofd(target.process.pid, rate, args.rounds * args.seconds + 4, out_file(), native)
        time.sleep(3)
        pids, costs, samples = tree(p.pid), [], 0
        for _ in range(args.rounds):
            cpu, before = cpu_of(pids), due(target.process.pid, rate)
            time.sleep(args.seconds)
            cpu, runs = cpu_of(pids) - cpu, due(target.process.pid, rate) - before
            costs.append(cpu / runs * 1e6)
            samples += runs
        pss = pss_of(pids)
        memlock = memlock_of(pids)
        subprocess.check_call(["sysctl", "-q", "kernel.bpf_stats_enabled=0"])
        finish(p)
        print("own     %5d Hz, native %s: %.2f us CPU a sample (median of %d spans, %.2f to %.2f; %d samples); PSS %.1f MB in %d processes + %.1f MB memlock = %.1f MB" % (
            rate, native, statistics.median(costs), len(costs), min(costs), max(costs), samples, pss / 1e6, len(pids), memlock / 1e6,
            (pss + memlock) / 1e6), flush=True)


def part_flat(target, args):
    p = start_cprofd(target.process.pid, 999, args.minutes * 60 + 5, out_file())
    time.sleep(5)
    sizes = []
    for _ in range(args.minutes * 6):
        pids = tree(p.pid)
        sizes.append((pss_of(pids) + memlock_of(pids)) / 1e6)
        time.sleep(10)
    finish(p)
    after_first = sizes[6:]
    print("flat      999 Hz: first %.1f MB, after a minute %.1f MB, last %.1f MB; min %.1f, max %.1f over %d minutes" % (
        sizes[0], after_first[0], sizes[-1], min(after_first), max(after_first), args.minutes), flush=True)


def part_lost(target, args):
    p = start_cprofd(target.process.pid, 9999, 60, out_file())
    words = finish(p)
    print("lost     9999 Hz, 60 s:\n" + "\n".join("    " + w for w in words.splitlines()), flush=True)


def part_start(target, args):
    spans = []
    for _ in range(10):
        start = time.monotonic_ns()
        p = subprocess.Popen([CPROFD, "attach", str(target.process.pid), "-r", "999", "-d", "1", "--stream"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, universal_newlines=True)
        first = None
        for line in p.stdout:
            e = json.loads(line)
            if e["ev"] == "samples" and first is None:
                first = e["t"][0]
        p.wait()
        spans.append((first - start) / 1e6)
    print("start: attach to first sample %.0f ms median, %.0f-%.0f (10 runs)" % (
        statistics.median(spans), min(spans), max(spans)), flush=True)


def part_pyspy(target, args):
    venv = os.path.join(BUILD, "bench-venv")
    spy = os.path.join(venv, "bin/py-spy")
    if not os.path.exists(spy):
        subprocess.check_call([sys.executable, "-m", "venv", venv])
        subprocess.check_call([os.path.join(venv, "bin/pip"), "-q", "install", "py-spy"])
    for name, extra in (("py-spy", []), ("py-spy --nonblocking", ["--nonblocking"])):
        out = out_file()
        start = time.monotonic()
        p = subprocess.Popen([spy, "record", "-p", str(target.process.pid), "-r", "999", "-d", str(args.seconds), "-f",
                              "raw", "-o", out] + extra, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1)
        cpu, pss = 0, 0
        while p.poll() is None:
            cpu, pss = max(cpu, cpu_of([p.pid])), max(pss, pss_of([p.pid]))
            time.sleep(0.2)
        end = time.monotonic()
        samples = sum(int(line.rsplit(" ", 1)[1]) for line in open(out))
        during = target.between(start, end)
        wall = [b[0] - a[0] for a, b in zip(target.compiles, target.compiles[1:]) if a[0] >= start and b[0] <= end]
        time.sleep(3)
        rest_start = time.monotonic()
        time.sleep(args.seconds)
        rest = [b[0] - a[0] for a, b in zip(target.compiles, target.compiles[1:]) if a[0] >= rest_start]
        print("%s 999 Hz: own CPU %.0f us a sample (%d samples), RSS %.0f MB; target: %.1f ms CPU a compile, wall %.2fx" % (
            name, cpu / max(samples, 1) * 1e6, samples, pss / 1e6, 1000 * statistics.median(during),
            statistics.median(wall) / statistics.median(rest)), flush=True)


def part_native(target, args):
    for native in ("leaf", "full"):
        part_bpf(target, args, native, native)


def part_switches(target, args):
    subprocess.check_call([sys.executable, os.path.join(HERE, "switches.py"), "--pairs", str(args.pairs)])


PARTS = {"bpf": part_bpf, "native": part_native, "target": part_target, "own": part_own, "lost": part_lost, "start": part_start,
         "switches": part_switches, "pyspy": part_pyspy, "flat": part_flat}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3", help="a Python that has Numba")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7, help="of bpf and native; spans of own")
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--rates", type=int, action="append")
    parser.add_argument("parts", nargs="*", choices=list(PARTS) + [[]])
    args = parser.parse_args()
    target = Target(args.python)
    try:
        print("target: %s, PID %d" % (subprocess.check_output(
            [args.python, "-c", "import sys,numba;print('CPython %d.%d.%d' % sys.version_info[:3], 'Numba', numba.__version__)"],
            universal_newlines=True).strip(), target.process.pid))
        for part in args.parts or [p for p in PARTS if p != "flat"]:
            PARTS[part](target, args)
    finally:
        target.close()


if __name__ == "__main__":
    main()
