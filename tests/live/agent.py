#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""`cprofd agent`: every Python of the machine is in its recording, from its begin or the agent's, and nothing else.

    agent.py [NAME ...]

Pythons of each version that is here, of several users, which run already, begin, fork, execute another program: the CPU time that each has in the
recording is what it says itself, and its samples are as many as that time has periods, within chance. Programs that are no Pythons have no samples.
--match and --exclude choose by name, control group and user. Needs root."""
import collections
import contextlib
import json
import os
import pwd
import signal
import subprocess
import sys
import tempfile
import time

from lib import CPROFD, ROOT
from lib.calls import every_interpreter
from lib.command import BUSY, NOBODY, PYTHON, environment, expect
from lib.memory import family
from lib.recording import rows
from lib.result import check, check_figures, finish, run_tests, skip
from lib.wait import until

TARGET = os.path.join(ROOT, "tests", "targets", "hosted.py")
RATE = 97


def files(folder):
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def read(path):
    """All events; of a file whose end is missing up to there."""
    lines = subprocess.run(["zstd", "-dcqf", path], capture_output=True).stdout.split(b"\n")
    return [json.loads(line) for line in lines[:-1]]


class Seen:
    """What recordings have of each pid."""

    def __init__(self, paths):
        self.cpu, self.samples, self.pythons, self.names, self.reasons, self.losses = collections.Counter(), collections.Counter(), {}, {}, [], {}
        for path in paths:
            processes, threads = {}, {}
            for event in read(path):
                if event["ev"] == "process":
                    processes[event["id"]] = event["pid"]
                    self.names.setdefault(event["pid"], set()).add(event["name"])
                    self.pythons.setdefault(event["pid"], set()).add(event.get("python"))
                elif event["ev"] == "thread":
                    threads[event["id"]] = processes[event["process"]]
                elif event["ev"] == "samples":
                    for _, cpu, thread in rows(event, "cpu", "thread"):
                        self.cpu[threads[thread]] += cpu / 1e9
                        self.samples[threads[thread]] += 1
                elif event["ev"] == "thread_end":
                    self.cpu[threads[event["id"]]] += event["cpu"] / 1e9
                elif event["ev"] == "ledger":
                    self.losses = event["losses"]
                elif event["ev"] == "end":
                    self.reasons.append(event["reason"])


def tables_of(path):
    """CPU time by pid, as the tables of processes and of threads have it."""
    run = subprocess.run([CPROFD, "report", "--json", "--by=process,thread", path], capture_output=True, text=True, env=environment(), timeout=60)
    sums = []
    for table in json.loads(run.stdout)["tables"]:
        sums.append(collections.Counter())
        for row in table["rows"]:
            sums[-1][row["pid"]] += row["exclusive_ns"]
    return [{pid: cpu / 1e9 for pid, cpu in one.items()} for one in sums]


@contextlib.contextmanager
def agent(*options, ends=signal.SIGTERM):
    """An agent that has this process in its recording already; `folder`, and after it `seen` and `status`."""
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen([CPROFD, "agent", folder, "-r", str(RATE), *options], env=environment(), stderr=subprocess.PIPE, text=True)
        process.folder = folder
        try:
            begun = until(lambda: process.poll() is not None or any(os.path.getsize(path) > 100 for path in files(folder)), 30)
            expect(begun and process.poll() is None, "it does not record", process.poll())
            yield process
            process.send_signal(ends)
            process.err = process.communicate(timeout=60)[1]
            process.seen = Seen(files(folder))
            if len(files(folder)) == 1 and ends == signal.SIGTERM:
                process.told, process.told_threads = tables_of(*files(folder))
        finally:
            process.kill()
            process.wait()


def holds(folder, pid):
    return until(lambda: pid in Seen(files(folder)).names, 20, 0.2)


def begin(python, *arguments, uid=0, program=TARGET, **more):
    def become():
        if uid:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
    return subprocess.Popen([python, program, *map(str, arguments)], stdout=subprocess.PIPE, text=True, preexec_fn=become, cwd="/", **more)


def told(process):
    words = process.communicate(timeout=60)[0].split()
    expect(process.returncode == 0 and len(words) >= 2, "a target failed", process.returncode, words)
    return {int(pid): float(cpu) for pid, cpu in zip(words[-2::-2], words[-1::-2])} if len(words) != 4 else \
        {int(words[0]): float(words[1]), int(words[2]): float(words[3])}


def judge(what, seen, true, pid, before=0.0):
    """`before`: it ran unseen for up to so long. What the kernel's clocks and its own differ by is within some ticks."""
    cpu, n = seen.cpu[pid], seen.samples[pid]
    check_figures(true - before - 0.03 - 0.01 * true <= cpu <= true + 0.08 + 0.02 * true, f"{what}: CPU time", "%.3f s, its own %.3f s" % (cpu, true))
    # A process's last row (its end) is no sample. Four standard deviations of a Poisson variable.
    expected = true * RATE
    check_figures(abs(n - expected) <= 4 * expected ** 0.5 + 3, f"{what}: samples", n, "of %.0f" % expected)


