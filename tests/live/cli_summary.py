# SPDX-License-Identifier: MIT
"""cli.py: the summary after a recording: its target, number of samples, shares."""
import contextlib
import glob
import json
import os
import re
import subprocess
import termios
import time

from lib.command import BUSY, CPROFD, PYTHON, cprofd, environment, expect, fails, folder, profile, target

# pbkdf2_hmac gives the GIL up, at 80 % of the time of each round; what it takes, the program says itself.
RELEASES = BUSY + """
import hashlib
spent = {"held": 0.0, "given": 0.0}
def held(until):
    while time.thread_time() < until:
        leaf(2000)
def given():
    hashlib.pbkdf2_hmac("sha256", b"x", b"y", 40000)
end = time.thread_time() + float(sys.argv[1])
while time.thread_time() < end:
    a = time.thread_time()
    given()
    b = time.thread_time()
    held(b + (b - a) / 4)
    spent["given"] += b - a
    spent["held"] += time.thread_time() - b
print(spent["held"] / (spent["held"] + spent["given"]))
"""


def test_recorded_by_its_own_name():
    """What waits to be executed is no process of its own, and is not called cprofd."""
    with folder() as work:
        run = cprofd("record", "-o", "a.cprof", "--", PYTHON, "-c", BUSY + "busy(1)", "an argument", cwd=work)
        fails(0, "ended with status 0", run=run)
        for options, status in (((), 0), (("--exit-status",), 3)):
            failed = cprofd("record", *options, "-o", "c.cprof", "--", "sh", "-c", "exit 3", cwd=work)
            fails(status, "sh ended with status 3", run=failed)
            expect("status 3" in failed.err.splitlines()[-1], "the last line", failed.err)
        expect(re.search(r"in 1 thread$", run.err, re.M), "one thread of one process", run.err)
        report = cprofd("report", "a.cprof", "--by=thread", cwd=work)
        head = report.out.split("\n")[0]
        expect("record" not in head and head.startswith("a.cprof: " + PYTHON + " -c"), "not its own name", report.out)
        expect(" in 1 thread," in report.out, "one thread", report.out)
        fails(0, run=cprofd("convert", "a.cprof", "-o", "a.json", cwd=work))
        told = profile(work + "/a.json")["profiles"]
        expect(not any("cprofd" in p["name"] for p in told), "its own name in the file", [p["name"] for p in told])


LLVM = """
static volatile int x;
#define WORK(name, next) static __attribute__((noinline)) void name(void) { for (int i = 0; i < 300; i++) x++; next; }
WORK(a, ) WORK(b, a()) WORK(c, b()) WORK(d, c()) WORK(e, d()) WORK(f, e()) WORK(g, f())
void LLVMPY_run(int n) { while (n--) g(); }
"""
COMPILES = """
import ctypes, sys, time
run = ctypes.CDLL(sys.argv[1]).LLVMPY_run
def build():
    run(20000)
end = time.time() + 2
while time.time() < end:
    build()
"""


def test_stripped_llvm():
    """Why no pass has a name: said of a stripped file alone."""
    with folder() as work:
        with open(work + "/a.rules", "w") as f:
            f.write("compiler mine\nunit\n    file *\n    function build\n    name @function\n")
        with open(work + "/llvm.c", "w") as f:
            f.write(LLVM)
        library = work + "/libllvmlite.so"
        for strip in (["-s"], []):
            subprocess.run(["gcc", "-O1", "-shared", "-fPIC", *strip, "-o", library, work + "/llvm.c"], check=True)
            run = cprofd("record", "--rules", work + "/a.rules", "-o", "a.cprof", "--", PYTHON, "-c", COMPILES, library, cwd=work)
            fails(0, run=run)
            expect(("LLVM's passes have no names here: libllvmlite.so is stripped" in run.err) == bool(strip), "stripped", strip, run.err)


def test_short_recordings():
    """What cannot be told is said."""
    with folder() as work:
        with target() as process:
            for _ in range(4): # others may leave it hardly any CPU
                for name in ("a.cprof", "b.cprof"):
                    fails(0, run=cprofd("attach", process.pid, "-d", "0.25", "-o", name, cwd=work))
                diff = cprofd("diff", "a.cprof", "b.cprof", cwd=work)
                if "no row has 30 samples" not in diff.out:
                    break
        expect(diff.returncode == 0 and re.search("^Whether anything differs is not known: a recording is too short", diff.out, re.M),
               "too short to tell", diff.out)
        with target("print('up', flush=True)\nimport time\ntime.sleep(60)") as process:
            fails(0, "did not use the CPU", "--mode=wall", run=cprofd("attach", process.pid, "-d", "0.1", "-o", "c.cprof", cwd=work))
            fails(0, "it only waited", "(waiting: sleep)",
                  run=cprofd("attach", process.pid, "-d", "0.1", "-i", "-o", "w.cprof", cwd=work))
        fails(0, "-i shows nothing more", run=cprofd("convert", "a.cprof", "-i", "-o", "a.svg", cwd=work))
        expect("-i shows" not in cprofd("convert", "w.cprof", "-i", "-o", "w.svg", cwd=work).err, "where it waited is there")
        diff = cprofd("diff", "c.cprof", "c.cprof", cwd=work)
        expect(diff.returncode == 1 and "Nothing could be compared" in diff.out, "nothing to compare", diff.out)


