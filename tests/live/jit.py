#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Code of JIT compilers, found from outside while it is made and dropped, against what others say of it: the
target itself (ctypes, llvmlite, Numba), readelf, gdb, perf.

    tests/live/jit.py [PART...]       numba-apt numba-pypi drop-apt drop-pypi jax churn stripped perf-map jitdump

JIT_SECONDS (5): how long each target compiles; JIT_STRESS_SECONDS (6): how long the list changes as fast as it
can. Newest Numba and JAX come from PyPI into build/venv-jit; without a network these parts are skipped. Needs root.
"""
import collections
import glob
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

from lib import LIVE, ROOT
from lib.wait import until

TARGETS = os.path.join(ROOT, "tests/targets")
TOOLS = os.environ.get("JIT_TOOLS", os.path.join(ROOT, "build/tests/tools"))
SECONDS = float(os.environ.get("JIT_SECONDS", 5))
STRESS = float(os.environ.get("JIT_STRESS_SECONDS", 6))
SYSTEM_PYTHON = "/usr/bin/python3"
tally = collections.Counter()


def verdict(part, what, why=None, skipped=False, note=""):
    tally["skipped" if skipped else "failed" if why else "passed"] += 1
    word = "skipped" if skipped else "FAILED" if why else "ok"
    print("%s %s: %s%s" % (word, part, what, ": %s" % why if why else " (%s)" % note if note else ""), flush=True)


class Probe:
    def __init__(self, pid, *args):
        self.process = subprocess.Popen([os.path.join(TOOLS, "jit_probe"), str(pid), *map(str, args)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
        self.modules = []
        for line in iter(self.read, None):
            if "ready" in line:
                break
            self.modules.append(line)

    def read(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.read()

    def find(self, pc, when):
        return self.ask("find %x %d" % (pc, when))

    def objects(self):
        found, line = [], self.ask("objects")
        while "end" not in line:
            found.append(line)
            line = self.read()
        return found

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# --- what readelf says of the images that the target wrote of itself ---

def readelf_truth(path):
    """(ranges, {address: {names}}, has_lines, (address, size) of .eh_frame) of an image."""
    out = subprocess.run(["readelf", "-W", "-S", "-s", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.decode()
    sections, symbols, ranges, lines, eh = {}, {}, [], False, None
    for line in out.splitlines():
        if line.startswith("  [") and "[Nr]" not in line:
            number = int(line[3:5])
            word = line[6:].split()
            if number == 0:
                continue
            name, address, size, flags = word[0], int(word[2], 16), int(word[4], 16), word[6] if len(word) > 9 else ""
            sections[number] = address
            if "X" in flags and address and size:
                ranges.append([address, address + size])
            lines |= name == ".debug_line" and size > 0
            if name == ".eh_frame" and address and size:
                eh = address, size
            continue
        word = line.split(None, 7)
        if len(word) == 8 and word[3] == "FUNC" and word[6].isdigit() and sections.get(int(word[6])):
            symbols.setdefault(sections[int(word[6])] + int(word[1], 16), set()).add((word[7], int(word[2], 0)))
    return sorted(ranges), symbols, lines, eh


def compare_with_readelf(part, pid, objects, directory):
    """The objects that live now are those that the target has on its list, and say what readelf says."""
    living = {o["image"]: o for o in objects if not o["died_by"]}
    images = {int(os.path.basename(p)[:-2], 16): p for p in glob.glob(os.path.join(directory, "*.o"))}
    if set(living) != set(images) or not images:
        return verdict(part, "objects on the list", "%d live, the target has %d; %d of them are the same" %
                       (len(living), len(images), len(set(living) & set(images))))
    wrong, unwinds, symbols_seen = [], 0, 0
    with open("/proc/%d/mem" % pid, "rb", buffering=0) as memory:
        for image, path in images.items():
            o = living[image]
            ranges, symbols, lines, eh = readelf_truth(path)
            found = {s[0]: (s[2], s[1]) for s in o["symbols"]}
            symbols_seen += len(found)
            if o["ranges"] != ranges:
                wrong.append("%s: ranges %s, readelf says %s" % (path, o["ranges"], ranges))
            elif set(found) != set(symbols) or any(found[a] not in symbols[a] for a in found):
                wrong.append("%s: symbols %s, readelf says %s" % (path, found, symbols))
            elif o["lines"] != lines:
                wrong.append("%s: line information" % path)
            elif bool(eh) != bool(o.get("eh_frame")):
                wrong.append("%s: .eh_frame" % path)
            elif eh:
                unwind = o["eh_frame"]
                memory.seek(eh[0])  # where the JIT's own loader put it, and relocated it
                real = memory.read(eh[1])
                if unwind["address"] != eh[0] or not unwind["whole"] or bytes.fromhex(unwind["bytes"]) != real:
                    wrong.append("%s: .eh_frame is %s, in memory it is %s" % (path, unwind, real.hex()))
                unwinds += 1
    verdict(part, "objects, functions and .eh_frame as readelf and the memory show them",
            "%d of %d: %s" % (len(wrong), len(images), wrong[0]) if wrong else None,
            note="%d objects, %d functions, %d .eh_frame" % (len(images), symbols_seen, unwinds))


def told_by_snapshots(lines):
    """What the images show that the target wrote of its list again and again: functions with the times between
    which each was there."""
    told, known = {}, {}
    for line in lines:
        before, after = line["time"]
        for path in glob.glob(os.path.join(line["snapshot"], "*.o")):
            with open(path, "rb") as f:
                content = f.read()
            if content not in known:
                known[content] = readelf_truth(path)[1]
            for address, names in known[content].items():
                for name, _ in names:
                    key = os.path.basename(path), address, name
                    entry = told.setdefault(key, [])
                    if not entry or entry[-1][2] != line["index"] - 1:
                        entry.append([before, after, line["index"]])
                    entry[-1][1:] = after, line["index"]
    return [{"name": name, "address": address, "born": [0, begin], "died": [end, 0]}
            for (_, address, name), times in told.items() for begin, end, _ in times]


def compare_with_told(part, probe, told, gap):
    """Each function that the target told of, at times at which it surely was there."""
    wrong, unseen, right, doubtful, doubtful_wrong, short = [], 0, 0, 0, 0, 0
    for line in told:
        begin, end = line["born"][1], line["died"][0] if line["died"] else time.monotonic_ns()
        for when in (begin, (begin + end) // 2, end):
            for pc in (line["address"], line["address"] + 1):
                found = probe.find(pc, when)
                if found["found"] and found["doubtful"]:
                    doubtful += 1
                    doubtful_wrong += found["name"] != line["name"]
                elif found["found"] and (found["name"] != line["name"] or found["start"] != line["address"]):
                    wrong.append("%s at %x was %s" % (line["name"], pc, found))
                elif found["found"]:
                    right += 1
                elif end - begin > gap:
                    unseen += 1
                    if unseen == 1:
                        print("  %s lived for %.1f ms and is not known" % (line["name"], (end - begin) / 1e6))
                else:
                    short += 1
    note = "%d right, %d doubtful (of which %d wrong), %d too short-lived to be seen" % (right, doubtful, doubtful_wrong, short)
    verdict(part, "0 functions with a wrong name", "%d: %s; %s" % (len(wrong), wrong[0], note) if wrong
            else None if right else "nothing was compared", note=note)
    verdict(part, "functions that live longer than %d ms are found" % (gap / 1e6),
            "%d are not" % unseen if unseen else None)


def consistent(o):
    """An object of the stress: all its names say the same serial number and count."""
    names = [s[2] for s in sorted(o["symbols"])]
    if not names:
        return not o["ranges"]
    serial, _, _, count = names[0].split("_")
    return names == ["%s_%02d_of_%s" % (serial, k, count) for k in range(int(count))]


def gdb_agrees(part, pid, told):
    if not shutil.which("gdb"):
        return verdict(part, "gdb's names", "gdb is not installed", skipped=True)
    some = random.Random(1).sample(told, min(20, len(told)))
    commands = [w for line in some for w in ("-ex", "info symbol 0x%x" % line["address"])]
    out = subprocess.run(["gdb", "-q", "-batch", "-nx", "-p", str(pid), "-iex", "set print demangle off", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off", *commands],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode(errors="replace")
    missing = [line["name"] for line in some if line["name"] + " in section" not in out]
    verdict(part, "gdb names the same", "it does not know %s\n%s" % (missing[0], out[-2000:]) if missing else None,
            note="%d addresses" % len(some))


def run_target(part, python, script, seconds, *args, interval=20, gap=100e6):
    with tempfile.TemporaryDirectory() as directory:
        target = subprocess.Popen([python, os.path.join(TARGETS, script), str(seconds), directory, *args],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True,
                                  env=dict(os.environ, PYTHONWARNINGS="ignore"))
        try:
            if target.stdout.readline() != "ready\n":
                return verdict(part, "target", "it did not start")
            probe = Probe(target.pid, interval)
            if not [m for m in probe.modules if m["found"] == "yes"]:
                return verdict(part, "descriptor", "no module has one: %s" % probe.modules)
            verdict(part, "descriptor", note=", ".join("%s, %.1f ms" % (os.path.basename(m["module"]), m["us"] / 1e3)
                                                       for m in probe.modules if m["found"] == "yes"))
            target.stdin.write("go\n")
            target.stdin.flush()
            told = []
            for line in iter(target.stdout.readline, ""):
                line = json.loads(line)
                if "end" in line:
                    break
                line["index"] = len(told)
                told.append(line)
            else:
                return verdict(part, "target", "it ended")
            time.sleep(0.1)
            while probe.ask("poll")["poll"]:
                pass
            counts = probe.ask("counts")
            print("  %s: %s" % (part, json.dumps(counts)))
            gap = max(gap, 3 * counts["gap_ns"])
            objects = probe.objects()
            mixed = [o for o in objects if "drop" in args and not consistent(o)]
            if "drop" in args:
                verdict(part, "no object is a mixture", json.dumps(mixed[0]) if mixed else None,
                        note="%d objects, %d modules were made" % (len(objects), int(told[-1]["name"][1:9], 16)))
            compare_with_readelf(part, target.pid, objects, directory)
            if told:
                if "snapshot" in told[0]:
                    told = told_by_snapshots(told)
                if len(told) > 5000:
                    told = random.Random(1).sample(told, 5000)
                compare_with_told(part, probe, told, gap)
                if part.startswith("numba"):
                    gdb_agrees(part, target.pid, told)
            quiet = [probe.ask("counts") for _ in (1, 2) if not time.sleep(1)][1]
            verdict(part, "a quiet list costs little", "%s" % quiet if quiet["poll_us"] > 500 else None,
                    note="%.1f us a poll" % quiet["poll_us"])
            probe.close()
        finally:
            target.kill()
            target.wait()


def pypi_python(part):
    """An interpreter that has the newest Numba and JAX, or None."""
    home = os.path.join(ROOT, "build/venv-jit")
    python = os.path.join(home, "bin/python")
    have = [python, "-c", "import numba, jax"]
    if not os.path.exists(python) or subprocess.call(have, stderr=subprocess.DEVNULL):
        pythons = subprocess.run([os.path.join(LIVE, "pythons.sh")], stdout=subprocess.PIPE).stdout.decode().split("\n")
        base = [line.split(None, 1)[1] for line in pythons if line.split(".")[0] == "3" and line.split()[0].split(".")[1] in
                ("12", "13") and not line.split()[0].endswith("t")] or [SYSTEM_PYTHON]
        shutil.rmtree(home, ignore_errors=True)
        if subprocess.call([base[0], "-m", "venv", home], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) or \
           subprocess.call([os.path.join(home, "bin/pip"), "install", "-q", "--disable-pip-version-check", "--retries", "1", "numba", "jax"]) or \
           subprocess.call(have):
            verdict(part, "newest Numba and JAX", "they cannot be installed from PyPI", skipped=True)
            return None
    out = subprocess.run([python, "-c", "import numba, llvmlite, jax; print('Numba', numba.__version__, 'llvmlite',"
                          "llvmlite.__version__, 'JAX', jax.__version__)"], stdout=subprocess.PIPE).stdout.decode()
    print("  %s: %s" % (part, out.strip()))
    return python


def system_python(part):
    if subprocess.call([SYSTEM_PYTHON, "-c", "import numba"], stderr=subprocess.DEVNULL):
        verdict(part, "Numba of apt", "it is not installed", skipped=True)
        return None
    return SYSTEM_PYTHON


def with_python(find, script, seconds, *args, **options):
    def part(name):
        python = find(name)
        if python:
            run_target(name, python, script, seconds, *args, **options)
    return part


# --- a program that does nothing but change its list ---

def churn(part):
    for interval, arguments in ((1, (40, 2, 0)), (0, (3, 1, 200000)), (0, (2, 1, 1000000)), (5, (1000, 2, 0))):
        target = subprocess.Popen([os.path.join(TOOLS, "jit_churn"), str(int(max(STRESS / 3, 2))), *map(str, arguments)],
                                  stdout=subprocess.PIPE, universal_newlines=True)
        target.stdout.readline()
        probe = Probe(target.pid, interval)
        made = json.loads(target.communicate()[0])["registered"]
        counts, objects = probe.ask("counts"), probe.objects()
        probe.close()
        print("  %s: %s" % (part, json.dumps(counts)))
        bad = []
        for o in objects:
            text, n = o["ranges"][0][0], len(o["symbols"])
            eh = bytes.fromhex(o["eh_frame"]["bytes"])
            words = list(struct.iter_unpack("<Qq", eh))
            serial = int(o["symbols"][0][2][1:9], 16)
            if not consistent(o) or o["ranges"] != [[text, text + 16 * n]] or len(words) != n or \
               sorted(s[0] for s in o["symbols"]) != [text + 16 * k for k in range(n)] or \
               any(w != (serial, text - 0x1000 - text - 8) for w in words):
                bad.append(o)
        what = "%d objects kept, image + %d bytes, each %d ms: no object is a mixture" % (arguments[0], arguments[2], interval)
        # Of a list that changes faster than it can be copied, all copies may be thrown away: that is right as well.
        tried = len(objects) + counts["torn"]
        verdict(part, what, json.dumps(bad[0]) if bad else None if tried > 20 else "only %d copies were made" % tried,
                note="%d of %d were taken, %d copies thrown away" % (len(objects), made, counts["torn"]))


def stripped(part):
    with tempfile.TemporaryDirectory() as work:
        for strip, wanted in ((False, "yes"), (True, "stripped")):
            path = shutil.copy(os.path.join(TOOLS, "jit_churn"), os.path.join(work, "churn"))
            if strip:
                subprocess.run(["strip", path], check=True)
            target = subprocess.Popen([path, "1"], stdout=subprocess.PIPE)
            target.stdout.readline()
            probe = Probe(target.pid)
            found = [m["found"] for m in probe.modules if m["module"] == path]
            probe.close()
            target.communicate()
            verdict(part, "a module that is %sstripped" % ("" if strip else "not "),
                    "%s, not %s" % (found, wanted) if found != [wanted] else None)


# --- perf's files ---

def perf_map(part):
    lines = subprocess.run([os.path.join(LIVE, "pythons.sh")], stdout=subprocess.PIPE).stdout.decode().splitlines()
    pythons = [line.split(None, 1) for line in lines if line.split()[0].split(".")[1].rstrip("t") in ("12", "13", "14")]
    code = "import sys, time, json\nfor i in range(300): exec('def f%d(): return 1\\nf%d()' % (i, i))\n" \
           "print('ready', flush=True)\nsys.stdin.read()\n"
    done = False
    for name, python in pythons:
        target = subprocess.Popen([python, "-X", "perf", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            if target.stdout.readline() != b"ready\n":
                continue
            path = "/tmp/perf-%d.map" % target.pid
            if not os.path.exists(path):
                continue
            probe = Probe(target.pid, 5, path)
            wanted = [line.rstrip("\n").split(" ", 2) for line in open(path)]
            until(lambda: probe.find(int(wanted[-1][0], 16), time.monotonic_ns())["found"], 10)
            wrong = [w for w in wanted if (lambda f: not f["found"] or f["name"] != w[2] or f["start"] != int(w[0], 16) or
                     f["trampoline"] != w[2].startswith("py::"))(probe.find(int(w[0], 16) + int(w[1], 16) - 1, time.monotonic_ns()))]
            probe.close()
            done = True
            verdict(part, "CPython %s -X perf" % name, "%s" % wrong[0] if wrong else None if len(wanted) > 300 else
                    "%d lines" % len(wanted), note="%d functions" % len(wanted))
        finally:
            target.kill()
            target.wait()
    if not done:
        verdict(part, "CPython -X perf", "no interpreter here has it (3.12 and later)", skipped=True)


def jitdump(part):
    if not shutil.which("perf"):
        return verdict(part, "perf inject --jit", "perf is not installed", skipped=True)
    with tempfile.TemporaryDirectory() as work:
        record = subprocess.run(["perf", "record", "-q", "-k", "mono", "-e", "cpu-clock", "-F", "999", "-o", "a.data",
                                 os.path.join(TOOLS, "jitdump_target"), work], cwd=work, stderr=subprocess.PIPE)
        inject = subprocess.run(["perf", "inject", "--jit", "-i", "a.data", "-o", "b.data"], cwd=work, stderr=subprocess.PIPE)
        if record.returncode or inject.returncode:
            return verdict(part, "perf", "it does not work here: %s" % (record.stderr or inject.stderr).decode()[-200:], skipped=True)
        out = subprocess.run(["perf", "script", "-i", "b.data", "--ns", "-F", "time,ip,sym"], cwd=work, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL).stdout.decode()
        rows = []
        for line in out.splitlines():
            when, ip, name = line.split(None, 2)
            if name.startswith("spin number"):
                seconds, fraction = when.rstrip(":").split(".")
                rows.append((int(ip, 16), int(seconds) * 10**9 + int(fraction), name))
        lasts = rows[-1][:2] if rows else None
        # Any living process will do: only the file is read.
        probe = Probe(os.getpid(), 5, "/nonexistent", glob.glob(os.path.join(work, "jit-*.dump"))[0])
        # It is read from its begin to its end.
        until(lambda: lasts and probe.find(*lasts)["found"], 10)
        wrong, n, names = [], 0, set()
        for ip, when, name in rows:
            found = probe.find(ip, when)
            n += 1
            names.add(name)
            if not found["found"] or found["name"] != name or found["source"] != "jitdump":
                wrong.append("%x %d %s: %s" % (ip, when, name, found))
        probe.close()
        verdict(part, "each sample has the name that perf inject gives it", wrong[0] if wrong else None if len(names) == 24
                else "%d samples, %d functions" % (n, len(names)), note="%d samples, %d functions" % (n, len(names)))


PARTS = {
    "numba-apt": with_python(system_python, "jit_numba.py", SECONDS),
    "numba-pypi": with_python(pypi_python, "jit_numba.py", SECONDS),
    "drop-apt": with_python(system_python, "jit_numba.py", STRESS, "drop", interval=5, gap=250e6),
    "drop-pypi": with_python(pypi_python, "jit_numba.py", STRESS, "drop", interval=5, gap=250e6),
    "jax": with_python(pypi_python, "jit_jax.py", SECONDS),
    "churn": churn,
    "stripped": stripped,
    "perf-map": perf_map,
    "jitdump": jitdump,
}


# What PyPI has takes minutes to install: with CPROFD_COMPILERS=1 (`make check-compilers`), or by name.
FROM_PYPI = {"numba-pypi", "drop-pypi", "jax"}


def main():
    chosen = sys.argv[1:] or [name for name in PARTS if os.environ.get("CPROFD_COMPILERS") or name not in FROM_PYPI]
    for name, part in PARTS.items():
        if name in chosen:
            try:
                part(name)
            except Exception as e:  # a target that dies, or a probe: one failure, and on
                verdict(name, "run", "%s: %s" % (type(e).__name__, e))
    print("%d passed, %d failed, %d skipped" % (tally["passed"], tally["failed"], tally["skipped"]))
    return 1 if tally["failed"] or not tally["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
