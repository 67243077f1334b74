# SPDX-License-Identifier: MIT
"""The command line: runs cprofd as a user does, in a temporary folder, and has a simple target."""
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time

from lib import CPROFD, ROOT  # noqa: F401 (of those who import it from here)
from lib.wait import until

PYTHON = "/usr/bin/python3"
NOBODY = 65534
BUSY = """
import sys, time
def leaf(n):
    s = 0
    for i in range(n):
        s += i
    return s
def busy(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        leaf(20000)
print("up", flush=True)
"""
# Until SIGUSR1; what is behind it comes then.
UNTIL_TOLD = BUSY.replace('print("up"', 'import signal\ntold = []\nsignal.signal(signal.SIGUSR1, lambda *_: told.append(1))\nprint("up"') + """
while not told:
    leaf(20000)
"""
# Functions that are never the same twice: recordings grow.
CHURN = BUSY + """
import itertools, random
for i in itertools.count():
    name = "f%d_" % i + "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=400))
    space = {}
    exec("def %s(n):\\n    s = 0\\n    for j in range(n):\\n        s += j\\n    return s\\n" % name, space)
    space[name](30000)
"""


class Skip(Exception):
    pass


def expect(condition, what, *details):
    if not condition:
        raise AssertionError(what + "".join("\n      " + str(d)[-1500:] for d in details))


def environment(**more):
    env = {k: v for k, v in os.environ.items() if not k.startswith("SUDO_") and k != "CPROFD_SOCKET"}
    env.update(more)
    return env


def cprofd(*args, cwd=None, env=None, timeout=60, prefix=(), stdin=subprocess.DEVNULL, input=None):
    where = {"input": input} if input else {"stdin": stdin}
    run = subprocess.run([*prefix, CPROFD, *map(str, args)], cwd=cwd, env=env or environment(), **where,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout)
    run.out, run.err = run.stdout.decode(errors="replace"), run.stderr.decode(errors="replace")
    expect(run.returncode >= 0, "cprofd died by a signal", run.returncode, run.err)
    return run


def fails(status, *words, run):
    """It ended so, and its stderr says each of these words."""
    expect(run.returncode == status, "exit status %d, expected %d" % (run.returncode, status), run.err)
    for word in words:
        expect(word in run.err, "stderr does not say %r" % word, run.err)
    expect("Assertion" not in run.err and "ERROR: " not in run.err, "a crash", run.err)


@contextlib.contextmanager
def target(code=BUSY + "busy(60)", python=PYTHON, uid=None, args=()):
    def become():
        if uid is not None:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
    process = subprocess.Popen([python, *args, "-c", code], stdout=subprocess.PIPE, preexec_fn=become, cwd="/")
    try:
        expect(process.stdout.readline().strip() == b"up", "the target did not start")
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def sampled(work, client, seconds=0.7):
    """Waits until the client records into this folder, and then so long."""
    def begun():
        files = [os.path.join(work, name) for name in os.listdir(work)]
        return client.poll() is not None or any(os.path.getsize(path) > 100 for path in files if os.path.exists(path))
    expect(until(begun) and client.poll() is None, "it does not record", client.poll())
    time.sleep(seconds)


@contextlib.contextmanager
def attached(work, process, *options, **more):
    """A client that records into a.json, from its first samples on; `err`: what it said, when it has ended with status 0."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(work, "a.json"))  # of one before
    client = subprocess.Popen([CPROFD, "attach", str(process.pid), "-o", "a.json", *options], cwd=work, env=environment(),
                              stderr=subprocess.PIPE)
    try:
        sampled(work, client, **more)
        yield client
        client.err = client.communicate(timeout=60)[1].decode()
    finally:
        client.kill()
        client.wait()
    expect(client.returncode == 0, "exit status %d" % client.returncode, client.err)


@contextlib.contextmanager
def folder(uid=None):
    path = tempfile.mkdtemp(prefix="cprofd-cli-")
    if uid is not None:
        os.chown(path, uid, uid)
    else:
        os.chmod(path, 0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def profile(path):
    with open(path) as file:
        data = json.load(file)
    expect(data["profiles"], "the file holds no profile")
    return data


def names(path):
    return {frame["name"] for frame in profile(path)["shared"]["frames"]}


def only_file(path, ending):
    files = [f for f in os.listdir(path) if f.endswith(ending)]
    expect(len(files) == 1, "expected one file *%s" % ending, os.listdir(path))
    return os.path.join(path, files[0])


@contextlib.contextmanager
def daemon(path, prefix=(), allow="own", program=CPROFD):
    """own: as the machine's ptrace_scope and perf_event_paranoid are none of most tests' business."""
    process = subprocess.Popen([*prefix, program, "serve", "--allow=" + allow, "--socket", path], stderr=subprocess.PIPE, env=environment())
    try:
        line = process.stderr.readline().decode()
        expect("listens at" in line, "the daemon did not start", line)
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(60)
        process.stderr.close()


def as_nobody(*args):
    return ("setpriv", "--reuid=%d" % NOBODY, "--regid=%d" % NOBODY, "--clear-groups", *args)


def caller():
    """Who called sudo: whoever did (tools/run-live.sh hands that on), or nobody."""
    return (int(os.environ.get("CPROFD_TEST_UID", NOBODY)), int(os.environ.get("CPROFD_TEST_GID", NOBODY)),
            os.environ.get("CPROFD_TEST_USER", "nobody"))


def sudo(uid=None):
    """uid: nobody's. None: the real caller's, of whom there may be none."""
    uid, gid, name = caller() if uid is None else (uid, uid, "nobody")
    return environment(SUDO_UID=str(uid), SUDO_GID=str(gid), SUDO_USER=name, SUDO_COMMAND="cprofd")


