#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""`--trigger`, SIGUSR2 and `cprofd trigger`: the last seconds of a session become a recording when something happens, and at no other time.

    triggers.py [NAME ...]

The oracle is the target's own clock (tests/targets/slow_compile.py): when its long compile began and ended, and which CPU time the process had. The
recording has all of it, once, and the CPU time of its span. cprofd is killed while it writes; the disk is full; the target ends while a recording is
pending. Needs root.
"""
import argparse
import collections
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

from lib import CPROFD, ROOT
from lib.command import NOBODY, PYTHON, as_nobody, daemon, environment
from lib.recording import rows
from lib.result import check, check_figures, finish, skip
from lib.wait import mount_namespaces, until
from report_tables import schema

TARGET = os.path.join(ROOT, "tests", "targets", "slow_compile.py")
RULES = "compiler mine\nunit\n    file */slow_compile.py\n    function build\n    name name\nphase\n    file */slow_compile.py\n    function lower\n    name \"lowering\"\n"
ENVIRONMENT = dict(os.environ, CPROFD_SOCKET="none")
NAME = re.compile(r"cprofd-\d{8}T\d{6}\.\d{3}Z-\d+\.cprof$")


def record(folder, *options, steps=()):
    """cprofd's words, and what the target says it did: {step: [(begin, end, cpu), ...]}, ns."""
    rules = os.path.join(folder, "rules")
    with open(rules, "w") as file:
        file.write(RULES)
    out = os.path.join(folder, "out")
    done = subprocess.run([CPROFD, "record", "--rules", rules, "--dir", out, *options, "--", PYTHON, TARGET, *steps],
                          capture_output=True, text=True, timeout=180, env=ENVIRONMENT)
    told = collections.defaultdict(list)
    for line in done.stdout.splitlines()[1:]:
        line = json.loads(line)
        if "marks" in line:
            told["marks"] = [(1e9 * at, 1e9 * cpu) for at, cpu in line["marks"]]
        else:
            told[line[0]].append([round(1e9 * x) for x in line[1:]])
    return done, told, sorted(os.path.join(out, name) for name in os.listdir(out))


class Recording:
    """CPU time by 10 ms of the clock, each thread's rows, units and what fired."""

    def __init__(self, path):
        lines = subprocess.run(["zstd", "-dcqf", path], capture_output=True, check=True).stdout.splitlines()
        self.events = [json.loads(line) for line in lines]
        self.fired = [event for event in self.events if event["ev"] == "trigger"]
        self.sessions = [event for event in self.events if event["ev"] == "session"]
        self.cpu, self.overlaps, self.begin, self.end = 0, [], self.sessions[0]["monotonic"], self.events[-1]["time"]
        clocks, names = {}, {}
        for event in self.events:
            if event["ev"] == "thread":
                key = names[event["id"]] = (event["tid"], event["start"])
                clocks.setdefault(key, event["time"])
            elif event["ev"] == "samples":
                for at, wall, cpu, thread in rows(event, "wall", "cpu", "thread"):
                    self.take(clocks, names[thread], at, wall, cpu)
            elif event["ev"] == "thread_end":
                self.take(clocks, names[event["id"]], event["time"], event["wall"], event["cpu"])
        done = subprocess.run([CPROFD, "report", "--json", "--by=unit,phase", path], capture_output=True, text=True, timeout=60)
        self.report = json.loads(done.stdout)
        self.units, self.phases = ({row["name"]: row for row in table["rows"]} for table in self.report["tables"])

    def take(self, clocks, key, at, wall, cpu):
        """Time that is in two rows, or in none."""
        if wall and at - wall != clocks[key]:
            self.overlaps.append((key, clocks[key], at - wall))
        clocks[key] = max(clocks[key], at)
        self.cpu += cpu


