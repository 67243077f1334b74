#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# run-live: beside
"""`--continuous`: the files of a directory are recordings, each by itself, and together what one recording would be.

    continuous.py [--kills N] [NAME ...]        (self-limit: only where it is named, 45 s)

The oracle is the target's own rusage: the CPU time of all files is that within 1 %. Every thread's times follow each other from file to file without a
hole; the ledgers add up to the rows. cprofd is killed at random moments: what is in the files is a run of the target from its begin, and each file can be
read. On a small tmpfs the disk is full again and again; the clock is set; the directory is replaced. Needs root.
"""
import argparse
import collections
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time

from lib import CPROFD, ROOT
from lib.client import Daemon, Refused
from lib.command import PYTHON, UNTIL_TOLD
from lib.recording import rows
from lib.result import check, check_figures, finish, skip
from lib.stepped import stepped
from lib.wait import mount_namespaces, until

TARGET = os.path.join(ROOT, "tests", "targets", "rotating.py")
ENVIRONMENT = dict(os.environ, CPROFD_SOCKET="none")
NAME = re.compile(r"cprofd-\d{8}T\d{6}\.\d{3}Z-\d+\.cprof(\.part)?$")


def files(folder):
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def read(path):
    """All events; of a file whose end is missing up to there."""
    lines = subprocess.run(["zstd", "-dcqf", path], capture_output=True).stdout.split(b"\n")
    return [json.loads(line) for line in lines[:-1]]


class Sums:
    """What the files of a folder say together."""

    def __init__(self, paths):
        self.cpu = self.samples = self.told = 0
        self.ends, self.holes, self.reasons, self.unfinished = {}, [], [], 0
        self.wall, self.waits = collections.Counter(), 0
        for path in paths:
            self.add(path, read(path))

    def add(self, path, events):
        names, images, clocks, ledger, border = {}, {}, {}, {"samples": 0}, {}
        for event in events:
            kind = event["ev"]
            if kind == "session":
                self.session = event
            elif kind == "epoch":
                names = {}
            elif kind == "process":
                images[event["id"]] = (event["pid"], event["exec"])
            elif kind == "thread":
                key = names[event["id"]] = (event["tid"], event["start"], images[event["process"]])
                if key not in clocks:
                    clocks[key] = event["time"]
                    if self.ends.get(key, event["time"]) != event["time"]:
                        border[key] = self.ends[key]
            elif kind == "samples":
                for at, wall, cpu, thread, cause in rows(event, "wall", "cpu", "thread", "cause"):
                    self.cpu += cpu
                    self.samples += not cause
                    self.waits += wall if cause else 0
                    self.follow(path, clocks, border, names[thread], at, wall)
            elif kind == "thread_end":
                self.cpu += event["cpu"]
                self.follow(path, clocks, border, names[event["id"]], event["time"], event["wall"])
            elif kind == "ledger":
                ledger = event
            elif kind == "end":
                self.reasons.append(event["reason"])
        self.told += ledger["samples"]
        self.unfinished += events[-1]["ev"] != "end"
        self.ends = clocks

    def follow(self, path, clocks, border, key, at, wall):
        """The row begins where the thread's row before it ended, in this file or in the one before. (A thread that ended just before the border
        has its last CPU time in the next file, and no wall time there.)"""
        before = border.get(key, clocks[key])
        if wall and at - wall != before:
            self.holes.append((os.path.basename(path), key, before, at - wall))
        self.wall[key[0]] += wall
        border.pop(key, None)
        clocks[key] = at


def read_all(paths):
    """Which of them are refused by the commands that read recordings."""
    bad = []
    for path in paths:
        for command in ([CPROFD, "report", "--json", path], [CPROFD, "convert", path, "-f", "collapsed", "-o", "/dev/null"]):
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            if done.returncode:
                bad.append((command[1], path, done.stderr))
    return bad


