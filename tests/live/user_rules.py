#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A compiler described by `--rules`: its units and phases are reported as the target itself counted them. Bad rules are
refused before anything is sampled. And a compiler that is no Python, whose units, phases and passes are native frames alone: clang, against what
-ftime-report says of the same run. And what of ARTIQ with NAC3 is Python, on a package of our own with its names."""
import json
import os
import re
import subprocess
import sys
import tempfile

from lib import CPROFD
from lib.wait import recorded, spread
from lib.result import check, finish

# Three kernels in turn, 30 ms each, of which 20 in optimise(): by its own CPU clock, in which it goes on for so many seconds.
TARGET = """
import sys, time
class Kernel:
    def __init__(self, name):
        self.name, self.size = name, len(name)
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(1000):
            pass
def polish(kernel):
    spin(0.02)
def optimise(kernel):
    polish(kernel)
def build(kernel, code=optimise.__code__):
    spin(0.01)
    optimise(kernel)
print("up", flush=True)
sys.stdin.readline()
kernels = [Kernel("kernel_" + x) for x in "abc"]
end = time.thread_time() + float(sys.argv[1])
while time.thread_time() < end:
    for kernel in kernels:
        build(kernel)
"""
RULES = """compiler mine
unit
    file *
    function build
    has kernel
    name kernel.none + "-" | "the " + kernel.name
    signature kernel.size + " of " + code.co_qualname
phase
    file *
    function optimise
    has kernel
    name @function
phase
    file *
    function nowhere
    name @function
"""
# Lines 2, 8, 13, 18: no variable of that name; a pass by a variable, in a phase by one; no such variable; no value and no other choice.
DOUBTFUL = """compiler mine
unit
    file *
    function build
    has kernel
    name unit.name | kernel.none | @function + " of " + kernel.name
    signature "by hand"
phase
    file *
    function optimise
    has kernel
    name kernel.name
pass
    file *
    function polish
    has kernels
    name @function
pass
    file *
    function spin
    name kernel.name
"""
KERNELS = ["the kernel_%s(8 of optimise)" % x for x in "abc"]
PERIOD = 1e9 / 999


# Functions with loops: some seconds of clang -O2.
SOURCE = """
struct s%(i)d { int a[8]; double b[8]; struct s%(i)d *next; };
double work%(i)d(struct s%(i)d *p, int *q, int n)
{
	double sum = 0;
	for (; p; p = p->next) {
		for (int i = 0; i < n; i++) { q[i] = q[i] * %(i)d + p->a[i & 7]; p->b[i & 7] += q[i]; }
		for (int i = 0; i < n; i++) { sum += p->b[i & 7] * p->a[(i * 3) & 7]; if (sum > 1000 + %(i)d) sum = __builtin_sqrt(sum); }
		for (int i = 0; i < 8; i++) sum += p->b[i] * p->a[7 - i];
	}
	return sum;
}
"""


def units(path):
    """{(kind, name): CPU ns} of the samples' innermost units, and those around them."""
    rows, sums, all_of_it = [None], {}, 0
    for event in map(json.loads, open(path)):
        if event["ev"] == "epoch":
            rows = [None]
        elif event["ev"] == "units":
            rows += event["rows"]
        elif event["ev"] == "samples":
            n = len(event["t"])
            for cpu, unit in zip(event.get("cpu", [0] * n), event.get("unit", [0] * n)):
                all_of_it += cpu
                while unit:
                    parent, _, kind, _, name, signature = rows[unit][:6]
                    name += "(%s)" % signature if signature else ""
                    sums[kind, name] = sums.get((kind, name), 0) + cpu
                    unit = parent
    return sums, all_of_it