def formats(path):
    bad = []
    for command in (["report", path], ["convert", path, "-f", "speedscope", "-o", "/dev/null"], ["convert", path, "-f", "html", "-o", "/dev/null"],
                    ["diff", path, path]):
        done = subprocess.run([CPROFD, *command], capture_output=True, text=True, timeout=60)
        if done.returncode:
            bad.append((command, done.stderr))
    return bad


# ns: begins and ends are those of samples, and on a busy machine a thread waits for a CPU before it has one.
LATE = 6e7


def has_whole(what, recording, name, truth, fired=None):
    """All of the compile is there, as one, and what fired is it, when it was so long."""
    begin, end, cpu = truth
    unit = recording.units.get(name, {"calls": 0, "elapsed_ns": 0, "cpu_ns": 0})
    check(recording.begin <= begin and end <= recording.end, f"{what}: it has the compile's begin and its end", recording.begin, begin, end, recording.end)
    check_figures(unit["calls"] == 1 and abs(unit["elapsed_ns"] - (end - begin)) <= 0.02 * (end - begin) + LATE, f"{what}: the compile is one",
                  unit["calls"], "%.3f s, the target's %.3f s" % (unit["elapsed_ns"] / 1e9, (end - begin) / 1e9))
    check_figures(abs(unit["cpu_ns"] - cpu) <= 0.02 * cpu + 2e7, f"{what}: its CPU time", "%.3f s, the target's %.3f s" % (unit["cpu_ns"] / 1e9, cpu / 1e9))
    check(not recording.overlaps, f"{what}: no time is in it twice, or missing", recording.overlaps[:5])
    check(len(recording.sessions) == 1 and recording.events[-1]["ev"] == "end", f"{what}: one session, one end", recording.sessions)
    if fired:
        limit, of = fired
        first = recording.fired[0]
        check(first["name"] == of and first["value"] > limit and abs(first["time"] - first["value"] - begin) <= LATE, f"{what}: what fired",
              recording.fired, begin)
        # With the first sample behind the limit: not at the end.
        check(first["value"] < limit + 1e9 and first["time"] < end, f"{what}: it fired before the end", recording.fired, begin, end)


def test_unit():
    """One long compile among many short ones: one file, with all of it; nothing else fires."""
    with tempfile.TemporaryDirectory() as folder:
        done, told, paths = record(folder, "--trigger", "unit>1s", "--last", "3s", steps=["short=60", "long=2.2", "short=40"])
        check(done.returncode == 0 and "wrote 1 recording" in done.stderr, "unit: status", done.returncode, done.stderr)
        if not check(len(paths) == 1 and NAME.match(os.path.basename(paths[0])), "unit: one file", paths, done.stderr):
            return
        recording = Recording(paths[0])
        has_whole("unit", recording, "long", told["long"][0], (1e9, "long"))
        check(len(recording.fired) == 1 and recording.fired[0]["condition"] == "unit>1s", "unit: once", recording.fired)
        check_figures(recording.end - recording.begin <= 7.5e9 and told["long"][0][0] - recording.begin >= 1.7e9, "unit: the time before, and no more",
                      "%.3f s of %.3f s" % ((told["long"][0][0] - recording.begin) / 1e9, (recording.end - recording.begin) / 1e9))
        check(recording.report["recordings"][0]["triggers"][0]["name"] == "long", "unit: in the report's JSON", recording.report["recordings"])
        known = schema()["triggers"]
        check(all(set(row) == {key for key, (_, when) in known.items() if not when} for row in recording.report["recordings"][0]["triggers"]), "unit: as documented",
              recording.report["recordings"])
        text = subprocess.run([CPROFD, "report", paths[0]], capture_output=True, text=True).stdout
        check("unit>1s: long had taken 1." in text, "unit: in the report's head", text[:600])
        check(not formats(paths[0]), "unit: every command reads it", formats(paths[0]))


