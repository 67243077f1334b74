# SPDX-License-Identifier: MIT
"""cli.py: outputs that cannot be written, full disks, links, names of formats."""
import contextlib
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import time

from lib import ROOT
from lib.command import (BUSY, CHURN, CPROFD, NOBODY, PYTHON, caller, cprofd, environment, expect, fails, folder, names, only_file, profile,
                      sudo, target)
from lib.wait import until

# --- files ---

def test_sudo_files():
    with folder(NOBODY) as work, target() as process:
        fails(0, run=cprofd("attach", process.pid, "-d", "0.5", cwd=work, env=sudo(NOBODY)))
        expect(os.stat(only_file(work, ".speedscope.json")).st_uid == NOBODY, "the file is not the sudo user's")
        expect(len(os.listdir(work)) == 1, "something was left behind", os.listdir(work))


def test_sudo_of_the_real_caller():
    """All that writes, as whoever called `sudo make test`: files are theirs, and their commands have their rights."""
    uid, gid, _ = caller()
    with folder() as work, target() as process:
        os.chown(work, uid, gid)
        for args in (("attach", process.pid, "-d", "0.5", "-o", "a.cprof"), ("convert", "a.cprof", "-o", "a.html"),
                     ("convert", "a.cprof"), ("record", "-o", "r.svg", "--", PYTHON, "-c", "import os\nopen('by', 'w').write('%d %d' % (os.getuid(), os.getgid()))")):
            fails(0, run=cprofd(*args, cwd=work, env=sudo()))
        fails(0, run=cprofd("report", "a.cprof", cwd=work, env=sudo()))
        for name in os.listdir(work):
            status = os.stat(os.path.join(work, name))
            expect((status.st_uid, status.st_gid) == (uid, gid), "%s is somebody else's" % name, status)
        expect(open(os.path.join(work, "by")).read() == "%d %d" % (uid, gid), "the command ran as somebody else")


def test_killed_recording():
    """What SIGKILL leaves is in sight, and is read."""
    with folder() as work, target() as process:
        client = subprocess.Popen([CPROFD, "attach", str(process.pid), "-o", "a.cprof"], cwd=work, env=environment(), stderr=subprocess.DEVNULL)
        path = os.path.join(work, "a.cprof.part")
        expect(until(lambda: os.path.exists(path) and os.path.getsize(path) > 3000), "there is no a.cprof.part", os.listdir(work))
        client.kill()
        client.wait()
        fails(1, "a.cprof.part", "ended before", run=cprofd("report", "a.cprof", cwd=work))
        run = cprofd("report", "a.cprof.part", cwd=work)
        expect(run.returncode == 0 and "leaf" in run.out, "it is not read", run.err)
        fails(0, run=cprofd("attach", process.pid, "-d", "0.3", "-o", "a.cprof", cwd=work))
        expect(sorted(os.listdir(work)) == ["a.cprof", "a.cprof.part"], "another recording", os.listdir(work))


def test_profiles_are_no_recordings():
    with folder() as work, target() as process:
        fails(0, run=cprofd("attach", process.pid, "-d", "0.3", "-o", "a.speedscope.json", cwd=work))
        for command in (("report",), ("convert",), ("diff", "a.speedscope.json")):
            fails(1, "a file of speedscope", "cprofd convert", run=cprofd(*command, "a.speedscope.json", cwd=work))


def test_interpreter_frames():
    """CPython's own frames between Python frames: only when asked for, and the time is the same."""
    with folder() as work, target("class A:\n    def __init__(self):\n        leaf(2000)\n" + BUSY + "while True: A()") as process:
        fails(0, run=cprofd("attach", process.pid, "-d", "1", "-o", "a.cprof", cwd=work))
        sums = []
        for options in ((), ("--interpreter-frames",)):
            out = cprofd("convert", "a.cprof", "-f", "collapsed", *options, "-o", "-", cwd=work).out
            sums.append(sum(int(line.rsplit(" ", 1)[1]) for line in out.splitlines()))
            found = [line for line in out.splitlines() if re.search(r"_PyEval|_PyObject_|slot_tp|Py_Run", line)]
            expect(bool(found) == bool(options), "the interpreter's own frames", options, found[:3])
            for ending in ("svg", "speedscope.json", "html"):
                fails(0, run=cprofd("convert", "a.cprof", "-o", "a." + ending, *options, cwd=work))
        expect(sums[0] == sums[1] > 0, "time was lost", sums)
        fails(0, run=cprofd("convert", "a.cprof", "-f", "events", "-o", "b.cprof", cwd=work))


