#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Names and lines of native frames on the whole way: a library's own debug information, separate debug files as the
target's mount namespace has them, debuginfod, code of Numba with debug=True. llvm-symbolizer and gdb are the
oracles. Then debug files that must not be opened, and names in the first second of a recording. Needs root.

    native_lines.py [NAME ...]   only the cases whose names contain one of these"""
import http.server
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading

from lib import CPROFD, ROOT
from lib.recording import Tables
from lib.wait import cpu_share, mount_namespaces, until
from lib.result import check, finish, skip

SOURCE = r"""
static inline __attribute__((always_inline)) double mix(double x, long i)
{
	x += (double)i;
	x /= 1.0000001;
	return x;
}
static __attribute__((noinline)) double kernel_of_it(long n)
{
	double x = 1;
	for (long i = 0; i < n; i++) {
		x = mix(x, i);
		x = x * 0.5;
	}
	__asm__ volatile("");
	return x;
}
double hot(long n)
{
	double x = kernel_of_it(n);
	__asm__ volatile("");
	return x + 1;
}
"""
TARGET = """
import ctypes, sys
hot = ctypes.CDLL(sys.argv[1]).hot
hot.argtypes, hot.restype = [ctypes.c_long], ctypes.c_double
print("up", flush=True)
def loop():
    while True:
        hot(200000)
loop()
"""
NUMBA = """
import numba, numpy as np
@numba.njit(debug=True)
def inner(a):
    s = 0.0
    for i in range(a.shape[0]):
        s += np.sqrt(a[i]) * 1.5
        s -= a[i] / 3.0
    return s
a = np.random.rand(200000)
inner(a)
r = list(inner.overloads.values())[0]
print(hex(r.library.get_pointer_to_function(r.fndesc.llvm_func_name)), flush=True)
while True:
    inner(a)