SCREEN, COLUMNS = 24, 80


def screen_lines(text):
    """Lines of a terminal."""
    return sum(max(1, -(-len(line) // COLUMNS)) for line in text.rstrip("\n").split("\n"))


def test_summary_of_compilers_fits_a_screen():
    """What is told of real compiles: a shell's prompt is still below it, and nothing of it is a list of addresses."""
    targets = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "targets")
    jax = next((p for p in glob.glob(os.environ.get("CPROFD_JAX", "")) if os.path.exists(p)), None)
    runs = [((), [PYTHON, targets + "/numba_loop.py", "1"], "make.<locals>.foo"),
            (("-s", "--mode=wall"), [PYTHON, targets + "/compile_artiq_units.py", "2"], "Experiment")]
    runs += [((), [jax, targets + "/compile_jax_kinds.py", "1"], "XLA compile")] if jax else []
    with folder() as work:
        for options, command, unit in runs:
            run = cprofd("record", *options, "-o", "a.cprof", "--", *command, cwd=work, input=b"go\n")
            fails(0, "exclusive  inclusive  times  Wall time by compile", unit, "whole stacks: ", "ended with status 0", run=run)
            expect(screen_lines(run.err) < SCREEN, "more than a screen: %d lines" % screen_lines(run.err), run.err)
            rows = re.findall(r"^ *[\d.]+ %  +[\d.]+ %  ", run.err, re.M)
            compiles = re.findall(r"^ *[\d.]+ [mun]?s  +[\d.]+ [mun]?s  +\d+  ", run.err, re.M)
            expect(len(rows) >= 2 and len(compiles) >= 2, "no table is pushed out", run.err)
            expect(not re.search(r"address 0x", run.err), "a single address", run.err)
            shares = re.findall(r" ([\d.]+) %(?=,|\n)", run.err.split("by class", 1)[1].split("\n\n")[0].split("no names for")[0])
            expect(abs(sum(map(float, shares)) - 100) < 0.5, "classes are all of the time", run.err, shares)


def told_rate(code):
    """(samples/s in the middle of those shown while it runs, the target's share of a CPU, all that were shown)"""
    with folder() as work, target(code) as process:
        def ran():
            return int(open("/proc/%d/schedstat" % process.pid).read().split()[0]) / 1e9

        master, slave = os.openpty()
        client = subprocess.Popen([CPROFD, "attach", str(process.pid), "-d", "6", "-r", "1000", "-o", "a.cprof"], cwd=work, env=environment(), stderr=slave)
        os.close(slave)
        told, begin = [], None
        try:
            while chunk := os.read(master, 65536):
                for count, rate in re.findall(r"([\d,]+) samples  ([\d,]+) samples/s", chunk.decode()):
                    begin = begin or (time.monotonic(), ran())
                    if count != "0":
                        told.append(int(rate.replace(",", "")))
                if client.poll() is None and begin:
                    now = time.monotonic(), ran()
        except OSError:
            pass
        os.close(master)
        expect(client.wait(60) == 0 and len(told) > 5, "progress on a terminal", told)
        share = (now[1] - begin[1]) / (now[0] - begin[0])
        middle = sorted(told)[len(told) // 2]
        return middle, share, told


def test_progress_tells_the_rate():
    """What is told while it runs is what the target's own clock says."""
    code = """
import time
print("up", flush=True)
while True:
    end = time.thread_time() + 0.05
    while time.thread_time() < end: pass
    time.sleep(0.05)
"""
    for _ in range(3): # on a busy machine a second of the target's differs from the next
        middle, share, told = told_rate(code)
        if 0.6 < middle / (1000 * share) < 1.5:
            return
    expect(False, "samples/s told, and CPU time of the target", middle, share, told)


def test_summary_fits_a_screen():
    with folder() as work, target() as process:
        for options in ((), ("--mode=wall",)):
            run = cprofd("attach", process.pid, "-d", "0.7", "-o", "a.cprof", *options, cwd=work)
            expect(run.returncode == 0 and screen_lines(run.err) < SCREEN, "more than a screen", run.err)
        run = cprofd("attach", process.pid, "-v", "-d", "0.3", "-o", "b.cprof", cwd=work)
        expect("native stacks: " in run.err and "libbpf" not in run.err, "-v is the long summary", run.err)
        run = cprofd("attach", process.pid, "-q", "-d", "0.3", "-o", "b.cprof", cwd=work)
        expect(run.returncode == 0 and not run.err and not run.out, "-q says something", run.err)
        run = cprofd("record", "-q", "-o", "b.cprof", "--", "sh", "-c", "echo its own; exit 3", cwd=work)
        expect(run.out == "its own\n" and not run.err, "-q says something", run.err)
        fails(1, "no such process: 4194303", "pgrep", run=cprofd("attach", 4194303, "-q", "-o", "c.cprof", cwd=work))
        for options in (("--nonblocking", "--full-filenames", "--nolineno"), ("-d", "0.005m")):
            fails(0, run=cprofd("attach", process.pid, "-d", "0.3", *options, "-o", "/dev/null", cwd=work))
        expect(json.loads(cprofd("dump", process.pid, "-j").out)["threads"], "dump -j is no JSON")


def until_hangup(master):
    """All that is written to this terminal until its last program has closed it. Closes it, too."""
    said = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(master, 65536):
            said += chunk
    os.close(master)
    return said


def on_terminal(*args, columns, cwd, **more):
    """What it prints on a terminal of so many columns: lines."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (24, columns))
    client = subprocess.Popen([CPROFD, *args], cwd=cwd, env=environment(NO_COLOR="1", **more), stdin=slave, stdout=slave, stderr=subprocess.STDOUT)
    os.close(slave)
    said = until_hangup(master)
    expect(client.wait(60) == 0, "exit status", said)
    return said.decode().replace("\r\n", "\n").splitlines()


def test_tables_fit_their_terminal():
    """Names are cut, columns left out; of what is no terminal, and with -v, all is whole."""
    name = "a_function_" + "of_a_long_name_" * 6
    code = "import time\ndef %s():\n    while time.process_time() < 0.5: pass\n%s()\n" % (name, name)
    tables = "--by=class,thread,unit,source,source-line,phase,pass,trigger,tree,chain,repeat,failed,function,line,package,module,file,callee"
    with folder() as work:
        script = os.path.join(work, "a_file_" + "of_a_long_name_" * 6 + ".py")
        with open(script, "w") as file:
            file.write(code)
        fails(0, run=cprofd("record", "-o", "a.cprof", "--", PYTHON, script, cwd=work))
        report = "report", "a.cprof", tables
        compare = "diff", "a.cprof", "a.cprof", "vs", "a.cprof", "a.cprof", "--top=9", "--by=class,unit,phase,function,line,package,module,file"
        for columns in (64, 80, 120, 160):
            for args, more in (report, {}), (report, {"COLUMNS": str(columns)}), (compare, {}):
                lines = on_terminal(*args, columns=100 if more else columns, cwd=work, **more)
                # The head of the report has words that no line can hold: they stay whole.
                long = [line for line in lines if len(line) > columns and len(line.split()) > 1]
                # Seven columns of figures leave a name 24 characters, however narrow the terminal is.
                expect(not long or args == compare and columns < 80, "lines of more than %d columns" % columns, long)
                rows = [line for line in lines if "a_function_…" in line or "a_function_of" in line]
                expect(len(rows) >= 2 and all("name_" in row and "…" in row for row in rows), "no row has the ends of the name", lines)
        for args in report, compare:
            piped = cprofd(*args, cwd=work, env=environment(COLUMNS="64")).out.splitlines()
            expect(piped == cprofd(*args, cwd=work).out.splitlines(), "a pipe has no width")
            expect(on_terminal(*args, "-v", columns=64, cwd=work) == piped, "-v cuts")


def test_recording_leaves_the_terminal_to_the_command():
    """What is on the screen is what the command wrote, until it has ended."""
    with folder() as work:
        master, slave = os.openpty()
        client = subprocess.Popen([CPROFD, "record", "-o", "a.cprof", "--", PYTHON, "-c", "import time\nfor i in range(8):\n    print('at', i, flush=True)\n    time.sleep(0.2)"],
                                  cwd=work, env=environment(), stdin=slave, stdout=slave, stderr=slave)
        os.close(slave)
        said = until_hangup(master)
        expect(client.wait(60) == 0 and b"".join(b"at %d\r\n" % i for i in range(8)) in said, "its own output was overwritten", said)
        expect(b"\x1b" not in said.partition(b"cprofd: ")[0], "progress on the command's terminal", said)  # the summary may have colours


def test_children_are_missed():
    """Who records a shell without -s is told whose time is not there."""
    busy = "import time\nwhile time.process_time() < 0.4: pass"
    with folder() as work:
        shell = "%s -c '%s'; true" % (PYTHON, busy)
        fails(0, "its children used ", "-s (--subprocesses)", run=cprofd("record", "-o", "a.cprof", "--", "sh", "-c", shell, cwd=work))
        run = cprofd("record", "-s", "-o", "a.cprof", "--", "sh", "-c", shell, cwd=work)
        fails(0, " of 2 processes", run=run)
        expect("its children" not in run.err, "they are recorded", run.err)
        run = cprofd("record", "-o", "a.cprof", "--", PYTHON, "-c", busy, cwd=work)
        expect("its children" not in run.err, "there are none", run.err)
        code = "import subprocess\nprint('up', flush=True)\nwhile True: subprocess.run([%r, '-c', %r])" % (PYTHON, busy.replace("0.4", "0.3"))
        with target(code) as process:
            fails(0, "its children used ", run=cprofd("attach", process.pid, "-d", "3", "-o", "a.cprof", cwd=work))


def test_without_the_gil():
    with folder() as work:
        run = cprofd("record", "-g", "-o", "a.cprof", "--", PYTHON, "-c", RELEASES, "2", cwd=work)
        fails(0, "(without the GIL)", run=run)
        said = float(run.out.split()[-1])
        share = float(re.search(r"with the GIL: ([\d.]+) %", run.err).group(1)) / 100
        expect(abs(share - said) < 0.08, "held %.3f, it says %.3f itself" % (share, said), run.err)
        rate = float(re.search(r"([\d,]+) samples/s of CPU time", run.err).group(1).replace(",", ""))
        expect(600 < rate < 1400, "of all CPU time, not only that with the GIL", run.err)
        told = json.loads(cprofd("report", "a.cprof", "--by=class", "--json", cwd=work).out)["tables"][0]["rows"]
        shares = {row["name"]: row["inclusive_share"] for row in told}
        expect(abs(1 - shares["without the GIL"] - share) < 0.002 and shares.get("not determined", 0) < 0.04, "a class of its own", told)


def test_waits_are_counted():
    # Half of the time one thread sleeps, and another all the time: that one's is no part of the shares.
    code = ("import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n" + BUSY
            + "\nwhile True:\n    busy(0.02)\n    time.sleep(0.02)")
    with folder() as work, target(code) as process:
        for options in (("--lines",), ("-g",)):
            run = cprofd("attach", process.pid, "--mode=wall", "-v", "-d", "0.8", "-o", "a.cprof", *options, cwd=work)
            fails(0, " waits in ", run=run)
            counts = [int(n.replace(",", "")) for n in re.search(r"([\d,]+) samples and ([\d,]+) waits", run.err).groups()]
            native = int(re.search(r"native stacks: .* whole of ([\d,]+)", run.err).group(1).replace(",", ""))
            expect(2 < counts[1], "it slept some 20 times, less on a busy machine", run.err)
            expect("-g" in options or abs(sum(counts) - native) < 0.1 * native + 10, "samples and waits are what stacks are counted of", run.err)
            expect("(waiting: sleep)" in run.err, "where it waits is told, whoever holds the GIL", run.err)
            expect("Time by %s" % ("line" if "--lines" in options else "function") in run.err, "rows", run.err)
            share = float(re.search(r"\bwaiting ([\d.]+) %", run.err).group(1))
            # Where others work it is half of the time at most; with the one that sleeps it were three quarters.
            expect(10 < share < 65, "half of the time of the other", run.err)
            told = json.loads(cprofd("report", "a.cprof", "--by=class", "--json", cwd=work).out)
            quiet = re.search(r"1 thread that hardly ran waited ([\d.]+) (m?s)", run.err)
            span = told["recordings"][0]["span_ns"] / 1e9
            expect(quiet and abs(float(quiet[1]) * (1 if quiet[2] == "s" else 1e-3) - span) < 0.25 * span, "a thread that only sleeps", run.err, span)
            all_ns = told["tables"][0]["total_ns"] + told["recordings"][0]["quiet_wall_ns"]
            for table in ("class", "function", "file"):
                text = cprofd("report", "a.cprof", "--by", table, cwd=work).out
                whole = float(re.search(r"% of ([\d.]+) s", text).group(1)) + float(re.search(r"([\d.]+) +in 1 thread that hardly ran", text).group(1))
                expect(abs(whole - all_ns / 1e9) < 0.002 and told["recordings"][0]["quiet_threads"] == 1,
                       "both together are all of the wall time", text, told["recordings"])
                expect("no part of these" in text, "it is said", text)
            with subprocess.Popen(["cat", "a.cprof"], cwd=work, stdout=subprocess.PIPE) as cat:
                text = cprofd("report", "-", "--by=function", stdin=cat.stdout).out
            total = float(re.search(r"% of ([\d.]+) s", text).group(1))
            expect(abs(total - all_ns / 1e9) < 0.002 and "from a pipe" in text, "from a pipe they are in the rows, which is said", text)
