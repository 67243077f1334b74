#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the formats of an hour cost: seconds, the largest memory, the size of the file.

    hour.py [--recording FILE] [--samples N] [--threads N] [--seconds S] [--formats LIST] [--keep DIR] [PROGRAM ...]

Of each PROGRAM (build/cprofd) and format `convert` is run once, and `report`. The hour is a real recording at a high rate whose
times are made longer, and which is repeated, each time with an epoch of its own, until it has 3.6 million samples at 999 Hz. Without
--recording a loop that compiles with Numba, in N threads, is recorded for S seconds at 19,980 Hz, which needs root. (What it is not:
an hour of new stacks. How many stacks there are is printed.)"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CPROFD = os.environ.get("CPROFD", os.path.join(ROOT, "build", "cprofd"))
FORMATS = "speedscope collapsed svg html pprof firefox perfetto otlp events".split()
PER_SECOND = 999
LOOP = """
import numba, numpy, sys, threading, time
def make(i):
    space = {"numba": numba}
    exec("@numba.njit\\ndef kernel_%d(x):\\n    s = 0.0\\n    for i in range(x.shape[0]):\\n        s += x[i] ** %d\\n        if s > %d: s -= 1\\n    return s"
         % (i % 30, i % 7, i), space)
    return space["kernel_%d" % (i % 30)]
end = time.monotonic() + float(sys.argv[1])
def loop():
    i = 0
    while time.monotonic() < end:
        i += 1
        make(i)(numpy.arange(100.0))
threads = [threading.Thread(target=loop, name="compile-%d" % i) for i in range(int(sys.argv[2]) - 1)]
[t.start() for t in threads]
loop()
[t.join() for t in threads]
"""


def events_of(path):
    with subprocess.Popen(["zstd", "-dcq", path], stdout=subprocess.PIPE) as text:
        for line in text.stdout:
            yield json.loads(line)


class Stretch:
    """Times of a recording, `factor` times as long, and later by `shift`."""

    def __init__(self, origin, factor):
        self.origin, self.factor, self.shift = origin, factor, 0

    def time(self, ns):
        return self.origin + (ns - self.origin) * self.factor + self.shift

    def event(self, event):
        for key in ("time", "monotonic"):
            if key in event:
                event[key] = self.time(event[key])
        for key in ("wall", "cpu", "others", "given"): # lengths
            if key in event:
                event[key] = [n * self.factor for n in event[key]] if isinstance(event[key], list) else event[key] * self.factor
        if "t" in event:
            event["t"] = [self.time(event["t"][0])] + [n * self.factor for n in event["t"][1:]]
        if event["ev"] == "units":
            for row in event["rows"]:
                row[6] = self.time(row[6])
        return event


def stretch(source, target, samples):
    """A recording of so many samples at 999 Hz; what is in it."""
    rate = next(e["rate"] for e in events_of(source) if e["ev"] == "session")
    factor = round(rate / PER_SECOND)
    out = subprocess.Popen(["zstd", "-q", "-f", "-o", target], stdin=subprocess.PIPE, text=True)
    done, epoch, rounds, stacks, units, times = 0, 0, 0, 0, 0, None
    while done < samples:
        last = 0
        for event in events_of(source):
            if event["ev"] in ("hello", "session"):
                if rounds:
                    continue
                times = times or ("monotonic" in event and Stretch(event["monotonic"], factor) or None)
                event["rate"] = PER_SECOND
            elif event["ev"] == "epoch":
                event["number"], epoch = epoch, epoch + 1
            elif event["ev"] == "samples":
                event = {key: value[:samples - done] if isinstance(value, list) else value for key, value in event.items()}
                done += len(event["t"])
            elif event["ev"] in ("stacks", "units") and not rounds:
                stacks, units = stacks + len(event["rows"]) * (event["ev"] == "stacks"), units + len(event["rows"]) * (event["ev"] == "units")
            # What has ended cannot come back in the next round.
            if event["ev"] in ("ledger", "end", "thread_end", "process_end") or event["ev"] == "samples" and not event["t"]:
                last = max(last, event.get("time", 0))
                continue
            line = times.event(event) if times else event
            out.stdin.write(json.dumps(line, separators=(",", ":")) + "\n")
        times.shift += (last - times.origin) * factor
        rounds += 1
    end = times.origin + times.shift
    for event in ({"ev": "ledger", "time": end, "samples": done, "whole": done, "losses": {}}, {"ev": "end", "time": end, "reason": "exit", "detail": ""}):
        out.stdin.write(json.dumps(event) + "\n")
    out.stdin.close()
    if out.wait():
        sys.exit("zstd failed")
    return "%d samples in %.2f hours; %d nodes of stacks and %d compiles, phases and passes, %d times; %.1f MB" % (
        done, times.shift / 3.6e12, stacks, units, rounds, os.path.getsize(target) / 1e6)


def cost(command):
    """Seconds by the clock and of CPU, MB."""
    run = subprocess.run(["/usr/bin/time", "-f", "%e %U %S %M", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    words = run.stderr.strip().splitlines()
    if run.returncode:
        sys.exit("%s: %s" % (" ".join(command), run.stderr))
    elapsed, user, system, kb = map(float, re.findall(r"[0-9.]+", words[-1]))
    return elapsed, user + system, kb * 1024 / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recording")
    parser.add_argument("--samples", type=int, default=3600 * PER_SECOND)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--formats", default=",".join(FORMATS + ["report"]))
    parser.add_argument("--keep")
    parser.add_argument("programs", nargs="*", default=[CPROFD])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cprofd-hour-") as folder:
        os.makedirs(options.keep or folder, exist_ok=True)
        hour = os.path.join(options.keep or folder, "hour%d.cprof" % options.threads)
        if not os.path.exists(hour):
            source = options.recording or os.path.join(folder, "source.cprof")
            if not options.recording:
                subprocess.run([CPROFD, "record", "-q", "-r", "19980", "-o", source, "--", "/usr/bin/python3", "-c", LOOP, str(options.seconds),
                                str(options.threads)], check=True)
            print(stretch(source, hour, options.samples), flush=True)
        for form in options.formats.split(","):
            for program in options.programs:
                path = os.path.join(folder, "out")
                if form == "report":
                    took = cost([program, "report", hour])
                else:
                    took = cost([program, "convert", "-q", hour, "-f", form, "-o", path])
                size = os.path.getsize(path) / 1e6 if form != "report" else 0
                print("%-11s %6.1f s (%5.1f s of CPU) %6.0f MB   file %7.1f MB   %s" % (form, *took, size, program if len(options.programs) > 1 else ""), flush=True)


if __name__ == "__main__":
    main()
