#!/usr/bin/env python3
"""The command line against everything that goes wrong: processes that are not there, not
Python, not ours, that die, exec and fork; full disks, links, stale sockets, missing rights.

    cli.py [NAME ...]     only the tests whose names contain one of these. Needs root.
"""
import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CPROFD = os.environ.get("CPROFD", os.path.join(ROOT, "build", "cprofd"))
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


def cprofd(*args, cwd=None, env=None, timeout=60, prefix=(), stdin=subprocess.DEVNULL):
    run = subprocess.run([*prefix, CPROFD, *map(str, args)], cwd=cwd, env=env or environment(), stdin=stdin,
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
def daemon(path, prefix=()):
    process = subprocess.Popen([*prefix, CPROFD, "serve", "--socket", path], stderr=subprocess.PIPE, env=environment())
    try:
        line = process.stderr.readline().decode()
        expect("listens at" in line, "the daemon did not start", line)
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(10)
        process.stderr.close()


def as_nobody(*args):
    return ("setpriv", "--reuid=%d" % NOBODY, "--regid=%d" % NOBODY, "--clear-groups", *args)


# --- what it is asked to do ---

def test_bad_usage():
    with target() as process:
        pid = str(process.pid)
        for args in ([], ["nonsense"], ["attach"], ["attach", "abc"], ["attach", "0"], ["attach", "-5"], ["attach", pid, "7"],
                     ["attach", pid, "-r", "0"], ["attach", pid, "-r", "21k"], ["attach", pid, "-r", "fast"],
                     ["attach", pid, "-r", "1.5"], ["attach", pid, "-d", "-1"], ["attach", pid, "-d", "x"],
                     ["attach", pid, "-f", "html"], ["attach", pid, "-f", "svgz"], ["attach", pid, "-o"],
                     ["attach", pid, "-o", ""], ["attach", pid, "--native=most"],
                     ["attach", pid, "--mode=walls"], ["attach", pid, "-g=1"], ["report", "a", "-i"],
                     ["attach", pid, "--stream", "-o", "-"], ["attach", pid, "--bogus"], ["attach", pid, "-Z"],
                     ["record"], ["record", "--"], ["record", "-p", pid, "--", "true"], ["convert"],
                     ["convert", "a", "b"], ["report"], ["report", "a", "--by=callers"], ["report", "a", "--sort=name"], ["convert", "a", "--window", "3,1"], ["serve", "x"], ["help", "nonsense"]):
            run = cprofd(*args, timeout=10)
            fails(2, run=run)
            expect(run.err.strip() and not run.out, "nothing was said on stderr, or something on stdout", args, run.out)


def test_help_is_data():
    for args in (["--help"], ["--version"], ["help"], ["help", "attach"], ["attach", "--help"], ["record", "-h"]):
        run = cprofd(*args)
        expect(run.returncode == 0 and run.out and not run.err, "help goes to stdout", args, run.err)
    expect("--subprocesses" in cprofd("attach", "--help").out, "an option is missing in --help")


def test_generated_pages():
    man = cprofd("help", "--man").out
    bash = cprofd("help", "--completion=bash").out
    zsh = cprofd("help", "--completion=zsh").out
    for option in ("subprocesses", "duration", "window", "socket", "native"):
        for page in (man.replace("\\-", "-"), bash, zsh):
            expect("--" + option in page, "a page lacks --" + option)
    expect(subprocess.run(["bash", "-n"], input=bash.encode()).returncode == 0, "bash refuses its completion")
    done = subprocess.run(["bash", "-c", bash + "\nCOMP_WORDS=(cprofd attach --sub); COMP_CWORD=2; _cprofd; echo ${COMPREPLY[@]}"],
                          stdout=subprocess.PIPE).stdout.decode()
    expect(done.strip() == "--subprocesses", "the completion does not complete", done)
    if shutil.which("man"):
        page = subprocess.run(["man", "--warnings", "-l", "-"], input=man.encode(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=environment(LC_ALL="C.UTF-8"))
        expect(page.returncode == 0 and not page.stderr, "man complains", page.stderr)


# --- processes ---

def test_no_such_pid():
    with folder() as work:
        fails(1, "no such process", run=cprofd("attach", 4194303, cwd=work))
        expect(os.listdir(work) == [], "something was left behind", os.listdir(work))


def test_not_a_python():
    with folder() as work:
        process = subprocess.Popen(["sleep", "60"])
        try:
            time.sleep(0.2)
            fails(1, "Python", run=cprofd("attach", process.pid, "-d", "1", cwd=work))
            check = cprofd("check", process.pid)
            expect(check.returncode == 1 and "no CPython" in check.out, "check does not say it", check.out)
        finally:
            process.kill()
            process.wait()
        expect(os.listdir(work) == [], "something was left behind", os.listdir(work))


def test_kernel_thread():
    fails(1, "kernel thread", run=cprofd("attach", 2, "-d", "1", "-o", "/dev/null"))


def test_python_27():
    old = next((p for p in (os.path.expanduser("~/.pyenv/versions/2.7.18/bin/python"), "/usr/bin/python2.7")
                if os.access(p, os.X_OK)), None)
    if not old:
        raise Skip("no Python 2.7")
    code = "import sys, time\nsys.stdout.write('up\\n'); sys.stdout.flush()\nwhile True: pass"
    with folder() as work, target(code, python=old) as process:
        fails(1, "2.7", run=cprofd("attach", process.pid, "-d", "1", cwd=work))
        expect(os.listdir(work) == [], "something was left behind", os.listdir(work))


def test_dies():
    with folder() as work, target(BUSY + "busy(1.5)") as process:
        run = cprofd("attach", process.pid, "-o", "a.json", cwd=work)
        fails(0, "ended", run=run)
        expect("leaf" in names(os.path.join(work, "a.json")), "its functions are not in the file")


def test_killed():
    with folder() as work, target() as process:
        client = subprocess.Popen([CPROFD, "attach", str(process.pid), "-o", "a.json"], cwd=work, env=environment(),
                                  stderr=subprocess.PIPE)
        time.sleep(1.5)
        process.kill()
        err = client.communicate(timeout=30)[1]
        expect(client.returncode == 0, "exit status %d" % client.returncode, err)
        expect("leaf" in names(os.path.join(work, "a.json")), "its functions are not in the file")


def test_execs():
    code = BUSY + "busy(1)\nimport os\nos.execv(%r, [%r, '-c', 'def after():\\n    return sum(range(10**5))\\nfor i in range(400): after()'])" % (PYTHON, PYTHON)
    with folder() as work, target(code) as process:
        fails(0, run=cprofd("attach", process.pid, "-o", "a.json", "-d", "20", cwd=work))
        found = names(os.path.join(work, "a.json"))
        expect("leaf" in found, "what ran before exec is missing", found)
        expect("after" in found, "what ran after exec is missing", found)


def test_execs_no_python():
    code = BUSY + "busy(1)\nimport os\nos.execv('/bin/sleep', ['sleep', '1'])"
    with folder() as work, target(code) as process:
        fails(0, run=cprofd("attach", process.pid, "-o", "a.json", "-d", "10", cwd=work))
        expect("leaf" in names(os.path.join(work, "a.json")), "what ran before exec is missing")


FORKS = """
import os
def child():
    for i in range(40): leaf(200000)
busy(0.7)
if os.fork() == 0:
    %s
    child()
    os._exit(0)
busy(2)
"""


def test_forks():
    for subprocesses in (False, True):
        with folder() as work, target(BUSY + FORKS % "pass") as process:
            args = ["-s"] if subprocesses else []
            fails(0, run=cprofd("attach", process.pid, "-o", "a.json", "-d", "20", *args, cwd=work))
            found = names(os.path.join(work, "a.json"))
            expect("busy" in found, "the parent is missing", found)
            expect(("child" in found) == subprocesses, "-s is %s, child is%s there" % (subprocesses, "" if "child" in found else " not"))


def test_double_forks():
    with folder() as work, target(BUSY + FORKS % "if os.fork(): os._exit(0)\n    os.setsid()") as process:
        fails(0, run=cprofd("attach", process.pid, "-s", "-o", "a.json", "-d", "20", cwd=work))
        expect({"busy", "child"} <= names(os.path.join(work, "a.json")), "the grandchild is missing")


def test_two_at_once():
    with folder() as work, target() as process:
        clients = [subprocess.Popen([CPROFD, "attach", str(process.pid), "-d", "2", "-o", "%d.json" % i], cwd=work,
                                    env=environment(), stderr=subprocess.PIPE) for i in range(2)]
        for client in clients:
            err = client.communicate(timeout=30)[1]
            expect(client.returncode == 0, "exit status %d" % client.returncode, err)
        for i in range(2):
            expect("leaf" in names(os.path.join(work, "%d.json" % i)), "a recording lacks the functions")


# --- rights ---

def test_nobody_without_daemon():
    with folder(NOBODY) as work, target() as process:
        run = cprofd("attach", process.pid, "-d", "1", cwd=work, prefix=as_nobody())
        fails(1, "sudo", run=run)
        expect(os.listdir(work) == [], "something was left behind", os.listdir(work))


def test_daemon_serves_its_users():
    with folder() as run_dir, folder(NOBODY) as work:
        path = os.path.join(run_dir, "s.sock")
        with daemon(path), target() as roots, target(uid=NOBODY) as own:
            expect(os.stat(path).st_mode & 0o777 == 0o666, "the socket is not for everyone")
            fails(1, "someone else", run=cprofd("attach", roots.pid, "-d", "1", "--socket", path, cwd=work, prefix=as_nobody()))
            run = cprofd("attach", own.pid, "-d", "1", "--socket", path, "-o", "a.json", cwd=work, prefix=as_nobody())
            fails(0, "open it at", run=run)
            output = os.path.join(work, "a.json")
            expect(os.stat(output).st_uid == NOBODY and "leaf" in names(output), "not nobody's file")
            status = json.loads(cprofd("status", "--json", "--socket", path).out)
            expect(status["version"], "status tells no version", status)


def test_capabilities_of_the_unit():
    """The daemon needs no more than what its systemd unit leaves it."""
    unit = open(os.path.join(ROOT, "systemd", "cprofd.service.in")).read()
    kept = next(line for line in unit.split("\n") if line.startswith("CapabilityBoundingSet=")).split("=")[1].lower().split()
    last = int(open("/proc/sys/kernel/cap_last_cap").read())
    every = subprocess.run(["capsh", "--decode=%x" % ((1 << last + 1) - 1)], stdout=subprocess.PIPE).stdout.decode()
    dropped = [c for c in every.strip().split("=")[1].split(",") if c not in kept]
    prefix = ("capsh", "--drop=" + ",".join(dropped), "--no-new-privs", "--", "-c", 'exec "$0" "$@"')
    with folder() as work, target() as roots, target(uid=NOBODY) as own:
        os.chmod(work, 0o777)
        path = os.path.join(work, "s.sock")
        with daemon(path, prefix):
            fails(0, run=cprofd("attach", roots.pid, "-d", "1", "--socket", path, "-o", "a.json", cwd=work))
            fails(0, run=cprofd("attach", own.pid, "-d", "1", "--socket", path, "-o", "b.json", cwd=work, prefix=as_nobody()))
            for output in ("a.json", "b.json"):
                expect("leaf" in names(os.path.join(work, output)), "the file lacks the functions")


def test_missing_capabilities():
    with target() as process:
        for dropped, word in (("cap_bpf,cap_sys_admin", "CAP_BPF"), ("cap_perfmon,cap_sys_admin", "CAP_PERFMON")):
            prefix = ("capsh", "--drop=" + dropped, "--", "-c", 'exec "$0" "$@"')
            run = cprofd("attach", process.pid, "-d", "1", "-o", "/dev/null", prefix=prefix)
            fails(1, word, run=run)
            check = cprofd("check", prefix=prefix)
            row = next((line for line in check.out.split("\n") if word in line), "")
            expect(check.returncode == 1 and row.startswith("missing"), "check does not name " + word, check.out)
            check = json.loads(cprofd("check", "--json", prefix=prefix).out)
            row = next(row for row in check["checks"] if row["name"] == word)
            expect(not check["works"] and row["help"], "check --json does not name " + word, row)


def test_check():
    with target() as process:
        run = cprofd("check", process.pid)
        expect(run.returncode == 0 and "CPython 3" in run.out, "check does not find the Python", run.out)


# --- files ---

def sudo(uid):
    return environment(SUDO_UID=str(uid), SUDO_GID=str(uid), SUDO_USER="nobody", SUDO_COMMAND="cprofd")


def test_sudo_files():
    with folder(NOBODY) as work, target() as process:
        fails(0, run=cprofd("attach", process.pid, "-d", "0.5", cwd=work, env=sudo(NOBODY)))
        expect(os.stat(only_file(work, ".speedscope.json")).st_uid == NOBODY, "the file is not the sudo user's")
        expect(len(os.listdir(work)) == 1, "something was left behind", os.listdir(work))


def test_unwritable_output():
    with folder() as work, target() as process:
        for env, output in ((sudo(NOBODY), "a.json"), (None, "no/such/folder.json"), (None, "."), (None, "a/")):
            begin = time.monotonic()
            run = cprofd("attach", process.pid, "-d", "20", "-o", output, cwd=work, env=env)
            fails(1, "-o", run=run)
            expect(time.monotonic() - begin < 5, "it was refused after sampling only")
        os.close(os.open(os.path.join(work, "b.json"), os.O_CREAT, 0o600)) # root's, in a folder of theirs
        os.chown(work, NOBODY, NOBODY)
        fails(1, "b.json", run=cprofd("attach", process.pid, "-d", "20", "-o", "b.json", cwd=work, env=sudo(NOBODY)))
        expect(os.listdir(work) == ["b.json"], "something was left behind", os.listdir(work))


def test_symlink_output():
    with folder() as work, target() as process:
        victim = os.path.join(work, "victim")
        with open(victim, "w") as file:
            file.write("precious")
        os.symlink(victim, os.path.join(work, "a.json"))
        fails(1, "symbolic link", run=cprofd("attach", process.pid, "-d", "20", "-o", "a.json", cwd=work))
        expect(open(victim).read() == "precious", "the link was followed")


def test_special_outputs():
    with folder() as work, target() as process:
        fails(0, run=cprofd("attach", process.pid, "-d", "0.5", "-o", "/dev/null", cwd=work))
        expect(not os.path.isfile("/dev/null"), "/dev/null was replaced")
        run = cprofd("attach", process.pid, "-d", "0.5", "-o", "-", cwd=work)
        expect(run.returncode == 0 and json.loads(run.out)["profiles"], "stdout is no profile", run.err)
        run = cprofd("attach", process.pid, "-d", "0.5", "-f", "raw", "-o", "-", cwd=work)
        expect(run.returncode == 0 and "busy" in run.out, "stdout is no collapsed stacks", run.err)
        run = cprofd("attach", process.pid, "-d", "0.5", "-f", "events", "-o", "-", cwd=work)
        lines = [json.loads(line) for line in run.out.split("\n") if line]
        expect([lines[0]["ev"], lines[-1]["ev"]] == ["hello", "end"], "stdout is no recording", run.err)
        run = cprofd("attach", process.pid, "-d", "0.5", "--stream", cwd=work)
        expect(json.loads(run.out.strip().split("\n")[-1])["ev"] == "end", "no stream", run.err)
        expect(os.listdir(work) == [], "something was left behind", os.listdir(work))


def test_existing_output_is_replaced():
    with folder() as work, target() as process:
        output = os.path.join(work, "a.json")
        open(output, "w").close()
        fails(0, run=cprofd("attach", process.pid, "-d", "0.5", "-o", "a.json", cwd=work))
        profile(output)


@contextlib.contextmanager
def small_disk(size, fill):
    """A folder that is a tmpfs of that size, `fill` bytes of it taken."""
    with folder() as path:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + size, "tmpfs", path], check=True)
        try:
            filler = os.path.join(path, "filler")
            with open(filler, "wb") as file:
                file.write(b"x" * fill)
            yield path, filler
        finally:
            subprocess.run(["umount", "-l", path], check=True)