def test_everyone():
    pythons = every_interpreter()
    early = begin(PYTHON, 1, "told")
    expect(early.stdout.readline() == "up\n", "the early one")
    with agent() as process:
        expect(holds(process.folder, early.pid), "one that ran already is not seen")
        early.send_signal(signal.SIGUSR1)
        cases = [("ran before", early, 0)]
        cases += [("forks", begin(PYTHON, 0.6, "fork"), 0), ("executes", begin(PYTHON, 1, "exec"), 0),
                  ("of a shell", subprocess.Popen(["sh", "-c", f"exec {PYTHON} {TARGET} 0.5 work"], stdout=subprocess.PIPE, text=True), 0),
                  ("of nobody", begin(PYTHON, 0.5, "work", uid=NOBODY), 0)]
        shell = subprocess.Popen(["sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done"])
        results = [(what, told(one)) for what, one, _ in cases]
        shell.wait()
        for python in pythons:
            one = begin(python, 0.4, "work")
            results.append((python, told(one)))
            check_version = (python, one.pid)
            process.versions = getattr(process, "versions", []) + [check_version]
    check(process.returncode == 0, "status", process.returncode, process.err)
    for what, each in results:
        for pid, true in each.items():
            judge(what, process.seen, true, pid)
    for python, pid in process.versions:
        true = subprocess.run([python, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"], capture_output=True, text=True).stdout.strip()
        # That of this process, too, which forked it.
        check(any(str(one).startswith(true) for one in process.seen.pythons[pid]), f"{python}: its version", process.seen.pythons[pid])
    check(process.seen.samples[shell.pid] <= 1 and not any(name.startswith("sh ") for name in process.seen.names.get(shell.pid, ())),
          "a shell is not recorded", process.seen.samples[shell.pid], process.seen.names.get(shell.pid))
    check(process.seen.samples[process.pid] == 0, "nor is the agent")
    check(process.seen.reasons == ["stopped"], "its end", process.seen.reasons)
    for what, each in results:
        for pid, true in each.items():
            check_figures(true - 0.03 - 0.01 * true <= process.told[pid] <= true + 0.08 + 0.02 * true, f"{what}: row of its process",
                          "%.3f s, its own %.3f s" % (process.told[pid], true))
    check(process.told == process.told_threads, "rows of processes are the sums of those of their threads", process.told, process.told_threads)


def test_other_program():
    """What a process ran before it became a Python, or one that the patterns let in, is not that Python's."""
    busy = "import os, sys, time; begin = time.process_time()\nwhile time.process_time() < begin + 0.4: sum(range(1000))\n"
    python = f"exec {PYTHON} -S -E -c '{busy}print(begin, time.process_time())' agent-after"
    before = {"a shell": "i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done; " + python,
              "a Python left out": f"exec {PYTHON} -S -E -c '{busy}os.execv(\"/bin/sh\", [\"sh\", \"-c\", sys.stdin.read()])'"}
    with agent("--match", "name=agent-after", "--match", f"name={os.path.basename(sys.argv[0])}") as process:
        ran = {}
        for what, program in before.items():
            one = subprocess.Popen(["sh", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            ran[what] = one.pid, [float(word) for word in one.communicate(python, timeout=60)[0].split()]
    for what, (pid, (begin_cpu, end_cpu)) in ran.items():
        own, cpu = end_cpu - begin_cpu, process.seen.cpu[pid]
        check(begin_cpu > 0.3, f"{what} first: it was busy before", begin_cpu)
        check_figures(own - 0.03 <= cpu <= own + 0.15, f"{what} first: CPU time", "%.3f s, its own %.3f s of %.3f s" % (cpu, own, end_cpu))


def chosen(*options):
    """Which of four are in the recording: of this user, of nobody, another name, in a group of its own."""
    group = os.path.join(cgroup_root() or "", "cprofd-agent-test.slice")
    copy = os.path.join(tempfile.gettempdir(), "hosted_other.py")
    with open(TARGET) as source, open(copy, "w") as out:
        out.write(source.read())
    with agent(*options) as process:
        ones = {"root": begin(PYTHON, 0.3, "work"), "nobody": begin(PYTHON, 0.3, "work", uid=NOBODY), "name": begin(PYTHON, 0.3, "work", program=copy)}
        if cgroup_root():
            os.makedirs(group, exist_ok=True)
            ones["group"] = subprocess.Popen(["sh", "-c", f"echo $$ > {group}/cgroup.procs && exec {PYTHON} {TARGET} 0.3 work"], stdout=subprocess.PIPE, text=True)
        for one in ones.values():
            told(one)
    os.unlink(copy)
    if cgroup_root():
        os.rmdir(group)
    return sorted(name for name, one in ones.items() if process.seen.samples[one.pid] > 5)


def cgroup_root():
    """Where groups can be made; None: nowhere."""
    for path in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        if os.path.exists(os.path.join(path, "cgroup.procs")) and os.access(path, os.W_OK) and not os.statvfs(path).f_flag & os.ST_RDONLY:
            return path
    return None


def test_choice():
    everyone = ["group", "name", "nobody", "root"] if cgroup_root() else ["name", "nobody", "root"]
    nobody = pwd.getpwuid(NOBODY).pw_name
    cases = [(["--match", "name=hosted_*"], ["name"]), (["--match", f"user={nobody}"], ["nobody"]), (["-m", "user=65534", "-m", "name=*_other.py"], ["name", "nobody"]),
             (["--exclude", "user=root"], ["nobody"]),
             (["--match", "name=hosted*", "--exclude", "name=hosted_other.py"], [name for name in everyone if name != "name"])]
    if cgroup_root():
        cases.append((["--match", "cgroup=cprofd-agent-*.slice"], ["group"]))
    else:
        skip("no control group can be made")
    for options, expected in cases:
        found = chosen(*options)
        check(found == expected, " ".join(options), found)
    with agent("--match", "name=no-such-*") as process:
        pass
    check("no Python fitted" in process.err and not process.seen.names, "no Python fits: said", process.err)


def test_storm():
    """Pythons that live for some periods, one after another. One that ends before it is looked at is missed: a busy machine has some."""
    each, n = 0.06, 20
    with agent() as process:
        loop = f"i=0; while [ $i -lt {n} ]; do i=$((i + 1)); {PYTHON} -S -E {TARGET} {each} work storm-$1; done"
        shells = [subprocess.Popen(["sh", "-c", loop, "sh", str(number)], stdout=subprocess.PIPE, text=True) for number in range(2)]
        ran = [line.split() for shell in shells for line in shell.communicate(timeout=60)[0].splitlines()]
    true = sum(float(cpu) for _, cpu in ran)
    seen = [int(pid) for pid, _ in ran if int(pid) in process.seen.names]
    cpu = sum(process.seen.cpu[pid] for pid in seen)
    check(len(ran) == 2 * n, "storm: all ran", ran)
    check_figures(len(seen) >= 0.9 * len(ran), "storm: processes that are seen", len(seen), "of", len(ran))
    check_figures(0.8 * true <= cpu <= true * 1.05 + 0.005 * len(ran), "storm: CPU time", "%.3f s, their own %.3f s" % (cpu, true))


def test_stopped():
    """What comes and goes while all of the agent is stopped is in the ledger."""
    with agent("-v") as process:
        ours = family(process.pid)
        for pid in ours:
            os.kill(pid, signal.SIGSTOP)
        try:
            ended = []
            while len(ended) < 5 or ended[-1] < ended[0] + 1:
                told(begin(PYTHON, 0.1, "work"))
                ended.append(time.monotonic())
            old = sum(at < time.monotonic() - 0.6 for at in ended)
        finally:
            for pid in ours:
                os.kill(pid, signal.SIGCONT)
        after = begin(PYTHON, 0.3, "work")
        told(after)
    # Other programs of the machine count, too.
    check_figures(0 < old <= process.seen.losses.get("child_missed", 0), "stopped: the ledger has them", process.seen.losses, old)
    check(after.pid in process.seen.names, "stopped: it goes on")
    check("libbpf" not in process.err and "global func" not in process.err, "stopped: -v is without libbpf's own words", process.err[:600])


def test_files():
    """They are cut and removed as of --continuous; a killed agent leaves one that can be read."""
    one = subprocess.Popen([PYTHON, "-c", BUSY + "busy(600)", "hosted-files"], stdout=subprocess.DEVNULL)
    try:
        # Of what else runs on this machine a file could be full before this one has a sample.
        with agent("--match", "name=hosted-files", "--rotate-age", "1s", "--rotate-size", "5k", "--keep", "10k") as process:
            names = set()

            def removed():
                names.update(path.removesuffix(".part") for path in files(process.folder))
                return len(names) >= 3 and not os.path.exists(min(names))
            expect(until(removed), "the first one is kept", files(process.folder))
        check(set(process.seen.reasons[:-1]) <= {"rotated"} and process.seen.reasons[-1] == "stopped", "ends of files", process.seen.reasons)
        check(process.returncode == 0 and "wrote" in process.err, "status", process.returncode, process.err)
        check(process.seen.samples[one.pid] > 0, "the last ones have their processes")
        with agent(ends=signal.SIGKILL) as process:
            expect(until(lambda: Seen(files(process.folder)).samples[one.pid], 20, 0.2), "it is not sampled")
        check(process.seen.samples[one.pid] > 0 and process.seen.reasons == [], "killed: its file can be read", process.seen.reasons)
    finally:
        one.kill()
        one.wait()


def test_cpu_turned_on():
    """A CPU that was off gets its clock again. It takes the machine's CPU 1 away for a moment: with CPROFD_HOTPLUG=1 alone."""
    switch = "/sys/devices/system/cpu/cpu1/online"
    if os.environ.get("CPROFD_HOTPLUG") != "1" or not os.access(switch, os.W_OK):
        skip("CPROFD_HOTPLUG=1 is not set, or CPU 1 cannot be turned off")
        return

    def turn(on):
        with open(switch, "w") as out:
            out.write(on)
    with agent() as process:
        turn("0")
        turn("1")
        # It looks for CPUs some seconds after its begin.
        ones = [subprocess.Popen(["taskset", "-c", "1", PYTHON, TARGET, "4", "work"], stdout=subprocess.PIPE, text=True)]
        told(ones[0])
        ones.append(subprocess.Popen(["taskset", "-c", "1", PYTHON, TARGET, "1", "work"], stdout=subprocess.PIPE, text=True))
        true = told(ones[1])[ones[1].pid]
    judge("on a CPU that was off", process.seen, true, ones[1].pid)


def test_refusals():
    cases = [([], 2, "which directory"), (["a", "b"], 2, "one directory"), (["a", "--match", "python"], 2, "is none of name=GLOB"),
             (["a", "--match", "name="], 2, "no pattern"), (["a", "--exclude", "pid=3"], 2, "is none of"), (["a", "--match", "user=no-such-user"], 2, "there is no user"),
             (["a", "--exclude", "user=4294967296"], 2, "there is no user"),
             (["a", "--keep", "5k", "--rotate-size", "4k"], 2, "twice"), (["a", "-r", "0"], 2, "rate"), (["a", "--mode=wall"], 2, "--mode"), (["a", "-s"], 2, "-s"),
             (["/proc/no/such"], 1, "no recording can be made")]
    for options, status, words in cases:
        run = subprocess.run([CPROFD, "agent", *options], capture_output=True, text=True, cwd="/", env=environment(), timeout=30)
        check(run.returncode == status and words in run.stderr, " ".join(["agent", *options]), run.returncode, run.stderr)
    run = subprocess.run(["setpriv", f"--reuid={NOBODY}", "--clear-groups", CPROFD, "agent", "/tmp/no"], capture_output=True, text=True, env=environment(), timeout=30)
    check(run.returncode == 1 and "needs root" in run.stderr, "a user", run.returncode, run.stderr)


if __name__ == "__main__":
    run_tests(globals(), sys.argv[1:])
    sys.exit(finish())
