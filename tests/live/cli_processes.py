# SPDX-License-Identifier: MIT
"""cli.py: processes that do not exist, are not Python, die, exec and fork; and those that cprofd starts itself."""
import glob
import json
import os
import shutil
import signal
import subprocess
import time

from lib.wait import kernel_thread, until
from lib.command import (BUSY, CPROFD, NOBODY, PYTHON, UNTIL_TOLD, Skip, attached, cprofd, environment, expect, fails, folder, names,
                      profile, sudo, target)

# --- processes ---

def test_no_such_pid():
    with folder() as work:
        run = cprofd("attach", 4194303, cwd=work)
        fails(1, "no such process: ", "it may have ended already", run=run)
        expect(os.listdir(work) == [], "something was left behind", os.listdir(work))


def test_by_name():
    """A name or a script that one process alone has stands for its PID."""
    with folder() as work:
        script = os.path.join(work, "numba_worker_%d.py" % os.getpid())
        with open(script, "w") as file:
            file.write(BUSY + "busy(60)\n")
        name = os.path.basename(script)
        fails(2, "there is no process '%s'" % name, run=cprofd("attach", name, cwd=work))
        processes = [subprocess.Popen([PYTHON, script], stdout=subprocess.PIPE) for _ in range(2)]
        try:
            for process in processes:
                process.stdout.readline()
            run = cprofd("attach", name, cwd=work)
            fails(2, "is the name of 2 processes", *("%d  %s %s" % (p.pid, PYTHON, script[:10]) for p in processes), run=run)
            processes[1].kill()
            processes[1].wait()
            for spelling in (name, name[:-3], script):
                run = cprofd("dump", spelling, "--json", cwd=work, prefix=("sh", "-c", '"$@"; exit $?', "sh"))
                expect(run.returncode == 0 and '"pid":%d' % processes[0].pid in run.out.replace(" ", ""), spelling, run.err, run.out[:300])
            os.makedirs(os.path.join(work, "bin"))
            with subprocess.Popen([PYTHON, os.path.join("..", name)], cwd=os.path.join(work, "bin"), stdout=subprocess.PIPE) as process:
                process.stdout.readline()
                processes.append(process)
                fails(2, "is the name of 2 processes", run=cprofd("attach", "./" + name, cwd=work))
                process.kill()
                processes.pop()
            fails(0, "process %d: " % processes[0].pid, run=cprofd("attach", name, "-n", "-d", "0.3", "-o", "a.json", cwd=work))
            expect("leaf" in names(os.path.join(work, "a.json")), "its functions are not in the file")
        finally:
            for process in processes:
                process.kill()
                process.wait()


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


def test_path_that_is_no_utf8():
    """The row that quotes it is in the JSON, also where it is cut within a character."""
    with folder() as work:
        for name in b"\xe4", "\u00e4".encode() * 120, "x".encode() + "\u00e4".encode() * 120:
            program = os.path.join(os.fsencode(work), name, b"sleep")
            os.mkdir(os.path.dirname(program))
            shutil.copy("/bin/sleep", program)
            process = subprocess.Popen([program, "60"])
            try:
                rows = json.loads(cprofd("check", process.pid, "--json").out)["checks"]
                found = [row["found"] for row in rows if row["name"] == "process"]
                expect(len(found) == 1 and work in found[0], "the row `process` is missing", rows)
                expect(("\ufffd" in found[0]) == (name == b"\xe4"), "a character was cut", found[0])
            finally:
                process.kill()
                process.wait()


def test_kernel_thread():
    thread = kernel_thread()
    if not thread:
        raise Skip("no kernel thread is seen here")
    fails(1, "kernel thread", run=cprofd("attach", thread, "-d", "1", "-o", "/dev/null"))


def test_python_27():
    old = next((p for p in (os.path.expanduser("~/.pyenv/versions/2.7.18/bin/python"), "/usr/bin/python2.7")
                if os.access(p, os.X_OK)), None)
    if not old:
        raise Skip("no Python 2.7")
    code = "import sys, time\nsys.stdout.write('up\\n'); sys.stdout.flush()\nwhile True: pass"
    with folder() as work, target(code, python=old) as process:
        fails(1, "2.7", run=cprofd("attach", process.pid, "-d", "1", cwd=work))
        expect(os.listdir(work) == [], "something was left behind", os.listdir(work))


def test_pypy():
    """Another interpreter is called by its name."""
    pypy = shutil.which("pypy3") or shutil.which("pypy")
    if not pypy:
        raise Skip("no PyPy")
    with folder() as work, target("import sys\nprint('up')\nsys.stdout.flush()\nwhile True: pass", python=pypy) as process:
        fails(1, "PyPy", "CPython from 3.8", run=cprofd("attach", process.pid, "-d", "1", cwd=work))
        expect("PyPy" in cprofd("check", process.pid).out, "check says it, too")
        expect(os.listdir(work) == [], "something was left behind", os.listdir(work))