def test_full_disk_from_the_first_byte():
    with small_disk("64k", 0) as (disk, filler), target() as process:
        with contextlib.suppress(OSError), open(filler, "wb") as file:
            file.write(b"x" * 200000)
        fails(1, "nothing was recorded", "is full", "-o FILE", run=cprofd("attach", process.pid, "-d", "3", "-o", "a.cprof", cwd=disk))
        expect(os.listdir(disk) == ["filler"], "an empty file is left", os.listdir(disk))


def test_unwritable_output():
    with folder() as work, target() as process:
        for env, output in ((sudo(NOBODY), "a.json"), (None, "no/such/folder.json"), (None, "."), (None, "a/")):
            begin = time.monotonic()
            run = cprofd("attach", process.pid, "-d", "20", "-o", output, cwd=work, env=env)
            fails(1, "-o", run=run)
            expect(time.monotonic() - begin < 15, "it was refused after sampling only")
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
        run = subprocess.run(["sh", "-c", '"$0" attach "$1" -d 0.5 -q -f collapsed -o - | true', CPROFD, str(process.pid)], cwd=work, env=environment(), capture_output=True)
        expect(not run.stderr, "who reads no more is no failure", run.stderr)
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
    with small_disk("512k", 0) as (disk, filler), target(CHURN) as process, folder() as work:
        run = cprofd("attach", process.pid, "-d", "30", "-r", "5k", "-f", "events", "-o", "a.cprof", cwd=disk)
        fails(1, "No space left", run=run)
        fails(0, run=cprofd("convert", only_file(disk, ".cprof"), "-o", "b.json", cwd=work))
        expect(len(names(os.path.join(work, "b.json"))) > 10, "the recording does not hold what was recorded")


def test_full_disk_conversion():
    with small_disk("1m", 0) as (disk, filler), target(CHURN) as process, folder() as work:
        client = subprocess.Popen([CPROFD, "attach", str(process.pid), "-r", "499", "-o", "a.json"], cwd=disk,
                                  env=environment(), stderr=subprocess.PIPE)
        # The profile of so much of a recording is twice as large.
        expect(until(lambda: any(os.path.getsize(os.path.join(disk, f)) > 150000 for f in os.listdir(disk) if f.endswith(".cprof")), 120),
               "nothing is recorded")
        free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_bsize
        with open(filler, "wb") as file: # what is left is enough for the recording only
            file.write(b"x" * max(0, free - 160000))
        client.send_signal(signal.SIGINT)
        err = client.communicate(timeout=60)[1].decode()
        expect(client.returncode == 1 and "the recording is kept" in err, "a full disk was not told", err)
        kept = only_file(disk, ".cprof")
        expect(os.path.basename(kept) in err, "its path was not told", err)
        expect(sorted(os.listdir(disk)) == sorted(["filler", os.path.basename(kept)]), "half a file is left", os.listdir(disk))
        fails(0, run=cprofd("convert", kept, "-o", "b.json", cwd=work))
        expect(len(names(os.path.join(work, "b.json"))) > 10, "the recording does not hold what was recorded")