"""


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def attach(work, pid, env=None, seconds="2"):
    """{function: {(file, line)}} of the native frames."""
    out = os.path.join(work, "out.txt")
    run_ = subprocess.run([CPROFD, "attach", str(pid), "-d", seconds, "--native", "--lines", "-f", "collapsed", "-o", out],
                          capture_output=True, text=True, env=env, timeout=60)
    found = {}
    for line in open(out) if run_.returncode == 0 else []:
        for frame in line.rsplit(" ", 1)[0].split(";"):
            m = re.match(r"(.*) \((.*):(\d+)\)$", frame)
            if m:
                found.setdefault(m[1], set()).add((m[2], int(m[3])))
            else:
                found.setdefault(re.sub(r" \([^()]*\)$", "", frame), set())
    return found


class Stream(Tables):
    """A recording as it comes. `found`: as attach() gives it; `bare`, `lined`: samples in hot() without and with all
    lines of its functions, one after the other."""

    def __init__(self, pid, env):
        super().__init__()
        self.found, self.bare, self.lined, self.late = {}, 0, 0, False
        self.process = subprocess.Popen([CPROFD, "attach", str(pid), "--native", "--stream"], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, env=env)

    def until(self, done, seconds=60):
        """Reads until done(); whether it came to that, however slow the machine is."""
        timer = threading.Timer(seconds, self.process.kill)
        timer.start()
        while not done():
            line = self.process.stdout.readline()
            if not line:
                break
            self.feed(line)
        timer.cancel()
        return bool(done())

    def has_lines(self, n):
        return self.lined > n and len(self.found.get("kernel_of_it", ())) > 1

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        self.until(lambda: False)
        return self.process.wait()

    def words(self, stack):
        words = []
        while stack:
            stack, frame = self.stacks[stack][:2]
            function, _, line = (self.frames[frame] + [0, 0])[:3]
            name, file, first, module = (self.functions[function] + [""] * 4)[:4]
            if module.startswith("libhot.so"):
                words.append((name, file, line or first, line))
        if any(name == "hot" for name, *_ in words):
            whole = all(file and line for _, file, _, line in words)
            self.bare, self.lined = (0, self.lined + 1) if whole else (self.bare + 1, 0)
            for name, file, line, _ in words:
                self.found.setdefault(name, set()).update({(file, line)} if file else ())
        return tuple(words)


def build(work, *options):
    source, lib = os.path.join(work, "hot.c"), os.path.join(work, "libhot.so")
    open(source, "w").write(SOURCE)
    run("gcc", "-g", "-O2", "-shared", "-fPIC", *options, "-o", lib, source)
    return lib


def truth(lib):
    """{function: {(file, line)}}: the lines of a function itself (of what is inlined: of its call), by address."""
    lines = {}
    for words in (x.split() for x in run("nm", "-S", lib).splitlines()):
        if len(words) != 4 or words[3] not in ("hot", "kernel_of_it"):
            continue
        start, size = int(words[0], 16), int(words[1], 16)
        text = run("llvm-symbolizer", "--obj=" + lib, "--inlines", "--functions=none", *(hex(start + i) for i in range(size)))
        for block in text.strip().split("\n\n"):
            place, line, _ = block.splitlines()[-1].rsplit(":", 2)
            lines.setdefault(words[3], set()).add((place, int(line)))
        lines[words[3]].discard(0)
    return lines


def split(lib, folder_of_links=None):
    """The debug information of a library in a file of its own; the library loses it."""
    debug = lib + ".debug"
    run("objcopy", "--only-keep-debug", lib, debug)
    run("strip", lib)
    if folder_of_links:
        run("objcopy", "--add-gnu-debuglink=" + debug, lib)
    return debug


def build_id(lib):
    return re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", lib))[1]


def namespaces(name):
    """Whether there can be mount namespaces."""
    if mount_namespaces():
        return True
    skip(name + ": no mount namespace can be made here (is / a mount point?)")
    return False


def start(work, lib, script=None):
    """The target; when there is a script, in a mount namespace with a /usr/lib/debug of its own, which the script fills."""
    out = open(os.path.join(work, "target.out"), "w+")
    command = ["/usr/bin/python3", "-c", TARGET, lib]
    if script:
        command = ["unshare", "-m", "sh", "-ec", "mkdir -p /usr/lib/debug; mount -t tmpfs none /usr/lib/debug\n" + script + '\nexec "$0" "$@"'] + command
    process = subprocess.Popen(command, stdout=out)
    until(lambda: "up" in open(out.name).read())
    return process


def stop(process):
    process.kill()
    process.wait()


def compare(name, found, right, whole=True):
    for function, lines in right.items():
        told = found.get(function)
        if not whole:
            check(not told, f"{name}: {function} has no line", told)
            continue
        # The line of a function itself stands for those without one.
        wrong = {x for x in told or () if x not in lines}
        check(told and not wrong, f"{name}: lines of {function}", told, lines)
    if whole:
        told = {line for _, line in found.get("kernel_of_it", ())}
        check(len(told) > 1, f"{name}: more than the function's first line", told)


def folder(lib):
    wanted = build_id(lib)
    return f"/usr/lib/debug/.build-id/{wanted[:2]}", f"{wanted[2:]}.debug"


def case_own(work):
    lib = build(work)
    right = truth(lib)
    process = start(work, lib)
    compare("own", attach(work, process.pid), right)
    stop(process)


def case_build_id(work):
    if not namespaces("build-id"):
        return
    lib = build(work)
    right = truth(lib)
    debug = split(lib)
    place, name = folder(lib)
    process = start(work, lib, f"mkdir -p {place}; cp {debug} {place}/{name}")
    found = attach(work, process.pid)
    stop(process)
    compare("build-id", found, right)
    here = os.path.exists(f"{place}/{name}")
    check(not here, "build-id: the file is in the target's namespace alone")


def case_debug_link(work):
    if not namespaces("debug link"):
        return
    lib = build(work, "-Wl,--build-id=none")
    right = truth(lib)
    debug = split(lib, work)
    place = "/usr/lib/debug" + work
    process = start(work, lib, f"mkdir -p {place}; mv {debug} {place}/")
    compare("debug link", attach(work, process.pid), right)
    stop(process)


def case_wrong_crc(work):
    if not namespaces("wrong CRC"):
        return
    lib = build(work, "-Wl,--build-id=none")
    debug = split(lib, work)
    place = "/usr/lib/debug" + work
    process = start(work, lib, f"mkdir -p {place}; mv {debug} {place}/; printf x >> {place}/{os.path.basename(debug)}")
    found = attach(work, process.pid)
    stop(process)
    compare("wrong CRC", found, {"hot": set()}, False)
    check("kernel_of_it" not in found, "wrong CRC: no name out of it")


def forbidden(work, name, script):
    if not namespaces(name):
        return
    lib = build(work)
    debug = split(lib)
    place, file = folder(lib)
    process = start(work, lib, f"mkdir -p {place}; " + script.format(place=place, file=file, debug=debug))
    found = attach(work, process.pid)
    stop(process)
    check("hot" in found and not found["hot"] and "kernel_of_it" not in found, f"{name}: nothing of it is told", found)


def case_link_that_leads_out(work):
    forbidden(work, "a link that leads out", "ln -s {debug} {place}/{file}")


def case_unreadable(work):
    forbidden(work, "a file that only root may read", "cp {debug} {place}/{file}; chmod 600 {place}/{file}")


def case_fifo(work):
    forbidden(work, "a pipe", "mkfifo {place}/{file}")


def case_debuginfod(work):
    if not os.path.exists("/usr/lib/x86_64-linux-gnu/libdebuginfod.so.1"):
        skip("debuginfod: there is no libdebuginfod")
        return
    lib = build(work)
    right = truth(lib)
    debug = split(lib)
    wanted = build_id(lib)
    asked, release = [], threading.Event()
    path = f"/buildid/{wanted}/debuginfo"

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            if self.path != path:
                self.send_error(404)
                return
            data = open(debug, "rb").read()
            release.wait(60)
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cache = os.path.join(work, "cache")
    os.mkdir(cache)
    os.chmod(cache, 0o777)
    process = start(work, lib)
    env = {**os.environ, "DEBUGINFOD_URLS": f"http://127.0.0.1:{server.server_port}", "DEBUGINFOD_CACHE_PATH": cache}
    stream = Stream(process.pid, env)
    waited = stream.until(lambda: stream.bare > 100 and path in asked)
    check(waited and not any(stream.found.values()), "debuginfod: samples do not wait for its answer", stream.found)
    release.set()
    check(stream.until(lambda: stream.has_lines(200)), "debuginfod: after the answer samples have lines", stream.found)
    stream.stop()
    compare("debuginfod", stream.found, right)
    n = asked.count(path)
    stream = Stream(process.pid, env)
    known = stream.until(lambda: stream.has_lines(50))
    stream.stop()
    compare("debuginfod, from its cache", stream.found if known else {}, right)
    check(n == 1 and asked.count(path) == 1, "debuginfod: asked once, then the cache knows", n)
    before = len(asked)
    found = attach(work, process.pid, seconds="0.5")
    check(any("hot" in x for x in found) and len(asked) == before, "debuginfod: without DEBUGINFOD_URLS nobody is asked", found)
    stop(process)
    server.shutdown()


def case_numba(work):
    path = os.path.join(work, "debugged.py")
    open(path, "w").write(NUMBA)
    process = subprocess.Popen(["/usr/bin/python3", path], stdout=subprocess.PIPE, text=True)
    address = process.stdout.readline().strip()
    if not address:
        skip("Numba: it does not run here")
        return
    found = attach(work, process.pid)
    text = subprocess.run(["gdb", "-p", str(process.pid), "-batch", "-nx", "-ex", f"disassemble /s {address}"],
                          capture_output=True, text=True).stdout
    stop(process)
    lines = {int(m[1]) for m in re.finditer(r"^(\d+)\t", text.split("Dump of assembler", 1)[-1], re.M)}
    told = found.get("__main__.inner(array(float64, 1d, C))", set())
    check(lines and len(told) > 1 and {n for _, n in told} <= lines, "Numba: lines of a function with debug=True", told, lines)
    check({f for f, _ in told} == {path}, "Numba: its file", told)


def ranges(path):
    """[(start, end)] of what nm says is a function with a size."""
    found = []
    for flag in ("-S", "-DS"):
        text = subprocess.run(["nm", flag, "--defined-only", path], capture_output=True, text=True).stdout
        for words in (line.split() for line in text.splitlines()):
            if len(words) == 4 and words[2] in "tTwWiI":
                found.append((int(words[0], 16), int(words[0], 16) + int(words[1], 16)))
    return found


def case_first_second(work):
    """Symbols are read while samples come already: those wait, and none keeps an address for a name."""
    target = subprocess.Popen(["/usr/bin/python3", os.path.join(ROOT, "tests/targets/numba_loop.py")], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    if target.stdout.readline().strip() != "ready":
        skip("the first second: Numba does not run here")
        return
    # Where others take the CPU symbols may be read later than samples wait for them: once more.
    for turn in range(3):
        named, nameless, wrong = first_second(work, target.pid)
        if named and not wrong:
            break
    stop(target)
    if wrong and cpu_share() < 0.6:
        skip("the first second: others take so much of the CPU that symbols are read later than samples wait for them")
        return
    check(named and not wrong, "the first second: what has a symbol has its name", len(named), len(nameless), wrong[:10])


def first_second(work, pid):
    out = os.path.join(work, "first.ndjson")
    named, nameless = set(), set()
    for options in (["-d", "1", "-r", "9999"], ["-d", "0.2"], ["-d", "1"]):
        subprocess.run([CPROFD, "attach", str(pid), "--native", *options, "-f", "events", "-o", out], check=True, capture_output=True)
        for event in map(json.loads, open(out)):
            for name, _, _, module, *_ in event["rows"] if event["ev"] == "functions" else ():
                m = re.match(re.escape(module) + r"\+0x([0-9a-f]+)$", name)
                if m and module:
                    nameless.add((module, int(m[1], 16)))
                elif module:
                    named.add(name)
    files = {os.path.basename(line.split(None, 5)[5].strip()): line.split(None, 5)[5].strip()
             for line in open(f"/proc/{pid}/maps") if "/" in line}
    tables = {module: ranges(files[module]) for module in {m for m, _ in nameless} if module in files}
    wrong = [(module, hex(a)) for module, a in nameless if any(start <= a < end for start, end in tables.get(module, ()))]
    return named, nameless, wrong


wanted = sys.argv[1:]
for case in [x for x in list(globals()) if x.startswith("case_")]:
    if wanted and not any(w in case for w in wanted):
        continue
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        globals()[case](work)
sys.exit(finish())