def attached(work, text, program=TARGET):
    rules, out = os.path.join(work, "mine.rules"), os.path.join(work, "out.ndjson")
    open(rules, "w").write(text)
    if os.path.exists(out):
        os.unlink(out)
    target = subprocess.Popen(["/usr/bin/python3", "-c", program, "2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    target.stdout.readline()
    client = subprocess.Popen([CPROFD, "attach", str(target.pid), "--rules", rules, "-f", "events", "-o", out], stderr=subprocess.PIPE, text=True)
    recorded(out, client)
    target.stdin.write("go\n")
    target.stdin.close()
    said = client.communicate()[1]
    target.kill()
    target.wait()
    return subprocess.CompletedProcess([], client.returncode, "", said), *units(out)


def case_own(work):
    done, sums, all_of_it = attached(work, RULES)
    names = {name for kind, name in sums if kind == 0}
    check(done.returncode == 0 and set(KERNELS) <= names <= set(KERNELS) | {""},
          "units by the kernel's name", done.stderr, sums)
    shares = [sums.get((0, x), 0) / all_of_it for x in KERNELS]
    check(all(abs(x - 1 / 3) < 0.06 for x in shares), "a third of the time each", shares)
    check("mine.rules:13: no function that was on a stack" in done.stderr and done.stderr.count("mine.rules:") == 1,
          "a rule that matched nothing is told", done.stderr)
    check(abs(sums.get((1, "optimise"), 0) / all_of_it - 2 / 3) < 0.05, "two thirds in the phase", sums, all_of_it)


def case_lasting(work):
    """What lasts is read once: its name is that of each call, and of what is called with the next object at once."""
    done, sums, all_of_it = attached(work, RULES.replace("    name kernel.none", "    lasting\n    name kernel.none").replace(
        "    name @function", "    lasting\n    name kernel.name", 1))
    for kind, names in (0, KERNELS), (1, ["kernel_" + x for x in "abc"]):
        shares = [sums.get((kind, x), 0) / all_of_it for x in names]
        whole = 2 / 9 if kind else 1 / 3
        check({name for of, name in sums if of == kind} <= {*names, ""} and all(abs(x - whole) < 0.06 for x in shares), "what lasts, by its name", done.stderr, sums)


def case_doubts(work):
    done, sums, all_of_it = attached(work, DOUBTFUL)
    names = ["build of kernel_%s(by hand)" % x for x in "abc"]
    check({name for kind, name in sums if kind == 0} <= {*names, "(by hand)"} and all(sums.get((0, x), 0) / all_of_it > 0.2 for x in names),
          "a name by the last choice, and a signature that needs no value", sums)
    said = done.stderr.count("mine.rules:")
    check("mine.rules:13: its function was on the stack of " in done.stderr and "but no pass was found" in done.stderr, "no such variable: told", done.stderr)
    check("mine.rules:18: `name` gave nothing for any of its" in done.stderr, "no name: told", done.stderr)
    check(said == 2, "of the others nothing", done.stderr)
    done, sums, all_of_it = attached(work, DOUBTFUL.replace("has kernels\n    name @function", "has kernel\n    name kernel.name"))
    shares = [sums.get((2, "kernel_" + x), 0) / all_of_it for x in "abc"]
    check(all(abs(x - 2 / 9) < 0.05 for x in shares), "a pass that a variable names, in a phase that it names, too", shares, sums)


def case_bad(work):
    open(os.path.join(work, "bad.rules"), "w").write("compiler x\nunit\n    nonsense\n")
    out = os.path.join(work, "out.cprof")
    for path, words in ((work, "bad.rules:3:5: "), (os.path.join(work, "none"), "No such file")):
        done = subprocess.run([CPROFD, "attach", str(os.getpid()), "-d", "1", "--rules", path, "-o", out], capture_output=True, text=True)
        check(done.returncode == 1 and words in done.stderr and not os.path.exists(out), "refused: " + words, done)


# Texts that are gone within milliseconds: the next one lies where the last one lay.
SHORT = """
import sys, time
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(200):
            pass
def each(functions):
    for name, ms in functions:
        k = f"at work on {name!r}"
        spin(ms / 1000)
def build(kernel):
    each([("first", 1), ("_ZN4a_nsL6secondEv", 2), ("third", 3)])
print("up", flush=True)
sys.stdin.readline()
end = time.thread_time() + float(sys.argv[1])
while time.thread_time() < end:
    build("kernel")
"""
SHORT_RULES = """compiler short
unit
    file *
    function build
    has kernel
    name kernel
phase
    file *
    function each
    has k
    name "each"
    signature k.@symbol
"""


def case_short(work):
    done, sums, all_of_it = attached(work, SHORT_RULES, SHORT)
    shares = {name: ns / all_of_it for (kind, name), ns in sums.items() if kind == 1}
    wanted = {"each(first)": 1 / 6, "each(a_ns::second())": 2 / 6, "each(third)": 3 / 6}
    # A tick may come before the first text is there.
    check(set(wanted) <= set(shares) <= set(wanted) | {"each"} and all(
          abs(shares[x] - share) < max(0.03, spread(share, all_of_it / PERIOD)) for x, share in wanted.items()),
          "a text that is gone soon: as it was at the tick", shares, done.stderr)


def shares_told(path):
    """{what: share of the unit}, in CPU time, and how many samples that is of."""
    rows = []
    for by in ("unit", "phase", "pass"):
        done = subprocess.run([CPROFD, "report", path, "--by=" + by, "--json"], capture_output=True, text=True, check=True)
        rows += json.loads(done.stdout)["tables"][0]["rows"]
    sums = {row["name"]: row["inclusive_ns"] for row in rows}
    return {name: 100 * value / sums["clang"] for name, value in sums.items()}, sums["clang"] / PERIOD


def shares_true(text):
    """{what: share of the front end's clock}: user and system time, the last but one of the columns."""
    sums = {}
    for value, name in re.findall(r" ([\d.]+) \( *[\d.]+%\) +[\d.]+ \( *[\d.]+%\) +([A-Z].*)$", text, re.M):
        sums[name] = max(sums.get(name, 0), float(value))
    if "Clang front-end timer" not in sums: # clang 19 has a table of its own steps, and no sum of all but that
        sums["Clang front-end timer"] = sums["Total"]
        sums["Code Generation Time"] = sums["Optimizer"] + sums["Machine code generation"]
    return {name: 100 * value / sums["Clang front-end timer"] for name, value in sums.items()}


def case_native(work):
    source, out = os.path.join(work, "many.c"), os.path.join(work, "out.cprof")
    open(source, "w").write("".join(SOURCE % {"i": i} for i in range(150)))
    done = subprocess.run([CPROFD, "record", "--native", "-o", out, "--", "clang", "-O2", "-ftime-report", "-c", source, "-o", "/dev/null"],
                          capture_output=True, text=True)
    (told, n), true = shares_told(out), shares_true(done.stderr)
    names = {"Frontend": "Clang front-end timer", "Backend": "Code Generation Time", "InstCombine": "InstCombinePass",
             "LoopUnroll": "LoopUnrollPass", "LoopVectorize": "LoopVectorizePass", "IndVarSimplify": "IndVarSimplifyPass", "GVN": "GVNPass",
             "SelectionDAGISel": "X86 DAG->DAG Instruction Selection"}
    rows = ["%s %.1f %% told %.1f %%" % (name, true.get(of, 0), told.get(name, 0)) for name, of in names.items()]
    print("  ", ", ".join(rows))
    # A point, and what chance does.
    check(all(true.get(of) and name in told and abs(true[of] - told[name]) < 1 + 100 * spread(true[of] / 100, n) for name, of in names.items()),
          "clang: phases and passes as it says itself", rows, done.stderr)


# What stands for NAC3, which is native, is a loop of 50 ms. A kernel's bound method is made for each call, where the one before it was.
CORE = """
import functools, time
class Core:
    def compile(self, method, args, kwargs, embedding_map, file_output=None, target=None):
        if hasattr(method, "__self__"):
            obj = method.__self__
            name = method.__name__
        else:
            obj = method
            name = ""
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            for _ in range(1000):
                pass
    def run(self, function, args, kwargs):
        return self.compile(function, args, kwargs, object())
def kernel(function):
    @functools.wraps(function)
    def run_on_core(self):
        return self.core.run(getattr(self, function.__name__), (), {})
    return run_on_core
"""
EXPERIMENT = """
from artiq.coredevice.core import Core, kernel
class Experiment:
    core = Core()
    @kernel
    def first(self): pass
    @kernel
    def second(self): pass
e = Experiment()
for i in range(20):
    e.first(); e.second()
"""


# What names a compile is gone when it is over, after half a millisecond; what lies there then may be read (docs/rules.md).
GONE = """
import time
class Work:
    def __init__(self, name):
        self.name = name
def build(work):
    end = time.perf_counter() + 0.0005
    while time.perf_counter() < end:
        pass
over = time.perf_counter() + 3
while time.perf_counter() < over:
    build(Work("work"))
    other = [Work("another") for _ in range(3)]
    time.sleep(0.005)
"""
GONE_RULES = "compiler mine\nunit\n    file */gone.py\n    function build\n    has work\n    name work.name\n"


def case_gone(work):
    rules, program, out = (os.path.join(work, name) for name in ("gone.rules", "gone.py", "out.ndjson"))
    for path, text in (rules, GONE_RULES), (program, GONE):
        open(path, "w").write(text)
    done = subprocess.run([CPROFD, "record", "--rules", rules, "-f", "events", "-o", out, "--", "/usr/bin/python3", program], capture_output=True, text=True)
    told, losses = {}, {}
    for event in map(json.loads, open(out)):
        if event["ev"] == "units":
            told.update({event["first"] + i: row[4] for i, row in enumerate(event["rows"])})
        elif event["ev"] in ("unit_name", "unit_end") and event.get("name"):
            told[event["id"]] = event["name"]
        elif event["ev"] == "ledger":
            losses = event["losses"]
    unnamed = sum(not name for name in told.values())
    check(len(told) > 20 and unnamed == losses.get("unit_name", 0), "a compile whose name is gone before it is read is counted", len(told), unnamed, losses,
          done.stderr)


def case_nac3(work):
    folder, out = os.path.join(work, "artiq/coredevice"), os.path.join(work, "out.ndjson")
    os.makedirs(folder)
    open(os.path.join(folder, "core.py"), "w").write(CORE)
    open(os.path.join(work, "experiment.py"), "w").write(EXPERIMENT)
    done = subprocess.run([CPROFD, "record", "-f", "events", "-o", out, "--", "/usr/bin/python3", os.path.join(work, "experiment.py")],
                          capture_output=True, text=True)
    sums, _ = units(out)
    # The first ones are over before it is known what is to be read of them.
    shares = [sums.get((0, "Experiment." + x), 0) / 1e9 for x in ("first", "second")]
    check(all(abs(x - 1) < 0.15 for x in shares), "ARTIQ with NAC3: each kernel by name, with its time", shares, done.stderr)


for case in [x for x in list(globals()) if x.startswith("case_")]:
    with tempfile.TemporaryDirectory() as folder:
        globals()[case](folder)
sys.exit(finish())