def test_convert():
    with folder() as work, target() as process:
        fails(0, "convert", run=cprofd("attach", process.pid, "-d", "2", "--native=off", "-o", "a.cprof", cwd=work))
        recording = os.path.join(work, "a.cprof")
        fails(0, run=cprofd("convert", recording, cwd=work))
        profile(os.path.join(work, "a.speedscope.json"))
        fails(0, run=cprofd("convert", recording, "--lines", "--window", "0.5,1", "-o", "w.json", cwd=work))
        whole, part = profile(os.path.join(work, "a.speedscope.json")), profile(os.path.join(work, "w.json"))
        length = [sum(p["profiles"][0]["weights"]) for p in (whole, part)]
        # One thread has no more CPU in half a second than that.
        expect(0 < length[1] < 0.51e9 and length[1] < length[0], "the window is not a part", length)
        for name, begin in (("a.svg", b"<?xml"), ("a.html", b"<!DOCTYPE html>"), ("a.pb.gz", b"\x1f\x8b"), ("a.pprof", b"\x1f\x8b"), ("a.folded", b"<module>"), ("a.txt", b"<module>"),
                            ("a.json", b"{"), ("b.cprof", b"\x28\xb5\x2f\xfd")):
            fails(0, run=cprofd("convert", recording, "-o", name, cwd=work))
            with open(os.path.join(work, name), "rb") as file:
                expect(file.read(len(begin)) == begin, name + " is of another format")
        fails(2, "-f pprof, but x.svg is a name for svg", run=cprofd("convert", recording, "-f", "pprof", "-o", "x.svg", cwd=work))
        for name, *options in (("a.cprof",), ("a.cprof", "--window", "0.5,1"), ("other.cprof",)):
            if name != "a.cprof":
                os.link(recording, os.path.join(work, name))
            before = open(recording, "rb").read()
            fails(2, "is the recording that is to be read", run=cprofd("convert", recording, "-o", name, *options, cwd=work))
            expect(open(recording, "rb").read() == before, "the input was written")
        before = open(os.path.join(work, "a.json"), "rb").read()
        for form in ("speedscope", "collapsed", "svg", "html", "pprof", "events"):
            run = cprofd("convert", recording, "-f", form, "--window", "50,60", "-o", "none." + form, cwd=work)
            fails(1, "no sample passes the filters", "long", run=run)
        fails(1, "no sample passes the filters", run=cprofd("convert", recording, "--window", "50,60", "-o", "a.json", cwd=work))
        fails(1, "no sample passes the filters", run=cprofd("report", recording, "--window", "50,60", cwd=work))
        expect(open(os.path.join(work, "a.json"), "rb").read() == before, "a good file was replaced by nothing")
        expect(not [name for name in os.listdir(work) if "none" in name], "an empty file is left", os.listdir(work))
        fails(2, "no format has the ending .xyz", ".folded", run=cprofd("convert", recording, "-o", "z.xyz", cwd=work))
        fails(0, "speedscope)", run=cprofd("convert", recording, "-o", "noending", cwd=work))
        run = cprofd("convert", recording, "-o", "none/z.svg", cwd=work)
        fails(1, "cannot be written", run=run)
        expect("sampled" not in run.err, "nothing is sampled here", run.err)
        fails(1, "cprofd report %s --by=" % recording, run=cprofd("convert", recording, "-o", "z.svg", "--class", "nonsense", cwd=work))
        fails(0, run=cprofd("convert", recording, "-f", "events", "-o", "x.json", cwd=work))
        with open(recording, "rb") as file:
            run = cprofd("convert", "-", "-f", "collapsed", "-o", "-", stdin=file)
        expect(run.returncode == 0 and "busy" in run.out, "stdin to stdout", run.err)
        data = open(recording, "rb").read()
        with open(os.path.join(work, "cut.cprof"), "wb") as file:
            file.write(data[:-2]) # within the checksum at the end: a short recording is one block, and half a block is nothing
        run = cprofd("convert", "cut.cprof", cwd=work)
        fails(0, "ends in the middle", run=run)
        with open(os.path.join(work, "bad.cprof"), "wb") as file:
            file.write(b"no recording at all\n")
        fails(1, "not a recording", run=cprofd("convert", "bad.cprof", cwd=work))
        fails(1, "cannot be read", run=cprofd("convert", "missing.cprof", cwd=work))
        fails(1, "no thread", run=cprofd("convert", "a.cprof", "--thread", "nosuch", "-o", "x.json", cwd=work))
        expect(not [f for f in os.listdir(work) if f.startswith(".")], "temporary files were left", os.listdir(work))


HIDES = """
import sys, time
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
def midway(seconds):
    spin(seconds)
    end = time.thread_time() + seconds
    while time.thread_time() < end: pass
def outer(seconds): midway(seconds)
outer(0.2)
spin(0.2)
import json, asyncio, unittest.mock, xml.dom.minidom
"""