def test_full_disk_recording():
    with small_disk("256k", 0) as (disk, filler), target(CHURN) as process, folder() as work:
        run = cprofd("attach", process.pid, "-d", "30", "-r", "5k", "-f", "events", "-o", "a.cprof", cwd=disk)
        fails(1, "No space left", run=run)
        fails(0, run=cprofd("convert", only_file(disk, ".cprof"), "-o", "b.json", cwd=work))
        expect(len(names(os.path.join(work, "b.json"))) > 10, "the recording does not hold what was recorded")


def test_full_disk_conversion():
    with small_disk("1m", 0) as (disk, filler), target(CHURN) as process, folder() as work:
        client = subprocess.Popen([CPROFD, "attach", str(process.pid), "-d", "4", "-o", "a.json"], cwd=disk,
                                  env=environment(), stderr=subprocess.PIPE)
        time.sleep(2)
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize
        with open(filler, "wb") as file: # what is left is enough for the recording only
            file.write(b"x" * max(0, free - 200000))
        err = client.communicate(timeout=30)[1].decode()
        expect(client.returncode == 1 and "the recording is kept" in err, "a full disk was not told", err)
        kept = only_file(disk, ".cprof")
        expect(os.path.basename(kept) in err, "its path was not told", err)
        expect(sorted(os.listdir(disk)) == sorted(["filler", os.path.basename(kept)]), "half a file is left", os.listdir(disk))
        fails(0, run=cprofd("convert", kept, "-o", "b.json", cwd=work))
        expect(len(names(os.path.join(work, "b.json"))) > 10, "the recording does not hold what was recorded")


