#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""How soon a session has its first whole sample: attach --native to a running compiler, cold (the project's own cache is
empty, the page cache is not), warm, and warm by a daemon that runs already.

    tools/bench/start.py [--times N] [PYTHON TARGET.py]      default: /usr/bin/python3 and Numba's loop. Needs root.

Measured from just before `cprofd` is started. Three times: of the first sample; of the first whole one (its time stamp: its
walk may have been done some ms later, over the stack that it brought along); and the time stamp after which no walk
lacks a table in the first second (what the kernel walks by itself)."""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../tests/live"))
from compilers import Stream, TARGETS  # noqa: E402
from truth import CPROFD  # noqa: E402


def attach(pid, cache, work, *options):
    out = os.path.join(work, "events")
    begin = time.monotonic_ns()
    with open(out, "w") as stream:
        subprocess.run([CPROFD, "attach", str(pid), "-d", "1", "--native", "--stream", *options], check=True, stdout=stream,
                       stderr=subprocess.DEVNULL, env={**os.environ, "CACHE_DIRECTORY": cache})
    recording = Stream(out)
    samples = sorted(recording.samples)
    whole = [at for at, _, stack in samples if not recording.look(stack)[0]]
    cut = [at for at, _, stack in samples if recording.look(stack)[0]]
    return ((samples[0][0] - begin) / 1e6, (whole[0] - begin) / 1e6, len(samples), len(cut))


def tell(kind, seen):
    print("%s: first sample %.0f ms (best %.0f), first whole sample %.0f ms (best %.0f); of %d samples %d are not whole" % (
        kind, statistics.median(s[0] for s in seen), min(s[0] for s in seen), statistics.median(s[1] for s in seen),
        min(s[1] for s in seen), sum(s[2] for s in seen), sum(s[3] for s in seen)))
    sys.stdout.flush()


def daemon(pid, cache, work, times):
    """By a daemon, which has the next session's sampler loaded."""
    socket = os.path.join(work, "socket")
    server = subprocess.Popen([CPROFD, "serve", "--socket", socket], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env={**os.environ, "CACHE_DIRECTORY": cache})
    try:
        time.sleep(1)
        seen = []
        for _ in range(times + 1):
            seen.append(attach(pid, cache, work, "--socket", socket))
            time.sleep(1)
        tell("warm, by a daemon", seen[1:])
    finally:
        server.terminate()
        server.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--times", type=int, default=7)
    parser.add_argument("--settle", type=float, default=2)
    parser.add_argument("command", nargs="*", default=["/usr/bin/python3", os.path.join(TARGETS, "numba_loop.py")])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        target = subprocess.Popen(args.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=work)
        target.stdout.readline()
        drain = subprocess.Popen(["cat"], stdin=target.stdout, stdout=subprocess.DEVNULL)
        time.sleep(args.settle)
        try:
            for kind in ("cold", "warm"):
                seen = []
                for i in range(args.times):
                    cache = os.path.join(work, "cache%d" % (i if kind == "cold" else 0))
                    os.makedirs(cache, exist_ok=True)
                    seen.append(attach(target.pid, cache, work))
                tell(kind, seen)
            daemon(target.pid, os.path.join(work, "cache0"), work, args.times)
        finally:
            target.kill()
            target.wait()
            drain.wait()


if __name__ == "__main__":
    main()