def test_phase():
    """A phase, by a pattern; in mode wall."""
    with tempfile.TemporaryDirectory() as folder:
        done, told, paths = record(folder, "--trigger", "phase=low*>500ms", "--trigger", "unit=none>1ms", "--last", "4s", "--mode=wall", steps=["short=10", "long=3"])
        if check(done.returncode == 0 and len(paths) == 1, "phase: one file", paths, done.stderr):
            recording = Recording(paths[0])
            has_whole("phase", recording, "long", told["long"][0])
            check([event["name"] for event in recording.fired] == ["lowering of long"], "phase: what fired", recording.fired)


def test_sleepy():
    """A compile that sleeps for longer than a part lasts: it fires meanwhile, in both modes."""
    for mode in ("cpu", "wall"):
        with tempfile.TemporaryDirectory() as folder:
            done, told, paths = record(folder, "--trigger", "unit>1s", "--last", "4s", "--mode", mode, steps=["short=10", "sleepy=5"])
            if not check(done.returncode == 0 and len(paths) == 1, f"sleepy, {mode}: one file", paths, done.stderr):
                continue
            recording = Recording(paths[0])
            has_whole(f"sleepy, {mode}", recording, "sleepy", told["sleepy"][0])
            fired = recording.fired[0]
            check_figures(fired["time"] < told["sleepy"][0][1] and fired["name"] == "sleepy", f"sleepy, {mode}: it fires in its sleep, after", "%.3f s" % (fired["value"] / 1e9))


def test_cpu():
    """All of a CPU; idle before, so that the CPU time of the file is that of the process."""
    with tempfile.TemporaryDirectory() as folder:
        done, told, paths = record(folder, "--trigger", "cpu>10% for 2s", "--last", "6s", "--after", "1s", steps=["idle=3", "spin=5", "idle=1.5"])
        if check(done.returncode == 0 and len(paths) == 1, "cpu: one file", paths, done.stderr):
            recording = Recording(paths[0])
            fired = recording.fired[0]
            begin, end, _ = told["spin"][0]
            check(fired["condition"] == "cpu>10% for 2s" and 0.1 * 2e9 < fired["value"] <= 2.1e9 and fired["span"] == 2e9, "cpu: what fired", fired)
            check(begin + 1e9 <= fired["time"] <= end and recording.end >= fired["time"] + 1e9, "cpu: when it fired, and the time after it", fired, begin, end, recording.end)
            check(recording.begin <= begin, "cpu: it has the begin", recording.begin, begin)
            # From when it ran until the end of the file.
            ran = [cpu for at, cpu in told["marks"] if at <= recording.end]
            check_figures(abs(recording.cpu - (ran[-1] - ran[0])) <= 0.01 * recording.cpu + 3e7, "cpu: CPU time of the file",
                          "%.3f s, the target's %.3f s" % (recording.cpu / 1e9, (ran[-1] - ran[0]) / 1e9))
            check(not recording.overlaps, "cpu: no time is in it twice, or missing", recording.overlaps[:5])


def longest_stall(told):
    """ns in which a target that was in a compile got no CPU: between two marks of one step."""
    marks = [at for at, _ in told["marks"]]
    inside = [b - a for begin, end, _ in told["short"] for a, b in zip(marks, marks[1:]) if begin <= a and b <= end]
    return max(inside, default=0)


def test_false():
    """No long compile: nothing is written, also when the same short ones come again and again between pauses longer than the limit."""
    with tempfile.TemporaryDirectory() as folder:
        steps = ["short=20"] + ["idle=1.2", "short=1"] * 3 + ["short=20"]
        done, told, paths = record(folder, "--trigger", "unit>300ms", "--trigger", "phase>300ms", "--trigger", "cpu>95% for 2s", "--last", "2s", steps=steps)
        # On a busy machine one may have been long by the clock.
        check(done.returncode == 0 and (not paths and "nothing fired" in done.stderr or longest_stall(told) > 2.8e8), "false: no file", paths, done.stderr,
              "longest time without a mark: %.0f ms" % (longest_stall(told) / 1e6))