def test_hidden_frames():
    """What is not shown is its caller's: each stack without these frames, and not a nanosecond less."""
    def stacks(name, *options):
        fails(0, run=cprofd("convert", "a.cprof", "-o", name, "--interpreter-frames", *options, cwd=work))
        sums = {}
        for line in open(os.path.join(work, name)):
            stack, weight = line.rsplit(" ", 1)
            sums[stack] = sums.get(stack, 0) + int(weight)
        return sums

    def without(all_of_them, hidden):
        sums = {}
        for stack, weight in all_of_them.items():
            kept = ";".join(frame for frame in stack.split(";") if not hidden(frame)) or "(hidden)"
            sums[kept] = sums.get(kept, 0) + weight
        return sums

    with folder() as work:
        fails(0, run=cprofd("record", "-o", "a.cprof", "--", PYTHON, "-B", "-c", HIDES, cwd=work))
        every = stacks("0.folded")
        expect(sum(every.values()) and any("importlib" in stack for stack in every), "imports are there", list(every)[:3])
        for patterns, hidden in ((("midway",), lambda f: f.startswith("midway ")), (("outer", "mid*"), lambda f: f.startswith(("outer ", "midway "))),
                                 (("*/asyncio/*",), lambda f: "/asyncio/" in f), (("spin", "time.*"), lambda f: f.startswith(("spin ", "time.")))):
            told = stacks("1.folded", *[word for p in patterns for word in ("--exclude", p)])
            want = without(every, hidden)
            # What is rounded to microseconds was rounded once for each stack.
            expect(set(told) == set(want) and all(abs(told[s] - want[s]) < 50 for s in told), "without " + str(patterns),
                   sorted(set(told) ^ set(want))[:4])
        told = stacks("2.folded", "--hide-imports")
        expect(not any("importlib" in stack for stack in told) and any(re.search(r"<module> \(<string>:\d+\);.*<module> .*/json/__init__.py", s) for s in told),
               "a module is below who imports it", list(told)[:3])
        expect(abs(sum(told.values()) - sum(every.values())) <= len(every), "no time is left out")
        for options in (("--hide-imports",), ("--exclude", "midway")):
            tables = json.loads(cprofd("report", "a.cprof", "--by=class,function", "--json", *options, cwd=work).out)
            plain = json.loads(cprofd("report", "a.cprof", "--by=class,function", "--json", cwd=work).out)
            expect(tables["tables"][0] == plain["tables"][0], "classes are as they were", tables["tables"][0], plain["tables"][0])
            expect(tables["tables"][1]["total_ns"] == plain["tables"][1]["total_ns"], "so is all of the time")
        rows = {row["name"]: row["inclusive_ns"] for row in tables["tables"][1]["rows"]}
        before = {row["name"]: row["inclusive_ns"] for row in plain["tables"][1]["rows"]}
        expect("midway" not in rows and rows["outer"] == before["outer"] > 0.3e9, "its caller's time", rows)
        for output in ("a.speedscope.json", "a.html", "a.svg"):
            fails(0, run=cprofd("convert", "a.cprof", "-o", output, "--exclude", "midway", "--hide-imports", cwd=work))
            text = re.sub(r'"filters":{[^}]*}', "", open(os.path.join(work, output)).read())
            expect("spin" in text and not re.search(r"[\">]midway\b", text), output)
        fails(1, "no function, module or file midwy (--exclude)", "midway", run=cprofd("report", "a.cprof", "--exclude", "midwy", cwd=work))
        fails(0, run=cprofd("record", "--hide-imports", "-o", "r.folded", "--", PYTHON, "-c", "import json", cwd=work))
        expect("importlib" not in open(os.path.join(work, "r.folded")).read(), "record hides them, too")


def test_open_in_a_browser():
    """What opens files for the calling user is given the file, with that user's rights, and is not waited for."""
    for env in (environment(), sudo(NOBODY)):
        with folder(int(env.get("SUDO_UID", 0))) as work, target() as process:
            opener = os.path.join(work, "bin", "xdg-open")
            os.mkdir(os.path.dirname(opener))
            with open(opener, "w") as file:
                file.write('#!/bin/sh\necho "$1 $(id -u)" > %s/asked.tmp; mv %s/asked.tmp %s/asked; sleep 3\n' % (work, work, work))
            os.chmod(opener, 0o755)
            env.update(PATH=os.path.dirname(opener) + ":" + env["PATH"], DISPLAY=":0")
            run = cprofd("attach", process.pid, "-d", "0.3", "--open", cwd=work, env=env)
            fails(0, ", html)", run=run)
            until(lambda: os.path.exists(work + "/asked"))
            expect(open(work + "/asked").read().split() == [os.path.realpath(only_file(work, ".html")), env.get("SUDO_UID", "0")],
                   "opened", open(work + "/asked").read())
            for key in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
                env.pop(key, None)
            fails(0, "the address is file://" + os.path.realpath(work) + "/b.svg", run=cprofd("attach", process.pid, "-d", "0.2", "--open", "-o", "b.svg", cwd=work, env=env))
            fails(2, "a browser shows no events", run=cprofd("attach", process.pid, "--open", "-o", "b.cprof", cwd=work, env=env))