def test_dies():
    with folder() as work, target(UNTIL_TOLD) as process:
        with attached(work, process) as client:
            process.send_signal(signal.SIGUSR1)
        expect("ended" in client.err, "it is not told that it ended", client.err)
        expect("leaf" in names(os.path.join(work, "a.json")), "its functions are not in the file")


def test_killed():
    with folder() as work, target() as process:
        with attached(work, process):
            process.kill()
        expect("leaf" in names(os.path.join(work, "a.json")), "its functions are not in the file")


def test_execs():
    # The thread's clock goes on over exec.
    after = "import time\nend = time.thread_time() + 0.5\ndef after():\n    return sum(range(10**5))\nwhile time.thread_time() < end: after()"
    with folder() as work, target(UNTIL_TOLD + "import os\nos.execv(%r, [%r, '-c', %r])" % (PYTHON, PYTHON, after)) as process:
        with attached(work, process):
            process.send_signal(signal.SIGUSR1)
        found = names(os.path.join(work, "a.json"))
        expect("leaf" in found, "what ran before exec is missing", found)
        expect("after" in found, "what ran after exec is missing", found)


def test_execs_no_python():
    with folder() as work, target(UNTIL_TOLD + "import os\nos.execv('/bin/sleep', ['sleep', '1'])") as process:
        with attached(work, process):
            process.send_signal(signal.SIGUSR1)
        expect("leaf" in names(os.path.join(work, "a.json")), "what ran before exec is missing")


FORKS = """
import glob
import json
import os
def child():
    while time.thread_time() < 0.3: leaf(20000)
if os.fork() == 0:
    %s
    child()
    os._exit(0)
busy(1)
"""


def test_forks():
    for subprocesses in (False, True):
        with folder() as work, target(UNTIL_TOLD + FORKS % "pass") as process:
            with attached(work, process, *(["-s"] if subprocesses else [])):
                process.send_signal(signal.SIGUSR1)
            found = names(os.path.join(work, "a.json"))
            expect("busy" in found, "the parent is missing", found)
            expect(("child" in found) == subprocesses, "-s is %s, child is%s there" % (subprocesses, "" if "child" in found else " not"))


def test_double_forks():
    with folder() as work, target(UNTIL_TOLD + FORKS % "if os.fork(): os._exit(0)\n    os.setsid()") as process:
        with attached(work, process, "-s"):
            process.send_signal(signal.SIGUSR1)
        expect({"busy", "child"} <= names(os.path.join(work, "a.json")), "the grandchild is missing")


def test_two_at_once():
    with folder() as work, target() as process:
        clients = [subprocess.Popen([CPROFD, "attach", str(process.pid), "-d", "2", "-o", "%d.json" % i], cwd=work,
                                    env=environment(), stderr=subprocess.PIPE) for i in range(2)]
        for client in clients:
            err = client.communicate(timeout=60)[1]
            expect(client.returncode == 0, "exit status %d" % client.returncode, err)
        for i in range(2):
            expect("leaf" in names(os.path.join(work, "%d.json" % i)), "a recording lacks the functions")


def own_cpu(pid):
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[0])


def test_several_pids():
    """One file of all: each process has its own CPU time, by the kernel's account of it before and after."""
    second = BUSY.replace("leaf", "other_leaf")
    with folder() as work, target() as first, target(second + "busy(60)") as other, target() as short:
        recording = os.path.join(work, "a.cprof")
        pids = [first.pid, other.pid, short.pid]
        before = {pid: own_cpu(pid) for pid in pids}
        client = subprocess.Popen([CPROFD, "attach", str(first.pid), "-p", f"{other.pid},{short.pid}", "-d", "2.5", "-o", recording],
                                  cwd=work, env=environment(), stderr=subprocess.PIPE, text=True)
        # Each is written about once a second: more than what comes before the first sample.
        until(lambda: [os.path.getsize(path) > 1500 for path in glob.glob(os.path.join(work, "cprofd-*"))] == [True] * 3)
        short.kill()
        err = client.communicate(timeout=60)[1]
        after = {pid: own_cpu(pid) for pid in pids[:2]}
        expect(client.returncode == 0 and os.listdir(work) == ["a.cprof"], "one file is made", err, os.listdir(work))
        expect("3 processes" in err, "the summary says how many there are", err)
        told = json.loads(cprofd("report", "--json", "--by=thread,function", recording).out)
        rows = {table["by"]: table["rows"] for table in told["tables"]}
        threads = {int(row["name"].rsplit("(", 1)[1].rstrip(")")): row for row in rows["thread"]}
        expect(sorted(threads) == sorted(pids), "each has its thread", threads.keys())
        for pid in pids[:2]:
            cpu = threads[pid]["inclusive_ns"]
            expect(0 < cpu <= after[pid] - before[pid], "no more CPU time than it ran", pid, cpu, after[pid] - before[pid])
        functions = {row["name"]: row["inclusive_ns"] for row in rows["function"]}
        expect(functions.get("other_leaf", 0) > 0.9 * threads[other.pid]["inclusive_ns"], "its functions have its time", functions)
        expect(functions.get("leaf", 0) < threads[first.pid]["inclusive_ns"] + threads[short.pid]["inclusive_ns"] + 1, "and no other's", functions)
        run = cprofd("dump", "-j", first.pid, other.pid)
        expect([json.loads(line)["pid"] for line in run.out.splitlines()] == pids[:2], "dump has a line for each", run.out[:300])