def test_cool_down():
    """The cool-down and the number hold; what is held back is told."""
    steps = ["long=0.6", "short=2"] * 3
    with tempfile.TemporaryDirectory() as folder:
        done, told, paths = record(folder, "--trigger", "unit>300ms", "--last", "1s", "--cool-down", "1h", steps=steps)
        check(len(paths) == 1 and re.search(r"\d more fired within --cool-down", done.stderr), "cool-down: one file", paths, done.stderr)
    with tempfile.TemporaryDirectory() as folder:
        done, told, paths = record(folder, "--trigger", "unit>300ms", "--last", "1s", "--cool-down", "0s", "--count", "2", steps=["long=0.6", "idle=2"] * 3)
        check(done.returncode == 0 and len(paths) == 2, "count: two files", paths, done.stderr)
        fired = [event["time"] for path in paths for event in Recording(path).fired]
        compiles = told["long"]
        check(len(fired) == len(set(fired)) == 2 and len(compiles) == 3 and all(compiles[i][0] < fired[i] < compiles[i][1] for i in range(2)),
              "count: the first two compiles", fired, compiles)


def test_signal():
    """SIGUSR2 writes at once, also during the cool-down; Ctrl-C while something is pending writes it."""
    with tempfile.TemporaryDirectory() as folder, \
            subprocess.Popen([PYTHON, TARGET, "spin=600"], stdout=subprocess.PIPE) as target:
        target.stdout.readline()
        recorder = subprocess.Popen([CPROFD, "attach", "--last", "2s", "--dir", folder, str(target.pid)], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
        time.sleep(4)
        for n in range(1, 3):
            asked = time.monotonic_ns()
            recorder.send_signal(signal.SIGUSR2)
            check(until(lambda: len([name for name in os.listdir(folder) if NAME.match(name)]) == n, 20), f"signal: file {n}", os.listdir(folder))
        recorder.send_signal(signal.SIGINT)
        words = recorder.communicate(timeout=60)[1]
        target.kill()
        check(recorder.returncode == 0 and len(os.listdir(folder)) == 2, "signal: status", recorder.returncode, words, os.listdir(folder))
        last = Recording(os.path.join(folder, sorted(os.listdir(folder))[1]))
        check(last.fired[0]["condition"] == "SIGUSR2" and last.begin <= asked - 1.9e9 and last.end >= asked - 1e9, "signal: the last two seconds", last.fired, asked, last.begin, last.end)


def test_full_reasons():
    """Sixteen reasons are pending, and an hour is to follow them: SIGUSR2 ends the wait at once all the same."""
    with tempfile.TemporaryDirectory() as folder:
        rules = os.path.join(folder, "rules")
        with open(rules, "w") as file:
            file.write(RULES)
        with subprocess.Popen([PYTHON, TARGET, *["long=0.2"] * 40, "spin=600"], stdout=subprocess.PIPE) as target:
            target.stdout.readline()
            recorder = subprocess.Popen([CPROFD, "attach", "--rules", rules, "--trigger", "unit>50ms", "--last", "30s", "--after", "1h", "--dir", folder, str(target.pid)],
                                        stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
            fired = sum(1 for _, line in zip(range(18), (line for line in recorder.stderr if "has taken" in line)))
            recorder.send_signal(signal.SIGUSR2)
            written = until(lambda: [name for name in os.listdir(folder) if NAME.match(name)], 20)
            check(fired == 18 and written, "full reasons: SIGUSR2 ends the wait", fired, os.listdir(folder))
            recorder.send_signal(signal.SIGINT)
            recorder.communicate(timeout=60)
            target.kill()
        if written:
            names = [event["condition"] for event in Recording(os.path.join(folder, written[0])).fired]
            check(names == ["unit>50ms"] * 15 + ["SIGUSR2"], "full reasons: it is one of them", names)


def as_another(*args):
    return ("setpriv", "--reuid=%d" % (NOBODY - 1), "--regid=%d" % NOBODY, "--clear-groups", *args)


class Asked:
    """A daemon, a busy process of nobody's, and what records it: cprofd, by nobody."""

    def __init__(self, folder, *options):
        self.folder, self.out = folder, os.path.join(folder, "out")
        os.chmod(folder, 0o755)
        os.mkdir(self.out)
        os.chown(self.out, NOBODY, NOBODY)
        self.path = os.path.join(folder, "socket")
        self.env = environment(CPROFD_SOCKET=self.path)
        self.options = options

    def __enter__(self):
        self.daemon = daemon(self.path)
        self.daemon.__enter__()
        self.target = subprocess.Popen([*as_nobody(PYTHON), TARGET, "spin=600"], stdout=subprocess.PIPE)
        self.target.stdout.readline()
        self.recorder = subprocess.Popen([*as_nobody(CPROFD), "attach", *self.options, str(self.target.pid)], cwd=self.out, stderr=subprocess.PIPE, text=True, env=self.env)
        check(until(lambda: self.sessions(), 60), "asked: it records")
        return self

    def __exit__(self, *_):
        self.recorder.kill()
        self.target.kill()
        self.recorder.communicate()
        self.target.communicate()
        self.daemon.__exit__(None, None, None)

    def sessions(self):
        return json.loads(self.ask("sessions", user=as_nobody)).get("sessions")

    def ask(self, req, user, **keys):
        """The answer to a request of that user's, by a client that is not ours."""
        line = json.dumps({"req": req, "id": 1, **keys})
        program = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\ns.sendall(sys.argv[2].encode() + b'\\n')\n"
                   "f = s.makefile()\nf.readline()\nprint(f.readline())")
        return subprocess.run([*user(PYTHON), "-c", program, self.path, line], stdout=subprocess.PIPE, text=True, timeout=60).stdout

    def trigger(self, user=lambda *args: args, pid=None):
        return subprocess.run([*user(CPROFD), "trigger", str(pid or self.target.pid)], capture_output=True, text=True, timeout=60, env=self.env)

    def files(self):
        return sorted(name for name in os.listdir(self.out) if NAME.match(name))

    def ends(self):
        self.recorder.send_signal(signal.SIGINT)
        words = self.recorder.communicate(timeout=60)[1]
        return self.recorder.returncode, words


def test_request():
    """Who asks the daemon: the owner, root, another user."""
    with tempfile.TemporaryDirectory() as folder, Asked(folder, "--last", "2s") as asked:
        check([session["trigger"] for session in asked.sessions()] == [True], "request: the session takes it", asked.sessions())
        for n, (who, user) in enumerate((("the owner", as_nobody), ("root", lambda *args: args)), 1):
            at = time.monotonic_ns()
            done = asked.trigger(user)
            check(done.returncode == 0 and "writes a recording now" in done.stderr, f"request: {who}", done.returncode, done.stderr)
            if check(until(lambda: len(asked.files()) == n, 30), f"request: {who}: a file", asked.files()):
                path = os.path.join(asked.out, asked.files()[-1])
                recording = Recording(path)
                check(os.stat(path).st_uid == NOBODY, f"request: {who}: it is the recorder's", os.stat(path))
                check([event["condition"] for event in recording.fired] == ["request"] and recording.fired[0]["time"] >= at and recording.end >= at - 5e8 and not recording.overlaps,
                      f"request: {who}: what is in it", recording.fired, at, recording.end, recording.overlaps[:5])
        done = asked.trigger(as_another)
        check(done.returncode == 1 and "no session of yours" in done.stderr, "request: another user", done.returncode, done.stderr)
        number = asked.sessions()[0]["session"]
        answers = [json.loads(asked.ask("trigger", as_another, session=number)), json.loads(asked.ask("trigger", as_nobody, session=number + 1))]
        check([answer["code"] for answer in answers] == ["NO_SESSION"] * 2, "request: a session of another user, and none", answers)
        done = asked.trigger(pid=1)
        check(done.returncode == 1 and "1: no session" in done.stderr, "request: a process that nobody records", done.returncode, done.stderr)
        status, words = asked.ends()
        check(status == 0 and len(asked.files()) == 2, "request: nothing else was written", status, words, asked.files())
        done = asked.trigger(as_nobody)
        check(done.returncode == 1 and "no session" in done.stderr, "request: behind its end", done.returncode, done.stderr)


def test_request_refused():
    """A session without a flight recorder."""
    with tempfile.TemporaryDirectory() as folder, Asked(folder, "-o", "x.cprof") as asked:
        for who, user in (("the owner", as_nobody), ("root", lambda *args: args)):
            done = asked.trigger(user)
            check(done.returncode == 1 and "not by a flight recorder" in done.stderr and "--trigger" in done.stderr, f"request: {who}: without a recorder", done.returncode, done.stderr)
        asked.ends()
        events = subprocess.run(["zstd", "-dcqf", os.path.join(asked.out, "x.cprof")], capture_output=True, check=True).stdout
        check(b'"ev":"trigger"' not in events and events.splitlines()[-1].startswith(b'{"ev":"end"'), "request: nothing of it is recorded")


def test_request_burst():
    """As many as a client can send: --count holds, and so does the engine. One of them is within a cool-down."""
    with tempfile.TemporaryDirectory() as folder, Asked(folder, "--trigger", "cpu>1%", "--last", "2s", "--after", "0s", "--cool-down", "1h", "--count", "3") as asked:
        check(until(lambda: len(asked.files()) == 1, 60), "burst: the condition's file", asked.files())
        check(asked.trigger().returncode == 0 and until(lambda: len(asked.files()) == 2, 30), "burst: within the cool-down", asked.files())
        line = json.dumps({"req": "trigger", "id": 1, "pid": asked.target.pid})
        program = ("import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\nf = s.makefile()\nf.readline()\nn = 0\n"
                   "for i in range(100):\n    s.sendall(sys.argv[2].encode() * 20)\n    n += sum('\"ok\":true' in f.readline() for _ in range(20))\nprint(n)")
        done = subprocess.run([*as_nobody(PYTHON), "-c", program, asked.path, line + "\n"], stdout=subprocess.PIPE, text=True, timeout=60)
        status, words = asked.recorder.wait(60), asked.recorder.stderr.read()
        check_figures(int(done.stdout) > 0 and status == 0, "burst: requests that were taken", done.stdout.strip(), status)
        check(len(asked.files()) == 3, "burst: --count holds", asked.files(), words)
        fired = [[event["condition"] for event in Recording(os.path.join(asked.out, name)).fired] for name in asked.files()]
        check(fired[0][0] == "cpu>1%" and fired[1] == ["request"] and set(fired[2]) == {"request"} and len(fired[2]) <= 16, "burst: what fired", fired)


def test_end():
    """The target ends in the middle of the compile that fired."""
    with tempfile.TemporaryDirectory() as folder:
        rules = os.path.join(folder, "rules")
        with open(rules, "w") as file:
            file.write(RULES)
        with subprocess.Popen([PYTHON, TARGET, "short=2", "long=60"], stdout=subprocess.PIPE) as target:
            target.stdout.readline()
            recorder = subprocess.Popen([CPROFD, "attach", "--rules", rules, "--trigger", "unit>500ms", "--dir", folder, str(target.pid)], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
            fired = next((line for line in recorder.stderr if "has taken" in line), "")
            target.kill()
            words = recorder.communicate(timeout=60)[1]
        names = [name for name in os.listdir(folder) if name != "rules"]
        check(fired and recorder.returncode == 0 and len(names) == 1 and NAME.match(names[0]), "end: the recording is written", words, names)
        if names:
            recording = Recording(os.path.join(folder, names[0]))
            check(recording.events[-1].get("reason") == "exited" and "long" in recording.units, "end: up to the target's end", recording.events[-1])


def test_memory():
    """What does not fit is told, and the memory is bounded."""
    with tempfile.TemporaryDirectory() as folder:
        done, told, paths = record(folder, "--trigger", "unit>4s", "--last", "60s", "--memory", "40k", "-r", "8000", steps=["short=40", "long=6"])
        check(done.returncode == 0 and len(paths) == 1 and "did not fit into --memory 40.0 kB" in done.stderr, "memory: it is told", paths, done.stderr)
        # Whole parts go: of one that was begun just then there may be little.
        check_figures(paths and 5000 < os.path.getsize(paths[0]) < 80000, "memory: bytes of the file", paths and os.path.getsize(paths[0]))


def test_full_disk():
    if not mount_namespaces():
        skip("no mount namespaces: no small disk")
        return
    with tempfile.TemporaryDirectory() as folder:
        small = os.path.join(folder, "out")
        os.mkdir(small)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", small], check=True)
        try:
            done, _, paths = record(folder, "--trigger", "unit>300ms", "--last", "2s", steps=["short=20", "long=1"])
            check(done.returncode == 1 and not paths and "No space left" in done.stderr, "full disk: it is said, and nothing is left", done.returncode, done.stderr, paths)
        finally:
            subprocess.run(["umount", "-l", small], check=True)


def test_kills():
    """Killed at any moment: a name without `.part` is a whole recording."""
    with tempfile.TemporaryDirectory() as folder, \
            subprocess.Popen([PYTHON, TARGET, "spin=600"], stdout=subprocess.PIPE) as target:
        target.stdout.readline()
        for i in range(4):
            recorder = subprocess.Popen([CPROFD, "attach", "--last", "1s", "-r", "5000", "--dir", folder, str(target.pid)], stderr=subprocess.PIPE, text=True,
                                        env=ENVIRONMENT, start_new_session=True)
            time.sleep(1.3)
            before = set(os.listdir(folder))
            recorder.send_signal(signal.SIGUSR2)
            until(lambda: set(os.listdir(folder)) - before, 20, 0.001)
            time.sleep(i * 0.006)
            recorder.kill()
            recorder.communicate()
        target.kill()
        whole = [name for name in os.listdir(folder) if NAME.match(name)]
        bad = [name for name in whole if Recording(os.path.join(folder, name)).events[-1]["ev"] != "end"]
        check_figures(not bad and os.listdir(folder), "kills: complete files, and others", len(whole), len(os.listdir(folder)) - len(whole))


def test_words():
    """Of a condition that is none the sentence has the word."""
    for given, word in (("units>2s", "'units' is none of unit, phase, pass, cpu"), ("unit>soon", "'soon' is no time"), ("cpu>90% for x", "'for x'"), ("unit", "no '>'")):
        done = subprocess.run([CPROFD, "attach", "1", "--trigger", given], capture_output=True, text=True, env=ENVIRONMENT)
        check(done.returncode == 2 and word in done.stderr, f"words: {given}", done.returncode, done.stderr)
    for options, word in ((["--count", "3"], "add --trigger"), (["--trigger", "unit>2s", "-o", "x.cprof"], "--dir"), (["--trigger", "unit>2s", "--continuous", "x"], "choose one")):
        done = subprocess.run([CPROFD, "attach", "1", *options], capture_output=True, text=True, env=ENVIRONMENT)
        check(done.returncode == 2 and word in done.stderr, f"words: {' '.join(options)}", done.returncode, done.stderr)


TESTS = {"unit": test_unit, "phase": test_phase, "sleepy": test_sleepy, "cpu": test_cpu, "false": test_false, "cool-down": test_cool_down, "signal": test_signal, "full-reasons": test_full_reasons, "request": test_request, "refused": test_request_refused, "burst": test_request_burst, "end": test_end,
         "memory": test_memory, "full": test_full_disk, "kills": test_kills, "words": test_words}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if os.geteuid():
        skip("needs root")
        return finish()
    for name, test in TESTS.items():
        if not arguments.names or name in arguments.names:
            test()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