def test_convert():
    with folder() as work, target() as process:
        fails(0, "convert", run=cprofd("attach", process.pid, "-d", "2", "-o", "a.cprof", cwd=work))
        recording = os.path.join(work, "a.cprof")
        fails(0, run=cprofd("convert", recording, cwd=work))
        profile(os.path.join(work, "a.speedscope.json"))
        fails(0, run=cprofd("convert", recording, "--lines", "--window", "0.5,1", "-o", "w.json", cwd=work))
        whole, part = profile(os.path.join(work, "a.speedscope.json")), profile(os.path.join(work, "w.json"))
        length = [sum(p["profiles"][0]["weights"]) for p in (whole, part)]
        expect(0 < length[1] < length[0] / 2, "the window is not a part", length)
        with open(recording, "rb") as file:
            run = cprofd("convert", "-", "-f", "collapsed", "-o", "-", stdin=file)
        expect(run.returncode == 0 and "busy" in run.out, "stdin to stdout", run.err)
        data = open(recording, "rb").read()
        with open(os.path.join(work, "cut.cprof"), "wb") as file:
            file.write(data[:len(data) * 2 // 3])
        run = cprofd("convert", "cut.cprof", cwd=work)
        fails(0, "ends in the middle", run=run)
        with open(os.path.join(work, "bad.cprof"), "wb") as file:
            file.write(b"no recording at all\n")
        fails(1, "not a recording", run=cprofd("convert", "bad.cprof", cwd=work))
        fails(1, "cannot be read", run=cprofd("convert", "missing.cprof", cwd=work))
        fails(1, "no thread", run=cprofd("convert", "a.cprof", "--thread", "nosuch", "-o", "x.json", cwd=work))
        expect(not [f for f in os.listdir(work) if f.startswith(".")], "temporary files were left", os.listdir(work))


# --- signals and clients ---

def test_interrupt_writes_the_file():
    with folder() as work, target() as process:
        for number in (signal.SIGINT, signal.SIGTERM):
            client = subprocess.Popen([CPROFD, "attach", str(process.pid), "-o", "a.json"], cwd=work, env=environment(),
                                      stderr=subprocess.PIPE)
            time.sleep(1.5)
            client.send_signal(number)
            err = client.communicate(timeout=30)[1]
            expect(client.returncode == 0, "exit status %d" % client.returncode, err)
            expect("leaf" in names(os.path.join(work, "a.json")), "the file lacks the functions")


def test_interrupt_at_a_terminal():
    with folder() as work, target() as process:
        master, slave = os.openpty()
        client = subprocess.Popen([CPROFD, "attach", str(process.pid), "-o", "a.json"], cwd=work, env=environment(),
                                  stdin=slave, stderr=slave, start_new_session=True,
                                  preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        time.sleep(2.5)
        os.write(master, b"\x03")
        said = b""
        with contextlib.suppress(OSError):
            while True:
                chunk = os.read(master, 65536)
                if not chunk:
                    break
                said += chunk
        os.close(master)
        expect(client.wait(30) == 0, "exit status", said)
        expect(b"samples" in said and b"a second" in said, "no progress on a terminal", said)
        expect("leaf" in names(os.path.join(work, "a.json")), "the file lacks the functions")


def test_client_vanishes():
    with folder() as run_dir:
        path = os.path.join(run_dir, "s.sock")
        with daemon(path) as server, target() as process:
            client = subprocess.Popen([CPROFD, "attach", str(process.pid), "--socket", path, "-o", "/dev/null"],
                                      stderr=subprocess.DEVNULL, env=environment())
            time.sleep(1)
            status = json.loads(cprofd("status", "--json", "--socket", path).out)
            expect(status["sessions"] == 1, "the session is not there", status)
            client.kill()
            client.wait()
            time.sleep(1)
            expect(server.poll() is None, "the daemon ended")
            status = json.loads(cprofd("status", "--json", "--socket", path).out)
            expect(status["sessions"] == 0, "the session goes on without its client", status)


def children_of(pid):
    listed = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid="], stdout=subprocess.PIPE).stdout
    return [int(p) for p in listed.split()]


def test_client_killed_takes_its_engine_along():
    with folder() as work, target() as process:
        client = subprocess.Popen([CPROFD, "attach", str(process.pid), "-o", "a.cprof"], cwd=work, env=environment(),
                                  stderr=subprocess.DEVNULL)
        time.sleep(1.5)
        helpers = children_of(client.pid)
        helpers += [p for h in helpers for p in children_of(h)]
        expect(helpers, "there is no broker")
        client.kill()
        client.wait()
        deadline = time.monotonic() + 10
        while any(os.path.exists("/proc/%d" % p) for p in helpers) and time.monotonic() < deadline:
            time.sleep(0.1)
        expect(not any(os.path.exists("/proc/%d" % p) for p in helpers), "broker or engine outlive their client", helpers)


# --- record ---

def test_record():
    with folder() as work:
        run = cprofd("record", "-o", "a.json", "--", PYTHON, "-c", BUSY + "busy(0.5)\nsys.exit(7)", cwd=work)
        fails(0, "status 7", run=run)
        expect(run.out == "up\n", "the command's stdout is not its own", run.out)
        expect("leaf" in names(os.path.join(work, "a.json")), "its functions are not in the file")
        found = names(os.path.join(work, "a.json"))
        expect(any("importlib" in f.get("file", "") for f in profile(os.path.join(work, "a.json"))["shared"]["frames"]),
               "its start is not in the file", found)


def test_record_cannot_run():
    with folder() as work:
        fails(1, "cannot be run", run=cprofd("record", "--", "/no/such/command", cwd=work))
        expect(os.listdir(work) == [], "something was left behind", os.listdir(work))


def test_record_passes_signals_on():
    with folder() as work:
        code = BUSY + "import signal\nsignal.signal(signal.SIGTERM, lambda *a: sys.exit(5))\nbusy(60)"
        client = subprocess.Popen([CPROFD, "record", "-o", "a.json", "--", PYTHON, "-c", code], cwd=work, env=environment(),
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        client.stdout.readline()
        time.sleep(0.7)
        client.terminate()
        err = client.communicate(timeout=30)[1].decode()
        expect(client.returncode == 0 and "status 5" in err, "the command did not get the signal", err)
        expect("leaf" in names(os.path.join(work, "a.json")), "its functions are not in the file")


def test_record_under_sudo():
    with folder(NOBODY) as work:
        code = BUSY + "import os\nprint(os.getuid(), os.geteuid(), os.getgid(), open('/proc/self/status').read().split('CapEff:')[1].split()[0])\nbusy(0.3)"
        run = cprofd("record", "-o", "a.json", "--", PYTHON, "-c", code, cwd=work, env=sudo(NOBODY))
        fails(0, run=run)
        expect(run.out.split("\n")[1] == "65534 65534 65534 0000000000000000", "it did not run as the sudo user", run.out)
        expect(os.stat(os.path.join(work, "a.json")).st_uid == NOBODY, "the file is not the sudo user's")


def test_record_has_the_environment_of_sudos_caller():
    with folder() as work:
        fake = os.path.join(work, "sudo") # what tells a sudo is its name, and that it is our parent
        shutil.copy("/bin/bash", fake)
        shell = 'env -i PATH=/usr/bin:/bin SUDO_UID=%d SUDO_GID=%d %s record -o /dev/null -- env; true' % (NOBODY, NOBODY, CPROFD)
        run = subprocess.run([fake, "-c", shell], env=environment(CALLERS="own"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        expect("CALLERS=own\n" in run.stdout.decode(), "the command lacks the caller's environment", run.stdout, run.stderr)
        expect("SUDO_UID" not in run.stdout.decode(), "the command is told of sudo", run.stdout)


def test_record_subprocesses():
    with folder() as work:
        code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', %r])" % (BUSY + "def inner():\n    busy(1)\ninner()")
        fails(0, run=cprofd("record", "-s", "-o", "a.json", "--", PYTHON, "-c", code, cwd=work))
        expect("inner" in names(os.path.join(work, "a.json")), "the child is not in the file")


# --- sockets ---

def test_stale_socket():
    with folder() as work:
        path = os.path.join(work, "s.sock")
        stale = socket.socket(socket.AF_UNIX)
        stale.bind(path)
        stale.close()
        with target() as process:
            fails(1, "no daemon answers", path, run=cprofd("attach", process.pid, "-d", "1", "--socket", path, "-o", "/dev/null"))
        with daemon(path):
            expect(cprofd("status", "--socket", path).returncode == 0, "the daemon does not answer")
            fails(1, "a daemon answers", run=cprofd("serve", "--socket", path))
            expect(cprofd("status", "--socket", path).returncode == 0, "the second one broke the first")
        expect(not os.path.exists(path), "the socket was left behind")
        with open(path, "w") as file:
            file.write("precious")
        fails(1, "no socket", run=cprofd("serve", "--socket", path))
        expect(open(path).read() == "precious", "a file was replaced")
        fails(1, "--socket", run=cprofd("serve", "--socket", "/" + "x" * 200))


def test_socket_activation():
    with folder() as work:
        path = os.path.join(work, "s.sock")
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(path)
        listening.listen(4)
        fd = listening.fileno()
        shell = 'export LISTEN_PID=$$ LISTEN_FDS=1; exec "%s" serve 3<&%d' % (CPROFD, fd)
        server = subprocess.Popen(["bash", "-c", shell], pass_fds=(fd,), stderr=subprocess.PIPE, env=environment())
        listening.close()
        try:
            expect("listens at " + path in server.stderr.readline().decode(), "it did not take the socket over")
            expect(cprofd("status", "--socket", path).returncode == 0, "the daemon does not answer")
            server.terminate()
            expect(server.wait(10) == 0, "SIGTERM is no clean end")
            expect(os.path.exists(path), "systemd's socket was removed")
        finally:
            server.kill()
            server.wait()
            server.stderr.close()


def test_install():
    with folder() as work:
        run = subprocess.run(["make", "-s", "-C", ROOT, "install", "PREFIX=/usr", "DESTDIR=" + work,
                              "B=" + os.path.relpath(os.path.dirname(CPROFD), ROOT)],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(MAKEFLAGS=""))
        expect(run.returncode == 0, "make install failed", run.stdout.decode())
        for path in ("bin/cprofd", "share/man/man1/cprofd.1", "share/bash-completion/completions/cprofd",
                     "share/zsh/site-functions/_cprofd", "lib/systemd/system/cprofd.socket", "lib/systemd/system/cprofd.service"):
            path = os.path.join(work, "usr", path)
            expect(os.path.getsize(path) > 0, path + " is empty")
        expect(subprocess.run([os.path.join(work, "usr/bin/cprofd"), "--version"], stdout=subprocess.PIPE).stdout, "it does not run")
        if not shutil.which("systemd-analyze"):
            raise Skip("no systemd-analyze to verify the units with")
        units = os.path.join(work, "usr/lib/systemd/system")
        service = os.path.join(units, "cprofd.service")
        text = open(service).read()
        expect("ExecStart=/usr/bin/cprofd serve" in text, "the unit starts something else", text)
        with open(service, "w") as file: # verify looks for the program
            file.write(text.replace("/usr/bin/cprofd", os.path.join(work, "usr/bin/cprofd")))
        run = subprocess.run(["systemd-analyze", "--man=no", "verify", service, os.path.join(units, "cprofd.socket")],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = [line for line in run.stdout.decode().split("\n") if "cprofd" in line]
        expect(not said, "systemd-analyze complains", "\n".join(said))


def main():
    if os.geteuid() != 0:
        print("skipped: cli needs root\n0 passed, 0 failed, 1 skipped")
        return 0
    passed = failed = skipped = 0
    for name, test in sorted(globals().items()):
        if not name.startswith("test_") or (sys.argv[1:] and not any(word in name for word in sys.argv[1:])):
            continue
        begin = time.monotonic()
        try:
            test()
            passed += 1
            print("ok %s (%.1f s)" % (name[5:], time.monotonic() - begin), flush=True)
        except Skip as reason:
            skipped += 1
            print("skipped %s: %s" % (name[5:], reason), flush=True)
        except (AssertionError, subprocess.TimeoutExpired, OSError, KeyError, ValueError, StopIteration) as error:
            failed += 1
            print("FAILED %s: %s: %s" % (name[5:], type(error).__name__, error), flush=True)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
