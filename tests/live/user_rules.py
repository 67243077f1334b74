#!/usr/bin/python3
"""A compiler of one's own by `--rules`: its units and phases are told as the target itself counted them. Bad rules are
refused before anything is sampled."""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CPROFD = os.path.abspath(os.environ.get("CPROFD", os.path.join(HERE, "../../build/cprofd")))
# Three kernels in turn, 30 ms each, of which 20 in optimise(): by its own CPU clock.
TARGET = """
import sys, time
class Kernel:
    def __init__(self, name):
        self.name = name
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        for _ in range(1000):
            pass
def optimise(kernel):
    spin(0.02)
def build(kernel):
    spin(0.01)
    optimise(kernel)
print("up", flush=True)
kernels = [Kernel("kernel_" + x) for x in "abc"]
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    for kernel in kernels:
        build(kernel)
"""
RULES = """compiler mine
unit
    file *
    function build
    has kernel
    name kernel.name
phase
    file *
    function optimise
    has kernel
    name @function
"""
passed = failed = 0


def check(good, name, *details):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    print("ok" if good else "FAILED", name, *([] if good else details))


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
                    parent, _, kind, _, name = rows[unit][:5]
                    sums[kind, name] = sums.get((kind, name), 0) + cpu
                    unit = parent
    return sums, all_of_it


def case_own(work):
    rules, out = os.path.join(work, "mine.rules"), os.path.join(work, "out.ndjson")
    open(rules, "w").write(RULES)
    target = subprocess.Popen(["/usr/bin/python3", "-c", TARGET, "6"], stdout=subprocess.PIPE, text=True)
    target.stdout.readline()
    done = subprocess.run([CPROFD, "attach", str(target.pid), "-d", "3", "--rules", rules, "-f", "events", "-o", out],
                          capture_output=True, text=True)
    target.kill()
    target.wait()
    sums, all_of_it = units(out)
    names = {name for kind, name in sums if kind == 0}
    check(done.returncode == 0 and {"kernel_a", "kernel_b", "kernel_c"} <= names <= {"kernel_a", "kernel_b", "kernel_c", ""},
          "units by the kernel's name", done.stderr, sums)
    shares = [sums.get((0, "kernel_" + x), 0) / all_of_it for x in "abc"]
    check(all(abs(x - 1 / 3) < 0.06 for x in shares), "a third of the time each", shares)
    check(abs(sums.get((1, "optimise"), 0) / all_of_it - 2 / 3) < 0.05, "two thirds in the phase", sums, all_of_it)


def case_bad(work):
    open(os.path.join(work, "bad.rules"), "w").write("compiler x\nunit\n    nonsense\n")
    out = os.path.join(work, "out.cprof")
    for path, words in ((work, "bad.rules:3:5: "), (os.path.join(work, "none"), "No such file")):
        done = subprocess.run([CPROFD, "attach", str(os.getpid()), "-d", "1", "--rules", path, "-o", out], capture_output=True, text=True)
        check(done.returncode == 1 and words in done.stderr and not os.path.exists(out), "refused: " + words, done)


for case in [x for x in list(globals()) if x.startswith("case_")]:
    with tempfile.TemporaryDirectory() as folder:
        globals()[case](folder)
print(f"{passed} passed, {failed} failed, 0 skipped")
sys.exit(1 if failed else 0)
