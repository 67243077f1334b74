#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# run-live: beside
"""The Python package (tools/python), installed as a user installs it, with a daemon of its own: profile() against Numba's own events, load() against the
recording's lines and `report`, pytest's plugin, the cell magic in a real kernel, each CPython of pyenv. Needs root.

    python_package.py [NAME...]"""
import glob
import json
import os
import subprocess
import sys
import tempfile

import report_truth
from lib import CPROFD, ROOT
from lib.client import Daemon
from lib.result import check, finish, skip

PYTHON = "/usr/bin/python3"
TOTAL = """@numba.njit
def total(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i] ** 3
    return s
"""
CLOCKS = """
import json, sys, time
import numba, numpy
from numba.core import event
import cprofd
class Clock(event.Listener):
    def __init__(self):
        self.open, self.seen = [], []
    def on_start(self, e):
        self.open.append(time.monotonic())
    def on_end(self, e):
        begin = self.open.pop()
        if not self.open:  # of no other compile
            self.seen.append((e.data["dispatcher"].py_func.__name__, begin, time.monotonic()))
clock = Clock()
event.register("numba:compile", clock)
""" + TOTAL + """@numba.njit
def most(x):
    return x.max()
with cprofd.profile(sys.argv[1]) as profile:
    total(numpy.arange(5.0))
    total(numpy.arange(5))
    most(numpy.arange(5.0))
print(json.dumps({"truth": clock.seen, "told": [(c.name, profile.begin + c.begin, profile.begin + c.end, c.signature, c.file, c.line, c.compiler) for c in profile.outermost]}))
"""
DEFINED = [number for number, line in enumerate(CLOCKS.split("\n"), 1) if line == "@numba.njit"]
SUITE = """
import numba, numpy, pytest
""" + TOTAL + """def test_first():
    assert total(numpy.arange(5.0)) == 100
def test_again():
    assert total(numpy.arange(5.0)) == 100
@pytest.mark.compile_budget(seconds=0.001)
def test_over():
    assert total(numpy.arange(5)) == 100
@pytest.mark.compile_budget(seconds=600)
def test_within():
    assert total(numpy.arange(5, dtype="int32")) == 100
@pytest.mark.compile_budget(seconds=0)
def test_nothing():
    pass
@pytest.mark.compile_budget(seconds=0)
def test_wrong():
    assert total(numpy.arange(6.0)) == 100
"""
FIRST = """
import numba, pytest
def made(power):
    space = {"numba": numba}
    exec("@numba.njit\\ndef k%d(x):\\n    return x ** %d" % (power, power), space)
    return space["k%d" % power]
kernels = {power: made(power) for power in range(2, 8)}
@pytest.mark.parametrize("power", kernels)
def test_p(power):
    kernels[power](1.5)
"""
NOTEBOOK = """
import json, nbclient, nbformat
cells = ["%load_ext cprofd\\nimport numba, numpy", "%%cprofd --rate 1999\\n@numba.njit\\ndef f(x):\\n    return x.sum()\\nf(numpy.arange(3.0))",
         "%%cprofd --native=maybe\\n1", "%%cprofd -h\\n1", "%%cprofd --socket=/nowhere\\n1", "[str(c) for c in _cprofd.outermost]",
         "%%cprofd --page\\nf(numpy.arange(3))", "%%cprofd\\n1/0"]
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
book.cells[-1].metadata["tags"] = ["raises-exception"]
nbclient.NotebookClient(book, timeout=300).execute()
print(json.dumps([[dict(output) for output in cell.outputs] for cell in book.cells]))
"""
BUSY = """
import json, sys, time, cprofd
def busy():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        sum(i * i for i in range(1000))
with cprofd.profile(native="off") as profile:
    busy()
rows = {row["name"]: row["inclusive_share"] for row in profile.table("function")}
try:
    cprofd.load("/dev/null")
except cprofd.Error as error:
    print(json.dumps([rows.get("busy"), str(error)]))
"""


CORNERS = """
import json, os, sys, time
import numba, numpy
import cprofd
def kernel(power):
    space = {"numba": numba}
    exec("@numba.njit\\ndef k%d(x):\\n    return x ** %d" % (power, power), space)
    return space["k%d" % power]
told = {}
profile = cprofd.profile()
with profile:
    kernel(2)(1.0)
    try:
        profile.units
    except cprofd.Error as error:
        told["before its end"] = str(error)
    child = os.fork()
    if not child:
        try:
            profile.stop()  # nothing of the parent's
        finally:
            os._exit(0)
    os.waitpid(child, 0)
told["once"] = [c.name for c in profile.outermost]
if not os.fork():
    sys.exit()  # with all that runs at an exit
os.wait()
told["kept"] = os.path.exists(profile.path)
first = profile.path
with profile:
    kernel(3)(1.0)
told["twice"] = [c.name for c in profile.outermost], os.path.exists(first)
for what, how in (("no folder", {"path": "/nowhere/x.cprof"}), ("no option", {"nonsense": 1})):
    try:
        with cprofd.profile(**how):
            told[what] = "ran"
    except (cprofd.Error, TypeError) as error:
        told[what] = str(error)
gone = cprofd.Recording("/nowhere/x.cprof")
try:
    gone.units
except cprofd.Error as error:
    told["gone"] = str(error)
print(json.dumps(told))
"""