def test_several_pids_of_which_one_is_none():
    with folder() as work, target() as process:
        fails(1, "no such process: 4194301", run=cprofd("attach", process.pid, 4194301, "-o", "a.svg", cwd=work))
        expect(os.listdir(work) == [], "something was left behind", os.listdir(work))


# --- record ---

def test_record():
    with folder() as work:
        run = cprofd("record", "-o", "a.json", "--", PYTHON, "-c", BUSY + "busy(0.5)\nsys.exit(7)", cwd=work)
        fails(0, "status 7", run=run)
        expect(run.out == "up\n", "the command's stdout is not its own", run.out)
        expect("leaf" in names(os.path.join(work, "a.json")), "its functions are not in the file")
        # Its start takes some 15 ms: on a busy machine it may be over before its interpreter is known.
        for _ in range(8):
            fails(0, run=cprofd("record", "-o", "s.json", "--", PYTHON, "-c", "import json, asyncio", cwd=work))
            if any("importlib" in f.get("file", "") for f in profile(os.path.join(work, "s.json"))["shared"]["frames"]):
                return
        expect(False, "its start is not in the file", names(os.path.join(work, "s.json")))


def test_record_unsupported():
    """A Python that is not walked is called by the version that it tells itself, in the summary and in reports."""
    olds = [p for v in ("2.7.18", "3.6.15", "3.7.16") for p in [os.path.expanduser(f"~/.pyenv/versions/{v}/bin/python")] if os.access(p, os.X_OK)]
    pypy = shutil.which("pypy3") or shutil.which("pypy")
    if not olds and not pypy:
        raise Skip("no Python that is too old, no PyPy")
    code = "import time\nend = time.time() + 0.3\nwhile time.time() < end: pass"
    for python in olds + [pypy] * bool(pypy):
        told = subprocess.run([python, "-c", "import sys; print(sys.version.split()[0])"], capture_output=True, text=True).stdout.strip()
        name = "PyPy" if python == pypy else f"Python {told}"
        with folder() as work:
            recording = os.path.join(work, "a.cprof")
            run = cprofd("record", "-o", recording, "--", python, "-c", code, cwd=work)
            expect(run.err.startswith(f"cprofd: {name} is not supported"), "the summary says first which Python it is", run.err)
            run = cprofd("report", recording)
            expect(f"    {name} is not supported" in run.out, "so does a report", run.out[:600])
            run = cprofd("report", "--json", recording)
            expect(json.loads(run.out)["recordings"][0].get("unsupported") == name, "and its JSON", run.out[:600])


def test_32_bit():
    with folder() as work:
        source, program = os.path.join(work, "a.c"), os.path.join(work, "python3.9")
        with open(source, "w") as file:
            file.write("void _start(void) { for (volatile int i = 0;; i++); }")
        if subprocess.call(["gcc", "-m32", "-nostdlib", "-static", "-fno-pic", "-o", program, source], stderr=subprocess.DEVNULL):
            raise Skip("gcc makes no 32-bit programs here")
        process = subprocess.Popen([program])
        try:
            fails(1, "a 32-bit Python", "CPython from 3.8", run=cprofd("attach", process.pid, "-d", "1", cwd=work))
        finally:
            process.kill()
            process.wait()


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
        err = client.communicate(timeout=60)[1].decode()
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
        bashs = ("_", "SHLVL", "PWD", "OLDPWD")
        for n in (0, 40, 200): # variables more: what the C library keeps in a small block, and in several pages
            callers = environment(CALLERS="own", **{"CALLERS_%d" % i: "x" * 80 for i in range(n)})
            run = subprocess.run([fake, "-c", shell], env=callers, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            given = run.stdout.split(b"\n")
            lacks = [name for name, value in callers.items() if name not in bashs and "\n" not in value and os.fsencode(name + "=" + value) not in given]
            expect(not lacks, "the command lacks of the caller's environment", lacks, run.stdout[:200], run.stderr)
            expect(b"SUDO_UID" not in run.stdout, "the command is told of sudo", run.stdout)


def test_record_subprocesses():
    with folder() as work:
        code = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', %r])" % (BUSY + "def inner():\n    busy(1)\ninner()")
        fails(0, run=cprofd("record", "-s", "-o", "a.json", "--", PYTHON, "-c", code, cwd=work))
        expect("inner" in names(os.path.join(work, "a.json")), "the child is not in the file")