def test_profiles_are_known_by_content():
    """A file that was made of a recording is known by what is in it, whatever its name is."""
    with folder() as work:
        fails(0, run=cprofd("record", "-o", "a.cprof", "--", PYTHON, "-c", "sum(range(3000000))", cwd=work))
        for format in ("speedscope", "svg", "html"):
            fails(0, run=cprofd("convert", "a.cprof", "-f", format, "-o", "a.bin", cwd=work))
            for command in (["report"], ["convert", "-f", "svg", "-o", "b"]):
                fails(1, "a.bin is a file of %s, made out of a recording" % format, "keep one with", run=cprofd(*command, "a.bin", cwd=work))


# --- baselines ---

def test_baselines():
    """Copies of complete recordings of one machine, whole or not at all; compared as diff compares them."""
    with folder() as work:
        for name, seconds in (("a", 1), ("b", 2)):
            fails(0, run=cprofd("record", "-o", name + ".cprof", "--", PYTHON, "-c", BUSY.replace("monotonic", "thread_time") + "busy(%d)" % seconds, cwd=work))
        lines = {name: cprofd("convert", name + ".cprof", "-f", "events", "-o", "-", cwd=work).out for name in ("a", "b")}
        model = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
        machine = "%s, %d CPUs" % (model, os.sysconf("SC_NPROCESSORS_ONLN"))
        expect(json.loads(lines["a"].splitlines()[1])["machine"] == machine, "the machine", lines["a"].splitlines()[1])
        with open(os.path.join(work, "other.cprof"), "w") as file:
            file.write(lines["b"].replace(json.dumps(machine, ensure_ascii=False), '"Z80, 1 CPUs"'))
        with open(os.path.join(work, "old.cprof"), "w") as file:
            file.write(lines["b"].replace(',"machine":' + json.dumps(machine, ensure_ascii=False), ""))
        with open(os.path.join(work, "cut.cprof"), "w") as file:
            file.write("".join(lines["b"].splitlines(True)[:-1]))

        def baseline(status, *args, says=(), env=None):
            run = cprofd("baseline", *args, cwd=work, env=env)
            fails(status, *says, run=run)
            hidden = [name for _, folders, _ in os.walk(work) for name in folders if name.startswith(".") and name != ".cprofd"]
            expect(not hidden, "temporary folders are left", hidden)
            return run

        store = os.path.join(work, ".cprofd", "baselines")
        baseline(0, "list", says=["there is no baseline"])
        baseline(1, "compare", "main", "a.cprof", says=["there is no baseline .cprofd/baselines/main", "baseline save"])
        for file, words in (("cut.cprof", "ends in the middle"), ("other.cprof", "of another machine (Z80, 1 CPUs)"), ("none.cprof", "cannot be read"), ("-", "is empty")):
            baseline(1, "save", "main", "a.cprof", file, says=[words])
        expect(not os.path.exists(store), "nothing was saved", os.listdir(work))
        for name in ("../main", ".main", "-main", "a/b", "", "a b", "..", "x" * 300):
            baseline(2, "save", "--", name, "a.cprof", says=["is no name"])
        for words in ((), ("save", "main"), ("compare", "main"), ("list", "x"), ("remove",), ("make", "main", "a.cprof"), ("save", "main", "a.cprof", "--any-machine"),
                      ("compare", "main", "a.cprof", "--force"), ("save", "main", "a.cprof", "--fail-on", "total>3%")):
            baseline(2, *words)
        baseline(0, "save", "main", "a.cprof", "b.cprof", says=["2 recordings", machine])
        for i, name in enumerate(("a", "b")):
            expect(open(os.path.join(store, "main", "%02d.cprof" % (i + 1)), "rb").read() == open(os.path.join(work, name + ".cprof"), "rb").read(), "a copy")
        listed = baseline(0, "list").out
        version = subprocess.run([PYTHON, "-c", "import platform; print(platform.python_version())"], stdout=subprocess.PIPE, text=True).stdout.strip()
        expect(all(word in listed for word in ("main ", "2 recordings", machine, "Python " + version, PYTHON)), "list", listed)

        options = ("--fail-on", "total>900%", "--json")
        diff = json.loads(cprofd("diff", "a.cprof", "b.cprof", "vs", "b.cprof", "a.cprof", *options, cwd=work).out)
        compared = json.loads(baseline(0, "compare", "main", "b.cprof", "a.cprof", *options).out)
        expect([row.pop("file") for row in compared["recordings"]][:2] == [".cprofd/baselines/main/0%d.cprof" % i for i in (1, 2)], "the first side")
        [row.pop("file") for row in diff["recordings"]]
        expect(compared == diff and {row["machine"] for row in diff["recordings"]} == {machine}, "it is diff")
        baseline(0, "save", "twice", "a.cprof", "a.cprof")
        cpu = [row["time_ns"] for row in diff["recordings"][:2]]
        growth = 100 * (cpu[1] / cpu[0] - 1)
        baseline(3, "compare", "twice", "b.cprof", "b.cprof", "--fail-on", "total>%.1f%%" % (growth - 1), says=["cprofd: grew: CPU time"])
        baseline(0, "compare", "twice", "b.cprof", "b.cprof", "--fail-on", "total>%.1f%%" % (growth + 1))

        for file, words in (("other.cprof", "(%s; Z80, 1 CPUs)" % machine), ("old.cprof", "(%s; not known)" % machine)):
            baseline(1, "compare", "main", file, says=[words, "--any-machine"])
            run = baseline(0, "compare", "main", file, "--any-machine")
            expect("Not all are of one machine" in run.out, "the text says so", run.out)
            expect("Not all recordings are of one machine" in baseline(0, "compare", "main", file, "--any-machine", "--markdown").out, "Markdown, too")
            expect("Not all are" in cprofd("diff", "a.cprof", file, cwd=work).out, "diff, too")
        expect("of one machine" not in cprofd("diff", "a.cprof", "b.cprof", cwd=work).out, "but not of one machine")

        baseline(1, "save", "main", "b.cprof", says=["--force"])
        expect(sorted(os.listdir(os.path.join(store, "main"))) == ["01.cprof", "02.cprof"], "it is as it was")
        baseline(0, "save", "main", "b.cprof", "--force", says=["1 recording,"])
        expect(os.listdir(os.path.join(store, "main")) == ["01.cprof"], "it is the new one", os.listdir(os.path.join(store, "main")))
        baseline(0, "save", "main", "a.cprof", "--dir", "there")
        baseline(0, "save", "main", "a.cprof", env=environment(CPROFD_BASELINES=os.path.join(work, "that", "place")))
        expect(os.path.exists(work + "/there/main/01.cprof") and os.path.exists(work + "/that/place/main/01.cprof"), "other places", os.listdir(work))
        with open(os.path.join(work, "that", "file"), "w"):
            pass
        baseline(1, "save", "main", "a.cprof", "--dir", "that/file", says=["could not be written", "--dir"])

        # What others keep there stays: a file, a link and what it points to, a folder with more in it.
        shutil.copytree(os.path.join(store, "main"), os.path.join(work, "kept"))
        os.symlink(os.path.join(work, "kept"), os.path.join(store, "link"))
        shutil.copytree(os.path.join(store, "main"), os.path.join(store, "mixed"))
        for name in (os.path.join(store, "mixed", "notes"), os.path.join(store, "file")):
            open(name, "w").close()
        for name in ("link", "mixed", "file"):
            baseline(1, "save", name, "a.cprof", "--force", says=["is more than recordings"])
            baseline(1, "remove", name, says=["is more than recordings"])
        expect(os.listdir(os.path.join(work, "kept")) == ["01.cprof"] and len(os.listdir(os.path.join(store, "mixed"))) == 2, "they are as they were")
        shutil.rmtree(os.path.join(store, "mixed"))
        for name in ("link", "file"):
            os.unlink(os.path.join(store, name))
        # What one that was killed has left is deleted by the next one.
        shutil.copytree(os.path.join(store, "main"), os.path.join(store, ".gone.1"))
        baseline(0, "save", "main", "b.cprof", "--force")

        # Many at once: each comes to its end, and who compares meanwhile has one of them and no half.
        both = [subprocess.Popen([CPROFD, "baseline", *args], cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                for _ in range(8) for args in (("save", "main", "--force", "a.cprof", "b.cprof"), ("compare", "main", "b.cprof"))]
        errors = [process.communicate()[1] for process in both]
        expect(not any(process.returncode for process in both), "all at once", errors)
        expect(sorted(os.listdir(os.path.join(store, "main"))) == ["01.cprof", "02.cprof"], "one of them")
        baseline(0, "remove", "main")
        expect(sorted(os.listdir(store)) == ["twice"], "removed", os.listdir(store))
        baseline(1, "remove", "main", says=["there is no baseline"])

    with folder(NOBODY) as work:
        fails(0, run=cprofd("record", "-o", "a.cprof", "--", PYTHON, "-c", "pass", cwd=work, env=sudo(NOBODY)))
        fails(0, run=cprofd("baseline", "save", "main", "a.cprof", cwd=work, env=sudo(NOBODY)))
        expect({os.stat(os.path.join(top, name)).st_uid for top, names, files in os.walk(work) for name in names + files} == {NOBODY}, "under sudo they are the user's")


# --- colours ---

def on_terminal(*args, **variables):
    """What it writes to a terminal, its stdout and stderr."""
    pid, fd = pty.fork()
    if not pid:
        os.execve(CPROFD, [CPROFD, *map(str, args)], {**environment(), "TERM": "xterm", **variables})
    data = b""
    with contextlib.suppress(OSError): # the other end is closed
        while chunk := os.read(fd, 65536):
            data += chunk
    os.waitpid(pid, 0)
    os.close(fd)
    return data.decode().replace("\r\n", "\n")


def test_progress_of_convert():
    """Who waits at a terminal sees how far it is; nobody else does."""
    with folder() as work:
        recording = os.path.join(work, "a\x1b[31m.cprof")
        subprocess.check_call([os.path.join(ROOT, "build/tests/tools/make_recording"), "-t", "2", "-s", "900", "-d", "40", "-o", recording], stdout=subprocess.DEVNULL)
        args = "convert", recording, "-f", "html", "-o", os.path.join(work, "a.html")
        shown = on_terminal(*args)
        shares = [(int(number or 1), int(n)) for n, number in re.findall(r"\r[^\r]*\.cprof: (\d+) % read(?:, pass (\d+))?\x1b\[K", shown)]
        expect(shares and shares == sorted(shares) and max(n for _, n in shares) <= 100, "how much was read", shown)
        expect("\x1b[31m" not in shown and "\r\x1b[Kcprofd: wrote " in shown, "a name is made safe, and the line is cleared", shown)
        expect("% read" not in on_terminal(*args, "--quiet") and "% read" not in cprofd(*args).err, "none where nobody waits")


def test_colours():
    """A terminal has colours, and what is below them is what a pipe gets; no pipe, file or terminal has them that is not to."""
    with folder() as work, target() as process:
        recording = os.path.join(work, "a.cprof")
        run = cprofd("attach", process.pid, "-d", "1", "-o", recording)
        expect("\x1b" not in run.err and "\x1b" not in run.out, "a summary in a pipe is plain", run.err)
        for args in ("report", recording), ("report", recording, "--tree"), ("diff", recording, recording, "--top", "3"):
            plain = cprofd(*args).out
            shown = on_terminal(*args)
            expect("\x1b[1m" in shown and re.sub("\x1b\\[[0-9]m", "", shown) == plain, "a terminal has colours, and the same text", args, shown)
            expect(on_terminal(*args, "--color=never") == plain == on_terminal(*args, NO_COLOR="1") == on_terminal(*args, TERM="dumb"),
                   "but not where they are forbidden", args)
            expect("\x1b" not in plain and cprofd(*args, "--color=always").out == shown, "a pipe has them when it is asked for", args)
        for args in ("report", "--json"), ("report", "--csv"), ("convert", "-f", "collapsed", "-o", "-"), ("convert", "-f", "svg", "-o", "-"):
            expect("\x1b" not in cprofd(*args, "--color=always", recording).out, "data has none", args)
        expect("\x1b[1mThread" in on_terminal("dump", process.pid), "dump has colours")
        expect("\x1b[31mcprofd: \x1b[0mno such process" in on_terminal("attach", 4194301), "a failure is red")
        fails(2, "auto, always, never", run=cprofd("report", "--color=green", recording))