def record(folder, *options, seconds=6, target=()):
    done = subprocess.run([CPROFD, "record", "--continuous", folder, *options, "--", PYTHON, TARGET, str(seconds), *target],
                          capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    return done, float(done.stdout.split()[-1])


def judge(what, folder, true, tolerance=0.01):
    paths = files(folder)
    sums = Sums(paths)
    check(all(NAME.match(os.path.basename(path)) for path in paths), f"{what}: names", paths)
    check(not read_all(paths), f"{what}: each file can be read by itself", read_all(paths))
    check_figures(abs(sums.cpu / 1e9 - true) <= tolerance * true + 0.015, f"{what}: CPU time of {len(paths)} files", "%.3f s, the target's %.3f s" % (sums.cpu / 1e9, true))
    check(not sums.holes, f"{what}: threads go on where they were", sums.holes[:5])
    check(sums.reasons == ["rotated"] * (len(paths) - 1) + ["exited"], f"{what}: ends", sums.reasons)
    return sums


def test_truth():
    for mode in ("cpu", "wall"):
        with tempfile.TemporaryDirectory() as folder:
            done, true = record(folder, "--rotate-age", "1s", "--mode", mode, seconds=6)
            check(done.returncode == 0, f"{mode}: status", done.stderr)
            sums = judge(mode, folder, true)
            check(len(files(folder)) >= 4, f"{mode}: files", files(folder))
            check(sums.samples == sums.told or mode == "wall", f"{mode}: samples are those of the ledgers", sums.samples, sums.told)
            check(sums.session["rate"] == 99, f"{mode}: the default rate", sums.session)
            done = subprocess.run([CPROFD, "diff", *files(folder)[1:3]], capture_output=True, text=True)
            # Of a second on a busy machine there may be too few samples.
            check(done.returncode == 0 or (done.returncode == 1 and "Nothing could be compared" in done.stdout), f"{mode}: diff of two", done)


def events_until(client, enough):
    """What comes until `enough` says so of one."""
    events = []
    while not events or not enough(events[-1]):
        events.append(json.loads(client.line()))
    return events


def taken(events):
    """How many samples, and the CPU time (s)."""
    samples = [row for event in events if event["ev"] == "samples" for row in rows(event, "cpu", "cause")]
    rest = sum(event["cpu"] for event in events if event["ev"] in ("thread_end", "process_end"))
    return sum(not cause for _, _, cause in samples), (sum(cpu for _, cpu, _ in samples) + rest) / 1e9


def test_rates():
    """Each part has the rate that it says, whoever makes the ticks: clocks of threads, or, of a target that makes threads and processes, of CPUs."""
    for storm in ((), ("storm",)):
        with tempfile.TemporaryDirectory() as folder:
            daemon = Daemon(folder)
            target = subprocess.Popen([PYTHON, TARGET, "600", *storm], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
            target.stdout.readline()
            try:
                rates(" ".join(("rates", *storm)), daemon, target.pid)
            finally:
                os.killpg(target.pid, signal.SIGKILL)
                target.communicate()
                check(daemon.stop(), "rates: the daemon ends")


def rates(what, daemon, pid):
    client = daemon.connect()
    session = client.request("attach", pid=pid, rate=1999, subprocesses=True)["session"]
    for rate in (0, 2000, 20001):
        try:
            client.request("rotate", session=session, rate=rate)
            check(False, f"{what}: {rate} is refused")
        except Refused as refused:
            check(refused.code == "BAD_VALUE", f"{what}: {rate} is refused", refused)
    for rate in (199, 1000, 49, 1999):
        client.request("rotate", session=session, rate=rate)
        if not [line for line in client.events if b'"ev":"part"' in line]:
            events_until(client, lambda event: event["ev"] == "part")
        client.events = []
        left = 1.2

        def enough(event):
            nonlocal left
            left -= taken([event])[1]
            return left < 0

        events = events_until(client, enough)
        told = [event["rate"] for event in events if event["ev"] == "session"]
        check(told == [rate], f"{what}: {rate} is told", told)
        samples, cpu = taken(events)
        # What a sample got on account at the rate before is paid back: a period of each thread.
        check_figures(abs(samples - rate * cpu) <= 3 + 4 * (rate * cpu) ** 0.5 + 0.06 * rate, f"{what}: {rate} Hz", f"{samples} samples of {rate * cpu:.0f}")
    client.close()


def test_self_limit():
    """The limit is a tenth of what it takes: the second file, half a minute later, has a lower rate."""
    with tempfile.TemporaryDirectory() as folder:
        done, true = record(folder, "-r", "1999", "--self-limit", "0.1%", seconds=40)
        sums = judge("self-limit", folder, true)
        rates = [next(event["rate"] for event in read(path) if event["ev"] == "session") for path in files(folder)]
        check(rates[0] == 1999 and len(rates) > 1 and rates[-1] < 1000, "self-limit: the rate falls", rates)
        check("from here on %d sample" % rates[-1] in done.stderr, "self-limit: it is said", done.stderr)
        check(sums.samples == sums.told, "self-limit: samples are those of the ledgers", sums.samples, sums.told)


def test_storm():
    with tempfile.TemporaryDirectory() as folder:
        done, true = record(folder, "--rotate-age", "1s", "-s", "-r", "499", seconds=4, target=("storm",))
        check(done.returncode == 0, "storm: status", done.stderr)
        judge("storm of threads, children and exec", folder, true, 0.03)


def test_size_and_keep():
    """SIGUSR2 rotates; the oldest files go."""
    with tempfile.TemporaryDirectory() as folder:
        foreign = [os.path.join(folder, "cprofd-" + name) for name in ("notes.cprof", "20200101T120000.000Z-4242-before.cprof", "20200101T120000.000Z.cprof",
                                                                       "20200101T120000.000Z-4242.copy.cprof", "20200101T-4242.cprof.part")]
        for path in foreign:
            with open(path, "w") as file:
                file.write("x" * 50000)
        with subprocess.Popen([PYTHON, "-c", UNTIL_TOLD], stdout=subprocess.PIPE) as target:
            target.stdout.readline()
            recorder = subprocess.Popen([CPROFD, "attach", "--continuous", folder, "--keep", "40k", "--rotate-size", "10k", "-r", "999", str(target.pid)],
                                        stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
            first = until(lambda: [path for path in files(folder) if path.endswith(".part") and path not in foreign])
            first = first[0][:-len(".part")]
            check(until(lambda: os.path.exists(first)), "size: the first file is renamed when it is complete")
            check(until(lambda: not os.path.exists(first)), "keep: the oldest goes")
            most = 0
            for _ in range(40):
                recorder.send_signal(signal.SIGUSR2)
                time.sleep(0.1)
                most = max(most, sum(os.path.getsize(path) for path in files(folder) if path not in foreign and os.path.exists(path)))
            recorder.send_signal(signal.SIGINT)
            words = recorder.communicate(timeout=60)[1]
            target.send_signal(signal.SIGUSR1)
        check(recorder.returncode == 0, "keep: status", words)
        check_figures(most <= 60000, "keep: bytes at most", most)
        check(all(map(os.path.exists, foreign)), "keep: other files stay", files(folder))
        for path in filter(os.path.exists, foreign):
            os.unlink(path)
        check(not [path for path in files(folder) if path.endswith(".part")], "no .part is left", files(folder))
        check(not read_all(files(folder)), "keep: what is left can be read")
        check(not Sums(files(folder)).holes, "keep: threads go on where they were", Sums(files(folder)).holes[:5])


def test_clock():
    """The clock is set two hours ahead, and back: names go on, and so does time."""
    with tempfile.TemporaryDirectory() as work:
        more, step = stepped(work)
        folder = os.path.join(work, "files")
        recorder = subprocess.Popen([CPROFD, "record", "--continuous", folder, "--rotate-age", "1s", "--", PYTHON, TARGET, "4"], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(ENVIRONMENT, **more))
        complete = lambda: [path for path in (files(folder) if os.path.isdir(folder) else []) if path.endswith(".cprof")]  # noqa: E731
        until(complete)
        open(step, "w").close()
        until(lambda: len(complete()) > 1 or recorder.poll() is not None)
        os.unlink(step)
        out, words = recorder.communicate(timeout=60)
        check(recorder.returncode == 0, "clock: status", words)
        order = [min(event["monotonic"] for event in read(path) if event["ev"] == "session") for path in files(folder)]
        check(order == sorted(order), "clock: the order of names is that of time", files(folder), order)
        judge("clock", folder, float(out.split()[-1]))


def test_replaced():
    """The directory is moved away, and later removed: --keep is of the one that has its name now; a file that is lost is named."""
    with tempfile.TemporaryDirectory() as work:
        folder = os.path.join(work, "files")
        with subprocess.Popen([PYTHON, "-c", UNTIL_TOLD], stdout=subprocess.PIPE) as target:
            target.stdout.readline()
            recorder = subprocess.Popen([CPROFD, "attach", "--continuous", folder, "--keep", "30k", "--rotate-size", "1k", "-r", "999", str(target.pid)],
                                        stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
            check(until(lambda: os.path.isdir(folder) and [path for path in files(folder) if path.endswith(".cprof")]), "replaced: it runs")
            os.rename(folder, folder + ".old")
            os.mkdir(folder)
            first = until(lambda: [path for path in files(folder) if path.endswith(".cprof")])[0]
            check(until(lambda: not os.path.exists(first), 30), "replaced: the oldest of the new directory goes", files(folder))
            old = files(folder + ".old")
            check(not [path for path in old if path.endswith(".part")] and not read_all(old), "replaced: what was moved is complete", old)
            for path in files(folder):
                os.unlink(path)
            os.rmdir(folder)
            time.sleep(2)
            recorder.send_signal(signal.SIGINT)
            words = recorder.communicate(timeout=60)[1]
            target.send_signal(signal.SIGUSR1)
        check("was removed while it was written" in words, "replaced: a file that is lost is named", words)
        check("make it again" in words, "replaced: and so is its directory", words)
        check(recorder.returncode == 1, "replaced: and it is a failure", recorder.returncode, words)


def test_kills(n):
    """What a killed recorder left is a run from the begin, but for the last second or so."""
    unreadable, holes, lost = [], [], []
    with subprocess.Popen([PYTHON, "-c", UNTIL_TOLD], stdout=subprocess.PIPE) as target:
        target.stdout.readline()
        for _ in range(n):
            with tempfile.TemporaryDirectory() as folder:
                recorder = subprocess.Popen([CPROFD, "attach", "--continuous", folder, "--rotate-size", "1k", "--keep", "10M", "-r", "499", str(target.pid)],
                                            stderr=subprocess.DEVNULL, env=ENVIRONMENT, start_new_session=True)
                until(lambda: files(folder) and os.path.getsize(files(folder)[0]), pause=0.01)
                for _ in range(random.randrange(4)):
                    recorder.send_signal(signal.SIGUSR2)
                    time.sleep(random.random() * 0.4)
                time.sleep(random.random() * 0.4)
                recorder.kill()
                recorder.wait()
                # Killed before the first second was over: nothing is there.
                paths = [path for path in files(folder) if any(event["ev"] == "session" for event in read(path))]
                parts = [path for path in paths if path.endswith(".part")]
                unreadable += read_all(paths)
                sums = Sums(paths)
                holes += sums.holes
                if len(parts) > 1 or sums.unfinished > 1:
                    lost.append(paths)
                # The next one goes on in the same directory.
        target.send_signal(signal.SIGUSR1)
    check_figures(not unreadable, f"{n} kills: each file can be read", unreadable[:3])
    check(not holes, f"{n} kills: no hole between files", holes[:5])
    check(not lost, f"{n} kills: at most one file has no end", lost[:3])


def test_full_disk():
    if not mount_namespaces():
        skip("no mount namespaces: no small disk")
        return
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "none", folder], check=True)
        try:
            full_disk(folder)
        finally:
            subprocess.run(["umount", "-l", folder], check=True)


def full_disk(folder):
    ballast = os.path.join(folder, "ballast")
    with subprocess.Popen([PYTHON, "-c", UNTIL_TOLD], stdout=subprocess.PIPE) as target:
        target.stdout.readline()
        recorder = subprocess.Popen([CPROFD, "attach", "--continuous", folder, "--rotate-age", "1s", "-r", "2000", str(target.pid)],
                                    stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        until(lambda: len(files(folder)) > 2)
        with open(ballast, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass
        first = files(folder)[1]
        check(until(lambda: not os.path.exists(first), 30), "full disk: the oldest goes", files(folder))
        # Now it is full of other things alone, and it has room again.
        kept = until(lambda: len(files(folder)) <= 2, 60)
        time.sleep(3)
        os.unlink(ballast)
        subprocess.run(["mount", "-o", "remount,size=32m", folder], check=True)
        now = files(folder)
        check(until(lambda: len([path for path in files(folder) if path not in now]) > 2, 30), "full disk: it goes on when there is room", files(folder))
        recorder.send_signal(signal.SIGINT)
        words = recorder.communicate(timeout=60)[1]
        target.send_signal(signal.SIGUSR1)
    check(recorder.returncode == 0 and "full" in words, "full disk: it is said", recorder.returncode, words)
    check(not read_all(files(folder)), "full disk: what is there can be read", read_all(files(folder)), kept)


def test_openmetrics():
    """By Prometheus' own parsers, where they are installed."""
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, CPROFD_SOCKET=os.path.join(folder, "socket"))
        with subprocess.Popen([CPROFD, "serve"], env=environment, stderr=subprocess.DEVNULL) as daemon, \
                subprocess.Popen([PYTHON, "-c", UNTIL_TOLD], stdout=subprocess.PIPE) as target:
            until(lambda: os.path.exists(environment["CPROFD_SOCKET"]))
            target.stdout.readline()
            recorder = subprocess.Popen([CPROFD, "attach", "--continuous", os.path.join(folder, "files"), str(target.pid)], env=environment,
                                        stderr=subprocess.DEVNULL)
            samples = re.compile(r'^cprofd_session_samples_total{session="1",pid="%d"} ([1-9]\d*)$' % target.pid, re.M)
            text = until(lambda: (lambda out: out if samples.search(out) else None)(
                subprocess.run([CPROFD, "status", "--openmetrics"], env=environment, capture_output=True, text=True).stdout))
            recorder.send_signal(signal.SIGINT)
            recorder.wait()
            target.send_signal(signal.SIGUSR1)
            daemon.terminate()
    if not check(text, "openmetrics: a session's samples"):
        return
    check("cprofd_session_rate_hertz{session=\"1\",pid=\"%d\"} 99\n" % target.pid in text, "openmetrics: its rate", text)
    try:
        from prometheus_client import openmetrics, parser
        import prometheus_client.openmetrics.parser
    except ImportError:
        skip("prometheus_client is not installed: the text is not parsed")
        return
    families = {family.name: family for family in openmetrics.parser.text_string_to_metric_families(text)}
    check(families["cprofd_cpu_seconds"].type == "counter" and families["cprofd_memory_bytes"].samples[0].value > 0, "openmetrics: OpenMetrics", families)
    check(list(parser.text_string_to_metric_families(text)), "openmetrics: Prometheus' older format")


TESTS = {"truth": test_truth, "rates": test_rates, "storm": test_storm, "keep": test_size_and_keep, "clock": test_clock, "replaced": test_replaced, "full": test_full_disk, "openmetrics": test_openmetrics}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=12)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if os.geteuid():
        skip("needs root")
        return finish()
    for name, test in TESTS.items():
        if not arguments.names or name in arguments.names:
            test()
    if "self-limit" in arguments.names:
        test_self_limit()
    if not arguments.names or "kills" in arguments.names:
        test_kills(arguments.kills)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
