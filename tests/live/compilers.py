#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Native stacks of real compilers, through `cprofd attach --native`: which share of the samples reaches the thread's
entry with no gap, and where the others end.

    tests/live/compilers.py [--samples N] [--rate HZ] [--venv DIR] [NAME...]

Names: numba-apt scipy-apt; and with CPROFD_COMPILERS=1 (`make check-compilers`), or by name, those that come from PyPI into
build/venv-compilers: numba-pypi jax cython scipy-pypi. Needs root.

run-live: beside
"""
import argparse
import collections
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from mixed import SENTENCES  # noqa: E402
from lib.wait import few, until  # noqa: E402
from truth import CPROFD, ROOT, Recording  # noqa: E402

TARGETS = os.path.join(ROOT, "tests/targets")
PACKAGES = ["numba", "jax", "cython", "scipy"]
WHOLE = 99.9
# Told apart, and no failure (docs/unwinding.md, "What it cannot do"): tables that are not there yet, code without call frame
# information.
LIMITS = {"native_pending", "native_no_rule"}


def pypi(home):
    python = os.path.join(home, "bin/python")
    have = [python, "-c", "import numba, jax, Cython, scipy"]
    if os.path.exists(python) and not subprocess.call(have, stderr=subprocess.DEVNULL):
        return python
    lines = subprocess.run([os.path.join(HERE, "pythons.sh")], stdout=subprocess.PIPE, text=True).stdout.splitlines()
    base = [path for name, path in (line.split(None, 1) for line in lines)
            if name.split(".")[:2] in (["3", "12"], ["3", "13"]) and not name.endswith("t")] or ["/usr/bin/python3"]
    shutil.rmtree(home, ignore_errors=True)
    if subprocess.call([base[0], "-m", "venv", home], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) or \
       subprocess.call([os.path.join(home, "bin/pip"), "install", "-q", "--disable-pip-version-check", "--retries", "1", *PACKAGES]) or \
       subprocess.call(have):
        return None
    return python


class Stream(Recording):
    """A stack: what it lacks (names of losses), and where its native part ended."""

    def look(self, number):
        lost, stop, note = [], None, False
        frames = []
        while number:
            number, frame = self.stacks[number]
            frames.append(frame)
        for frame in reversed(frames):
            function, offset, _, _ = self.frames[frame]
            name, _, _, module, kind = (self.functions[function] + ["", 0])[:5]
            if kind == 3 and name.startswith(("(waiting", "(ready")): # a compile whose thread waits: its stack is below
                continue
            if kind == 3:
                lost.append(SENTENCES.get(name[6:-1], name))
                note = note or name.startswith("(cut")
            elif note and kind != 0 and stop is None:
                stop = "%s: %s+0x%x" % (module, name, offset) if "+0x" not in name else name
                if len(lost) > 1: # the walk ended in memory of nobody knows whom
                    stop = "what called " + stop
        return lost, stop


def samples_of(path):
    with open(path, "rb") as stream:
        return sum(len(json.loads(line)["t"]) for line in stream if line.startswith(b'{"ev":"samples"') and line.endswith(b"\n"))


def run(name, command, args, work):
    target = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=work)
    if b"ready" not in target.stdout.readline():
        target.wait()
        print("skipped %s: it does not run here" % name)
        return None
    drain = subprocess.Popen(["cat"], stdin=target.stdout, stdout=subprocess.DEVNULL)
    out = os.path.join(work, name + ".events")
    try:
        with open(out, "w") as stream:
            client = subprocess.Popen([CPROFD, "attach", str(target.pid), "-r", str(args.rate), "--native", "--stream"],
                                      stdout=stream, stderr=subprocess.DEVNULL)
        # Beside others that are busy threads of OpenBLAS, which yield, get hardly any CPU.
        until(lambda: client.poll() is not None or samples_of(out) >= args.samples, 25, 0.5)
        client.send_signal(signal.SIGINT)
        if client.wait(60):
            raise RuntimeError("cprofd attach: exit status %d" % client.returncode)
    finally:
        target.kill()
        target.wait()
        drain.wait()
    recording, seen = Stream(out), {}
    tally, losses, stops = collections.Counter(), collections.Counter(), collections.Counter()
    for _, _, number in sorted(recording.samples):
        if number not in seen:
            seen[number] = recording.look(number)
        lost, stop = seen[number]
        tally["all"] += 1
        tally["whole at all"] += not lost
        if lost and not tally["whole"]:
            continue
        tally["samples"] += 1
        tally["whole"] += not lost
        if lost:
            real = [loss for loss in lost if loss in SENTENCES.values()] or lost
            losses[" ".join(sorted(set(real)))] += 1
            tally["limits"] += set(real) <= LIMITS
            stops["%s at %s" % (real[-1], stop)] += 1
    n = max(tally["samples"], 1)
    good = tally["samples"] > 100 and n - tally["whole"] - tally["limits"] <= few(n, 1 - WHOLE / 100)
    print("%s %s: %d samples, %.3f %% whole (from the start: %d, %.3f %%), %.3f %% with those that are limits; %s" % (
        "ok" if good else "FAILED", name, tally["samples"], 100 * tally["whole"] / n, tally["all"],
        100 * tally["whole at all"] / max(tally["all"], 1), 100 * (tally["whole"] + tally["limits"]) / n,
        ", ".join("%s %d (%.3f %%)" % (k, v, 100 * v / n) for k, v in losses.most_common())))
    for stop, count in stops.most_common(args.stops):
        print("    %5d  %s" % (count, stop))
    sys.stdout.flush()
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=8000)
    parser.add_argument("--rate", type=int, default=999)
    parser.add_argument("--stops", type=int, default=8)
    parser.add_argument("--venv", default=os.path.join(ROOT, "build/venv-compilers"))
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    own = {"numba-apt": "numba_loop.py", "scipy-apt": "scipy_work.py"}
    others = {"numba-pypi": "numba_loop.py", "jax": "compile_jax.py", "cython": "compile_cython.py", "scipy-pypi": "scipy_work.py"}
    chosen = args.names or [*own, *(others if os.environ.get("CPROFD_COMPILERS") else [])]
    python = pypi(args.venv) if set(chosen) & set(others) else None
    tally = collections.Counter()
    with tempfile.TemporaryDirectory() as work:
        for name in chosen:
            program = os.path.join(TARGETS, {**own, **others}[name])
            if name in others and not python:
                print("skipped %s: it cannot be installed from PyPI" % name)
                tally["skipped"] += 1
                continue
            good = run(name, ["/usr/bin/python3" if name in own else python, program, *([work] if name == "cython" else [])], args, work)
            tally["skipped" if good is None else "passed" if good else "failed"] += 1
    print("%d passed, %d failed, %d skipped" % (tally["passed"], tally["failed"], tally["skipped"]))
    return tally["failed"] != 0


if __name__ == "__main__":
    sys.exit(main())
