#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Each system call of cprofd fails once, and each allocation: no crash, no wait for ever, and words that say what went wrong. Needs root.

    failing_calls.py [--all | --share PERCENT] [--seed N] [--only WORDS] [--not WORDS] [--show] [CASE...]

A case is a command. tests/tools/failing_calls.c says which calls its processes make (executable, call, place, depth of the stack), and runs it again
for each of these, with that call failing; tests/targets/failing_allocation.c does so for allocations. A command that ends with status 0 has
written what it should have; with 1 it says why in a sentence. --all takes all calls and not one in a hundred: some 7,000, an hour.

run-live: beside"""
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

from lib import CPROFD, ROOT
from lib.command import BUSY, PYTHON, environment, target
from lib.result import check, finish, skip
from lib.wait import until

TOOL = os.path.join(ROOT, "build/tests/tools/failing_calls")
TIME = 60
WORK = "import time\nend = time.monotonic() + 0.5\nwhile time.monotonic() < end: sum(range(2000))"
Case = collections.namedtuple("Case", "words output same", defaults=(False,))  # same: its output is what it was when nothing failed, or it says something
CASES = {
    "report": Case(("report", "a.cprof"), "stdout", True),
    "report-json": Case(("report", "--json", "a.cprof"), "json", True),
    "speedscope": Case(("convert", "a.cprof", "-f", "speedscope", "-o", "out"), "json out", True),
    "html": Case(("convert", "a.cprof", "-f", "html", "-o", "out"), "file out", True),
    "pprof": Case(("convert", "a.cprof", "-f", "pprof", "-o", "out"), "file out", True),
    "diff": Case(("diff", "a.cprof", "b.cprof"), "stdout", True),
    "attach": Case(("attach", "PID", "-d", "0.3", "-o", "out.cprof"), "recording out.cprof"),
    "attach-wall": Case(("attach", "PID", "-d", "0.3", "--mode=wall", "-s", "-o", "out", "-f", "speedscope"), "json out"),
    "record": Case(("record", "-o", "out.cprof", "--", PYTHON, "-c", WORK), "recording out.cprof"),
    "dump": Case(("dump", "PID"), "stdout"),
    "serve": Case(("serve", "--allow=own", "--socket", "socket"), "clients"),
}


def sentence(text):
    """Something that is more than an errno: a line of ours with a few words."""
    return any(re.search(r"\w+ \w+ \w+", line) for line in text.splitlines())


def content(folder, name):
    path = os.path.join(folder, *name)
    return open(path, "rb").read() if name and os.path.exists(path) else None


def judge_clients(served):
    """The call that fails may be one for any of them: who it was for is refused, with a reason, and nobody else."""
    refused = [words for status, words in served if status]
    if any(status not in (0, 1) for status, _ in served) or not all(sentence(words) for words in refused):
        return "a client: %s" % served
    return "more than one client: %s" % refused if len(refused) > 1 else None


def judge(case, run, folder, whole):
    """What is wrong with how it ended, or None. whole: output and words when nothing failed."""
    out, err = run.stdout.decode(errors="replace"), run.stderr.decode(errors="replace")
    if run.returncode not in (0, 1):
        return "status %d" % run.returncode
    if "Assertion" in err or "AddressSanitizer" in err:
        return "an assertion"
    if run.returncode == 1:
        return None if sentence(err) else "nothing is said"
    kind, *name = case.output.split()
    if kind == "clients":
        return judge_clients(run.served)
    text = content(folder, name)
    if name and not text:
        return "status 0 without a file"
    if case.same and (run.stdout, text) != whole[:2] and run.stderr == whole[2]:
        return "status 0, other output, and not a word"
    if kind == "json":
        try:
            json.loads(text or out)
        except ValueError:
            return "status 0 with half a file"
    if kind == "stdout" and not out:
        return "status 0 without output"
    if kind == "recording":
        report = subprocess.run([CPROFD, "report", name[0]], cwd=folder, env=environment(), capture_output=True)
        if report.returncode:
            return "status 0 with a recording that cannot be read: %s" % report.stderr.decode(errors="replace").strip()
    return None


class Sweep:
    def __init__(self, folder, show):
        self.folder, self.show = folder, show
        self.out = os.path.join(folder, "calls")
        self.library = os.path.join(folder, "failing_allocation.so")
        subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-o", self.library, os.path.join(ROOT, "tests/targets/failing_allocation.c")], check=True)
        for name in "ab":
            subprocess.run([CPROFD, "record", "-o", name + ".cprof", "--", PYTHON, "-c", WORK], cwd=folder, env=environment(), check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def clean(self):
        for name in os.listdir(self.folder):
            if name.startswith(("out", "socket")):
                os.unlink(os.path.join(self.folder, name))

    def run(self, case, pid, key):
        """How it ended (None: not at all), and what the tool noted."""
        self.clean()
        words = [str(pid) if word == "PID" else word for word in case.words]
        # Where the stack begins depends on the environment, and so do keys where a function aligns it.
        env = {"PATH": "/usr/sbin:/usr/bin", "LD_PRELOAD": self.library, "CACHE_DIRECTORY": os.path.join(self.folder, "cache"),
               "FAILING_CALLS_TRAP": os.environ.get("FAILING_CALLS_TRAP", "0")}
        tool = subprocess.Popen([TOOL, self.out, key, CPROFD, *words], cwd=self.folder, env=env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            served = self.clients(tool, pid) if case.output == "clients" else None
            out, err = tool.communicate(timeout=TIME)
            run = subprocess.CompletedProcess(words, tool.returncode, out, err)
            run.served = served
        except subprocess.TimeoutExpired:
            tool.kill()  # ... and with it all that it traces
            tool.communicate()
            run = None
        with open(self.out) as file:
            return run, file.read().splitlines()

    def client(self, pid):
        words = CPROFD, "attach", str(pid), "-d", "0.2", "-o", "out.cprof"
        run = subprocess.run(words, cwd=self.folder, env=environment(CPROFD_SOCKET=os.path.join(self.folder, "socket")), stdin=subprocess.DEVNULL,
                             capture_output=True, timeout=TIME)
        return run.returncode, run.stderr.decode(errors="replace")

    def clients(self, tool, pid):
        """Two clients, one after the other, and a third if the second was refused; then the daemon is told to end. How the clients fared."""
        socket = os.path.join(self.folder, "socket")
        if not until(lambda: os.path.exists(socket) or tool.poll() is not None) or tool.poll() is not None:
            return None
        served = [self.client(pid), self.client(pid)]
        if served[-1][0]:
            served.append(self.client(pid))
        for daemon in self.children(tool.pid):
            os.kill(daemon, signal.SIGTERM)
        return served

    @staticmethod
    def children(pid):
        with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
            return [int(word) for word in file.read().split()]

    def keys(self, case, pid):
        run, lines = self.run(case, pid, "-")
        if not run or run.returncode:
            raise RuntimeError("it does not even work when nothing fails: %s" % (run and run.stderr.decode()))
        self.whole = run.stdout, content(self.folder, case.output.split()[1:]), run.stderr
        return [line.split() for line in lines if not line.startswith("died")]

    def try_one(self, case, pid, key):
        """What is wrong, or None; and what failed, which is nothing if the call was not made this time."""
        run, lines = self.run(case, pid, key)
        failed = next((line for line in lines if line.startswith("failed")), None)
        died = [line for line in lines if line.startswith("died")]
        wrong = "; ".join(died) or ("it waits for ever" if not run else judge(case, run, self.folder, self.whole))
        if self.show and failed:
            print("  ", key, failed, "->", wrong or run.returncode, run.stderr.decode(errors="replace").strip()[:300] if run else "", flush=True)
        return wrong, failed


def sweep(folder, name, case, pid, arguments, chance):
    it = Sweep(folder, arguments.show)
    keys = [k for k in it.keys(case, pid) if arguments.only in " ".join(k) and not (arguments.skip and arguments.skip in " ".join(k))]
    tried = keys if arguments.all else [k for k in keys if chance.random() * 100 < arguments.share]
    wrong, met = [], 0
    for key, *what in tried:
        bad, failed = it.try_one(case, pid, key)
        met += bool(failed)
        wrong += [(key, *what, bad)] if bad and failed else []
    check(not wrong, "%s: of %d calls %d failed, one at a time" % (name, len(keys), met), *wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--share", type=float, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", metavar="WORDS", help='of what the tool prints: "cprofd-engine malloc"')
    parser.add_argument("--not", default="", metavar="WORDS", dest="skip")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("cases", nargs="*", default=list(CASES))
    arguments = parser.parse_args()
    if os.geteuid():
        skip("needs root")
        return finish()
    chance = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder, target(BUSY + "while True:\n    busy(0.01)\n    time.sleep(0.04)") as process:
        os.chmod(folder, 0o755)  # the engine, whom it belongs to nobody, loads the library
        for name in arguments.cases:
            sweep(folder, name, CASES[name], process.pid, arguments, chance)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