class Place:
    def __init__(self, folder):
        self.folder = folder
        self.packages = os.path.join(folder, "packages")
        source = os.path.join(folder, "source")  # pip writes beside what it builds
        subprocess.run(["cp", "-r", os.path.join(ROOT, "tools", "python"), source], check=True)
        subprocess.run([PYTHON, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-build-isolation", "--no-cache-dir", "--root-user-action=ignore",
                        "--target", self.packages, source], check=True, timeout=200)
        self.daemon = Daemon(folder)
        self.env = {**os.environ, "PYTHONPATH": self.packages, "CPROFD": CPROFD, "CPROFD_SOCKET": self.daemon.path, "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, *words, python=PYTHON, env={}):
        return subprocess.run([python, *words], cwd=self.folder, env={**self.env, **env}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)


def test_profile(place):
    path = os.path.join(place.folder, "own.cprof")
    done = place.run("-c", CLOCKS, path)
    if not check(done.returncode == 0, "profile() of Numba", done.stderr):
        return
    told = json.loads(done.stdout)
    check([t[0] for t in told["told"]] == [t[0] for t in told["truth"]] == ["total", "total", "most"], "the compiles, in their order", told)
    off = [(name, a - b, c - d) for (name, a, c, *_), (_, b, d) in zip(told["told"], told["truth"]) if max(abs(a - b), abs(c - d)) > 0.25]
    check(not off, "they begin and end as Numba's events do", off)
    check([t[3] for t in told["told"]] == ["array(float64, 1d, C)", "array(int64, 1d, C)", "array(float64, 1d, C)"], "signatures", told["told"])
    check(all(t[4:] == ["<string>", line, "Numba"] for t, line in zip(told["told"], (DEFINED[0], *DEFINED))), "where they are defined", told["told"])
    last = max(sample.time for sample in report_truth.read_recording(path))
    check(last / 1e9 + 1e-3 > told["told"][-1][2] - json_begin(path), "nothing is missing at the end", last)


def json_begin(path):
    return next(line["monotonic"] for line in lines(path) if line["ev"] == "session") / 1e9


def lines(path):
    return [json.loads(line) for line in subprocess.run(["zstdcat", path], stdout=subprocess.PIPE, check=True).stdout.splitlines()]


def test_load(place):
    """Against report_truth.py, which reads the lines by itself."""
    path = os.path.join(place.folder, "own.cprof")
    if not os.path.exists(path):
        place.run("-c", CLOCKS, path)
    code = """
import json, sys, cprofd
recording = cprofd.load(sys.argv[1])
print(json.dumps([list(recording.events()), recording.table("function"), [[u.kind, u.name, u.signature, u.begin, u.parent and (u.parent.name or "(name unknown)")] for u in recording.units],
                  [len(recording.convert(f)) for f in ("html", "svg", "perfetto")], recording.about["samples"]]))
"""
    done = place.run("-c", code, path)
    if not check(done.returncode == 0, "load()", done.stderr):
        return
    events, table, units, sizes, samples = json.loads(done.stdout)
    check(events == lines(path), "events() are the recording's lines")
    report = json.loads(subprocess.run([CPROFD, "report", "--json", "--by=function", path], stdout=subprocess.PIPE, check=True).stdout)
    check(table == report["tables"][0]["rows"] and samples == report["recordings"][0]["samples"], "table() is that of report")
    calls = {u["serial"]: u for row in report_truth.read_recording(path) for u in row.units}
    want = sorted([("compile", "phase", "pass")[u["kind"]], u["name"], u["signature"], u["begin"], u["parent"] and u["parent"]["name"]] for u in calls.values())
    have = sorted([kind, name or "(name unknown)", signature, round(begin * 1e9), parent] for kind, name, signature, begin, parent in units)
    check([w for w in want if w not in have] == [] and len(want) > 20, "units are those that samples have", [w for w in want if w not in have][:5], len(want))
    check(all(sizes), "other formats", sizes)


def test_corners(place):
    """Children, a profile that is used twice, what is asked too early or wrongly."""
    done = place.run("-c", CORNERS)
    if not check(done.returncode == 0, "corners", done.stderr):
        return
    told = json.loads(done.stdout)
    check(told["once"] == ["k2"] and told["kept"], "children leave the recording to their parent", told)
    check(told["twice"] == [["k3"], False], "a profile that is used again has what was recorded last", told)
    check("goes on" in told["before its end"], "units before the end are an error", told)
    check("No such file" in told["no folder"] and "nonsense" in told["no option"], "wrong arguments are said before anything runs", told)
    check("cannot be read" in told["gone"], "a recording that is gone is an error", told)


def test_pytest(place):
    with open(os.path.join(place.folder, "test_suite.py"), "w") as file:
        file.write(SUITE)
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", "test_suite.py")
    done = place.run(*words, "--cprofd", "--cprofd-out", "out")
    check(done.returncode == 1 and "2 failed, 4 passed" in done.stdout, "a budget that is passed fails its test, and no other", done.stdout, done.stderr)
    check("the budget is 0.001 s" in done.stdout and "total(array(int64, 1d, C))" in done.stdout, "it says why", done.stdout)
    check("assert total(numpy.arange(6.0)) == 100" in done.stdout and "the budget is 0 s" not in done.stdout, "a test's own failure stays", done.stdout)
    rows = [line.split("  ", 1)[1].split() for line in done.stdout.partition("= cprofd: compiles =")[2].splitlines() if "::" in line and " s  " in line]
    check(sorted((row[-1] for row in rows)) == ["test_suite.py::test_%s" % name for name in ("first", "over", "within")], "compiles, and their tests", rows, done.stdout)
    check(os.path.getsize(os.path.join(place.folder, "out", "pytest.cprof")) > 1000, "the recording is kept")
    done = place.run(*words)
    check(done.returncode == 1 and "1 failed, 5 passed" in done.stdout and "cprofd" not in done.stdout, "without --cprofd nothing is recorded, and no budget holds", done.stdout)
    with open(os.path.join(place.folder, "test_first.py"), "w") as file:
        file.write(FIRST)
    done = place.run(*words[:-1], "test_first.py", "--cprofd")
    rows = [line.split() for line in done.stdout.partition("= cprofd: compiles =")[2].splitlines() if "::" in line]
    check(len(rows) == 6 and all(row[-1] == "test_first.py::test_p[%s]" % row[2][1:].partition("(")[0] for row in rows), "a compile that a test begins with is that test's", rows)
    with open(os.path.join(place.folder, "test_mark.py"), "w") as file:
        file.write("import pytest\n@pytest.mark.compile_budget\ndef test_it(): pass\n")
    done = place.run(*words[:-1], "test_mark.py", "--cprofd")
    check(done.returncode == 4 and "wants a number" in done.stderr, "a budget without seconds", done.stderr, done.stdout)
    done = place.run(*words, "--cprofd", env={"CPROFD_SOCKET": "/nowhere"})
    check(done.returncode == 4 and "no cprofd daemon answers at /nowhere" in done.stderr, "without a daemon", done.returncode, done.stderr)


def test_notebook(place):
    done = place.run("-W", "ignore", "-c", NOTEBOOK, env={"JUPYTER_PLATFORM_DIRS": "1", "IPYTHONDIR": os.path.join(place.folder, "ipython")})
    if not check(done.returncode == 0, "a notebook runs", done.stderr[-3000:]):
        return
    cells = [["".join(str(part) for part in (o.get("text", ""), o.get("ename", ""), *o.get("data", {}).values())) for o in cell] for cell in json.loads(done.stdout)]
    check("f(array(float64, 1d, C))" in cells[1][-1] and "&lt;svg" in cells[1][-1], "compiles and a flame graph", cells[1])
    check("invalid choice: &#x27;maybe&#x27;" in "".join(cells[2]) or "invalid choice: 'maybe'" in "".join(cells[2]), "a wrong option", cells[2])
    check("--native" in "".join(cells[3]), "-h", cells[3])
    check("no cprofd daemon answers at /nowhere" in "".join(cells[4]), "without a daemon", cells[4])
    check("f(array(float64, 1d, C))" in "".join(cells[5]), "_cprofd is the recording", cells[5])
    check("&lt;!DOCTYPE html" in "".join(cells[6]) or "&lt;!doctype html" in "".join(cells[6]), "--page", cells[6][:1][:300])
    check(any("ZeroDivisionError" in text for text in cells[7]) and any("iframe" in text for text in cells[7]), "an error in the cell is shown, and the profile", cells[7])


def test_versions(place):
    found = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python")))
    pythons = [p for p in found if tuple(map(int, p.split("/")[-3].split(".")[:2])) >= (3, 9)]
    if not pythons:
        skip("pyenv has no CPython from 3.9 on")
    for python in pythons:
        done = place.run("-c", BUSY, python=python)
        busy, error = json.loads(done.stdout) if done.returncode == 0 else (None, done.stderr)
        check(done.returncode == 0 and busy and busy > 0.9 and "empty" in error, "CPython " + python.split("/")[-3], busy, error)


def main():
    if os.geteuid():
        sys.exit("python_package.py needs root")
    with tempfile.TemporaryDirectory(prefix="cprofd-package-") as folder:
        place = Place(folder)
        try:
            for name, test in list(globals().items()):
                if name.startswith("test_") and (not sys.argv[1:] or any(word in name for word in sys.argv[1:])):
                    test(place)
        finally:
            place.daemon.stop()
    return finish()


if __name__ == "__main__":
    sys.exit(main())
