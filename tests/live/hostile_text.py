#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Names with terminal escape sequences, everywhere a name can be: in a running process, and in recordings made by hand.
No output holds a control character of them, and no line begins where a name says so. Expectations come from Unicode's
own categories, not from our list.

    hostile_text.py            needs root for what lives.

run-live: beside
"""
import contextlib
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
import unicodedata

from lib.command import CPROFD, PYTHON, cprofd, environment, expect, folder

EVIL = "e\x1b]0;PWNED\x07\x1b[31m\r\x9b2J\u202eetihw\u2066\u2028;\n=FORGED\t,\"<b>'&"
SHORT = "\x1b]0;P\x07\r\n\x08"     # a thread's name: 15 bytes
BYS = "class thread unit source phase pass trigger tree chain repeat failed function line package module file callee".split()
passed = failed = skipped = 0


# All that cprofd colours text with, but for red: the names have that.
COLOURS = "\x1b[0m|\x1b[1m|\x1b[2m|\x1b[32m|\x1b[33m"


def bad(text):
    """Controls, separators of lines, marks of direction: what a terminal or a reader takes for something else."""
    return sorted({f"U+{ord(c):04X}" for c in text
                   if (unicodedata.category(c) in ("Cc", "Zl", "Zp") and c != "\n")
                   or unicodedata.bidirectional(c) in ("LRE", "RLE", "PDF", "LRO", "RLO", "LRI", "RLI", "FSI", "PDI")})


def clean(name, data, allowed=""):
    global passed, failed
    try:
        text = data.decode() if isinstance(data, bytes) else data
        for part in allowed.split("|") if allowed else ():
            text = text.replace(part, "")
        why = bad(text) or (["a forged line"] if re.search(r"^\W*FORGED", text, re.M) else [])
    except UnicodeDecodeError as error:
        why = [str(error)]
    passed += not why
    failed += bool(why)
    if why:
        print(f"  FAILED  {name}: {why}\n{data[:600]!r}")


def check(good, what):
    global passed, failed
    passed += bool(good)
    failed += not good
    if not good:
        print(f"  FAILED  {what}")


def strings(value):
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(item)


def recording(path, cpu=1_000_000):
    """Each string of each event is hostile."""
    now, e = 1_000_000_000, EVIL
    events = [
        {"ev": "hello", "major": 1, "minor": 7, "server": e, "features": [e]},
        {"ev": "session", "id": 1, "pid": 7, "rate": 999, "mode": "cpu", "monotonic": now, "boottime": now, "realtime": now,
         "boot_id": e, "command": e, "subprocesses": True, "native": True, "idle": True},
        {"ev": "epoch", "number": 0, "time": now},
        {"ev": "process", "id": 0, "pid": 7, "start": 1, "time": now, "name": e, "python": e},
        {"ev": "process", "id": 1, "pid": 8, "start": 1, "time": now, "name": e, "python": ""},
        {"ev": "thread", "id": 0, "process": 0, "tid": 7, "start": 1, "time": now, "name": e},
        {"ev": "thread", "id": 1, "process": 1, "tid": 8, "start": 1, "time": now, "name": e},
        {"ev": "functions", "first": 0, "rows": [[e, e, 1, "", 0], [e + "n", "", 0, e, 1], [e + "j", "", 0, e, 4], ["-" + e, e, 2, e, 6]]},
        {"ev": "frames", "first": 0, "rows": [[0, 0, 3, 1], [1, 4], [2, 4], [3, 0]]},
        {"ev": "stacks", "first": 1, "rows": [[0, 0], [1, 3], [2, 1], [1, 2]]},
        {"ev": "classes", "first": 1, "rows": [["C call", e], [e, e]]},
        {"ev": "units", "first": 1, "rows": [[0, 0, 0, e, e, e, now, 1, e, 5], [1, 0, 1, e, e, "", now], [2, 0, 2, e, e, "", now]]},
    ]
    n = 400
    step = [2_000_000] * n
    step[0] += now
    events.append({"ev": "samples", "t": step, "wall": [2_000_000] * n, "cpu": [cpu] * n, "thread": [i % 2 for i in range(n)],
                   "stack": [1 + i % 4 for i in range(n)], "class": [1 + i % 2 for i in range(n)],
                   "unit": [3 if i % 2 == 0 else 0 for i in range(n)]})
    events += [
        {"ev": "unit_end", "id": 1, "time": now + n * 2_000_000, "name": e, "signature": e, "file": e},
        {"ev": "ledger", "time": now + n * 2_000_000, "samples": n, "whole": n, "losses": {e: 3}, "native": n, "native_whole": n - 9,
         "stops_more": 0, "stops": [[e, e, 16, 9, e]]},
        {"ev": "end", "time": now + n * 2_000_000, "reason": "exited", "detail": e},
    ]
    with open(path, "w") as file:
        file.writelines(json.dumps(event) + "\n" for event in events)


def made(work):
    a, b = os.path.join(work, "a" + SHORT + ".cprof"), os.path.join(work, "b" + SHORT + ".cprof")
    recording(a)
    recording(b, cpu=1_900_000)
    out = cprofd("report", a, "--json")
    check(EVIL in set(strings(json.loads(out.stdout))), "report --json has the exact names")
    clean("report --json", out.stdout)
    for by in BYS:
        for option, allowed in ((), ""), (("--csv",), "\r\n"):
            run = cprofd("report", a, "--by=" + by, *option)
            check(run.returncode == 0, f"report --by={by} {run.err}")
            clean(f"report --by={by} {' '.join(option)}", run.stdout, allowed)
            clean(f"report --by={by}: stderr", run.stderr)
            cells = re.findall(r'"((?:[^"]|"")*)"', run.out) if option else []
            check(not any(cell[:1] in tuple("=+-@") and cell for cell in cells), f"report --by={by} --csv has a formula")
    for option in ("--callers=*", "--callees=*"):
        clean(f"report {option}", cprofd("report", a, option).stdout)
    for option in (), ("--markdown",), ("--json",), ("--by=function,module,file,line",):
        run = cprofd("diff", a, b, *option)
        if run.returncode == 2 and option == ("--markdown",):
            continue
        clean(f"diff {' '.join(option)}", run.stdout)
        clean(f"diff {' '.join(option)}: stderr", run.stderr)
    for ending in "collapsed.txt", "svg", "html", "speedscope.json", "ndjson":
        target = os.path.join(work, "out." + ending)
        run = cprofd("convert", a, "-o", target, *(["-t"] if ending[0] == "c" else []), *(["--thread", "7"] if ending == "ndjson" else []))
        check(run.returncode == 0, f"convert to {ending}: {run.err}")
        clean(f"convert to {ending}: stderr", run.stderr)
        with open(target, "rb") as file:
            data = file.read()
        clean(f"convert to {ending}", data, "\t" if ending in ("svg", "html") else "")
        if ending[0] == "c":
            check(all(re.search(r" \d+$", line) for line in data.decode().splitlines()), "each line of collapsed stacks ends in its number")
    # errors that quote
    broken = os.path.join(work, "r" + SHORT + ".rules")
    with open(broken, "w") as file:
        file.write("compiler " + EVIL + "\nunit " + EVIL + "\n")
    for name, *args in (("no such thread", "report", a, "--thread", "e"), ("no such function", "report", a, "--function", "zz" + EVIL),
                        ("no file", "report", os.path.join(work, EVIL.replace("/", ""))), ("rules check", "rules", "check", broken),
                        ("report --rules", "report", a, "--rules", broken), ("no command", EVIL), ("no option", "report", "--" + EVIL),
                        ("no format", "convert", a, "-f", EVIL), ("no ending", "convert", a, "-o", os.path.join(work, "x." + SHORT)),
                        ("no class", "convert", a, "--class", EVIL, "-o", os.path.join(work, "y.svg")), ("no pid", "dump", EVIL),
                        ("no number", "attach", "1", "-r", EVIL)):
        run = cprofd(*args)
        check(run.returncode in (1, 2), f"{name}: exit status {run.returncode}")
        clean(name, run.stdout + run.stderr)


TARGET = r'''
import ctypes, sys, threading, time
evil, short, library = sys.argv[1], sys.argv[2].encode(), sys.argv[3]
lib = ctypes.CDLL(library)
def run():
    ctypes.CDLL(None).prctl(15, short, 0, 0, 0)
    code = compile("def f(n):\n    s = 0\n    for i in range(n): s += i\n    return s\n", "/tmp/" + evil + ".py", "exec")
    space = {}
    exec(code, space)
    f = space["f"]
    f.__code__ = f.__code__.replace(co_name=evil + "\0z", **({"co_qualname": evil + "\0z"} if sys.version_info >= (3, 11) else {}))
    print("up", flush=True)
    while True:
        f(20000)
        lib.work(200000)
threading.Thread(target=run, daemon=True).start()
time.sleep(300)
'''


def on_terminal(*args, seconds, keys=b"", quit_with=b""):
    """All bytes that it writes to a terminal."""
    pid, fd = pty.fork()
    if not pid:
        os.environ["TERM"] = "xterm"
        os.execve(CPROFD, [CPROFD, *args], environment(TERM="xterm", LC_ALL="C.UTF-8"))
    data, end, sent = b"", time.monotonic() + seconds, False
    deadline = end + 60
    while time.monotonic() < deadline:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                more = os.read(fd, 65536)
            except OSError:
                break
            if not more:
                break
            data += more
        if keys and time.monotonic() > end - 2:
            os.write(fd, keys)
            keys = b""
        if quit_with and not sent and time.monotonic() > end:
            os.write(fd, quit_with)
            sent = True
    os.waitpid(pid, 0)
    os.close(fd)
    return data


@contextlib.contextmanager
def hostile_target(work):
    library = os.path.join(work, "lib" + SHORT + "\u202ex.so")
    source = os.path.join(work, "l.c")
    with open(source, "w") as file:
        file.write("long work(long n) { volatile long s = 0; while (n--) s += n; return s; }\n")
    subprocess.run(["gcc", "-O1", "-g", "-shared", "-fPIC", "-o", os.path.join(work, "l.so"), source], check=True)
    shutil.copy(os.path.join(work, "l.so"), library)
    with subprocess.Popen([PYTHON, "-c", TARGET, EVIL, SHORT, library], stdout=subprocess.PIPE, cwd="/") as process:
        expect(process.stdout.readline().strip() == b"up", "the target did not start")
        yield process
        process.kill()


def living(work):
    with hostile_target(work) as process:
        pid = str(process.pid)
        for name, *args in (("dump",), ("dump --json", "--json"), ("check",), ("check --json", "--json")):
            run = cprofd(name.split()[0], *args, pid)
            clean(name, run.stdout)
            clean(f"{name}: stderr", run.stderr)
            if name == "dump":
                check(run.out.count("\nThread ") == 2, "dump shows both threads, a NUL in a name or not")
                for _ in range(30): # it is not on the stack all the time
                    if "\\x00z" in run.out:
                        break
                    run = cprofd("dump", pid)
                check("\\x00z" in run.out, "dump shows a NUL")
        run = cprofd("dump", "--color=always", pid)
        check("\x1b[1mThread" in run.out, "dump has colours")
        clean("dump --color=always", run.stdout, COLOURS)
        run = cprofd("attach", pid, "-d", "1", "--stream", "-t")
        clean("--stream", run.stdout)
        for mode in "cpu", "wall":
            out = os.path.join(work, "live-" + mode + ".cprof")
            data = on_terminal("attach", pid, "-d", "2", "--mode=" + mode, "-o", out, seconds=2)
            clean(f"progress and summary, {mode}", data, "\r\n|\r|\x1b[K|" + COLOURS)
            for by in "function", "thread", "module", "file":
                clean(f"report --by={by} of {mode}", cprofd("report", out, "--by=" + by).stdout)
        data = on_terminal("top", pid, seconds=5, keys=b"t", quit_with=b"q")
        check(b"samples" in data, "top was shown")
        check(not any(part.encode() in data for part in ("\x1b]0;P", "\x9b", "\u202e", "\x1b[31mX", "\u2066", "\u2028")), "top shows no command of a name")
        socket = os.path.join(work, "s")
        with subprocess.Popen([CPROFD, "serve", "--allow=own", "--socket", socket], stderr=subprocess.PIPE, env=environment()) as daemon:
            for _ in range(100):
                if os.path.exists(socket):
                    break
                time.sleep(0.05)
            for args in (), ("--json",):
                clean("status", cprofd("status", *args, env=environment(CPROFD_SOCKET=socket)).stdout)
            daemon.terminate()
            clean("serve: stderr", daemon.stderr.read())


def main():
    global skipped
    with folder() as work:
        made(work)
        if os.geteuid():
            skipped += 1
        else:
            living(work)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
