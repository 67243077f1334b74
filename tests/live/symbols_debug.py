#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# run-live: beside
"""Lines and separate debug files: a C++ program is compiled, and every address of it is
resolved and compared with llvm-symbolizer. Then its symbols are moved to where
debuggers look for them, one way after the other."""
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SYMBOLIZE = os.path.join(HERE, "../../build/tests/tools/symbolize")
SOURCE = r"""
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
#include <algorithm>
namespace shapes {
static inline __attribute__((always_inline)) int square(int x) { return x * x + rand(); }
static inline __attribute__((always_inline)) int cube(int x)
{
	return square(x) * x;
}
template <typename T> __attribute__((noinline)) T area(const std::vector<T> &v)
{
	T sum = 0;
	for (auto x : v)
		sum += cube(x) + square(x);
	return sum;
}
static __attribute__((noinline)) int local_one(int x) { return rand() + x; }
}
__attribute__((noinline, cold)) void unlikely_path(int n) { printf("%d\n", n); abort(); }
int main(int argc, char **argv)
{
	std::vector<int> v;
	for (int i = 0; i < argc; i++)
		v.push_back(shapes::local_one(i));
	std::sort(v.begin(), v.end());
	if (argc > 9)
		unlikely_path(argc);
	return shapes::area(v) & 1;
}
"""
passed = failed = skipped = 0


def run(*command, stdin=None, env=None, check=True):
    r = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    if check and r.returncode:
        raise SystemExit("%s: %s" % (" ".join(command), r.stderr))
    return r.stdout


def say(name, wrong, text):
    global passed, failed
    print("%s %s: %s" % ("FAILED" if wrong else "ok", name, text))
    for line in wrong[:10]:
        print("    " + line)
    passed, failed = passed + (not wrong), failed + bool(wrong)


def addresses(path):
    found = []
    for line in run("objdump", "-d", "-j", ".text", path).splitlines():
        m = re.match(r"\s+([0-9a-f]+):\t", line)
        if m:
            found.append(int(m[1], 16))
    return sorted(set(found))


def some(path, n):
    """Random addresses in functions, large ones more often."""
    found = [line.split() for line in run("nm", "-S", "--defined-only", path).splitlines()]
    sizes = [(int(w[0], 16), int(w[1], 16)) for w in found if len(w) == 4 and w[2] in "tTwWiI"]
    picked = random.Random(1).choices(sizes, weights=[size for _, size in sizes], k=n)
    return sorted({start + random.Random(start).randrange(size) for start, size in picked if size})


def build_id_file(path):
    wanted = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", path))
    return wanted and "/usr/lib/debug/.build-id/%s/%s.debug" % (wanted[1][:2], wanted[1][2:]) or path


def truth(path, asked):
    """[[(function, file, line)]] by llvm-symbolizer, innermost first. (GNU addr2line 2.40 leaves
    inlined functions of clang out, and names some as the function around them.)"""
    text = "".join("0x%x\n" % a for a in asked)
    groups = []
    for line in run("llvm-symbolizer", "--obj=" + path, "--inlines", "--functions=linkage", "--no-demangle",
                    "--output-style=JSON", stdin=text).splitlines():
        groups.append([(x["FunctionName"], os.path.basename(x["FileName"]), x["Line"])
                       for x in json.loads(line)["Symbol"]])
    return groups


def ours(path, asked, env=None):
    """[(file, line)], None where nothing is known."""
    found = []
    for line in run(SYMBOLIZE, "lines", path, stdin="".join("%x\n" % a for a in asked), env=env).splitlines():
        rest = line.split(" ", 1)[1]
        name, number = rest.rsplit(":", 2)[:2] if rest != "-" else (None, None)
        found.append(name and (os.path.basename(name), int(number)))
    return found


def compare(name, path, reference, asked):
    """What is told is the line in the function that the symbol names: of inlined code, the outermost call."""
    wrong, deep = [], 0
    theirs_all = truth(reference, asked)
    if len(theirs_all) != len(asked):
        wrong.append("llvm-symbolizer gave %d answers to %d" % (len(theirs_all), len(asked)))
    for a, mine, theirs in zip(asked, ours(path, asked), theirs_all):
        if not mine and (not theirs or theirs[-1][2] == 0):
            continue # no debug information: it names the symbol
        deep += len(theirs) > 1
        if not mine or mine != theirs[-1][1:]:
            wrong.append("%x: %s, llvm-symbolizer %s" % (a, mine, theirs))
    say(name, wrong, "%d addresses, %d in inlined functions" % (len(asked), deep))


def names(path, asked, env=None):
    out = run(SYMBOLIZE, "find", path, stdin="".join("%x\n" % a for a in asked), env=env)
    return [line.split(" ", 4)[3:] if " - " not in line else [] for line in out.splitlines()]


def main():
    global skipped
    work = tempfile.mkdtemp()
    whole, bare = work + "/whole", work + "/bare"
    open(work + "/shapes.cc", "w").write(SOURCE)
    variants = [("gcc dwarf5", "g++", "-gdwarf-5"), ("gcc dwarf4", "g++", "-gdwarf-4"), ("gcc dwarf3", "g++", "-gdwarf-3"),
                ("gcc dwarf2", "g++", "-gdwarf-2"), ("clang dwarf4", "clang++", "-gdwarf-4"),
                ("gcc compressed", "g++", "-gz"), ("clang", "clang++", "-gdwarf-5")]
    for name, compiler, flag in variants:
        if not shutil.which(compiler):
            print("skip %s: not there" % compiler)
            skipped += 1
            continue
        run(compiler, "-O2", "-g", flag, "-o", whole, work + "/shapes.cc")
        compare("lines, " + name, whole, whole, addresses(whole))

    for path in [build_id_file(p) for p in ("/usr/bin/python3.11", "/lib/x86_64-linux-gnu/libc.so.6")] + [SYMBOLIZE]:
        if not os.path.exists(path):
            continue  # packages of debug information, which no other test needs
        compare("lines, " + os.path.basename(path), path, path, some(path, 1000))

    run("g++", "-O2", "-g", "-Wl,--build-id", "-o", whole, work + "/shapes.cc")
    asked = addresses(whole)
    local = [int(l.split()[0], 16) + 1 for l in run("nm", whole).splitlines() if "local_one" in l][0]
    expected = [x[1] if len(x) > 1 else "" for x in names(whole, asked)]

    def moved(name, source, env=None, lines=True):
        got = [x[1] if len(x) > 1 else "" for x in names(bare, asked, env)]
        found = names(bare, [local], env)[0]
        wrong = ["%x: %s, before %s" % t for t in zip(asked, got, expected) if t[1] != t[2]]
        if found[0].rstrip("+") != source:
            wrong.append("%s instead of %s" % (found, source))
        say(name, wrong, "%d addresses" % len(asked))
        if lines:
            compare(name + ", lines", bare, whole, asked)

    def strip(*more):
        shutil.copy(whole, bare)
        run("strip", *more, bare)

    # .gnu_debuglink: beside, in .debug/; with the build-id, and with the CRC alone.
    for flags in ([], ["--remove-section=.note.gnu.build-id"]):
        run("objcopy", *flags, whole, whole + ".tmp")
        for place in ("bare.debug", ".debug/bare.debug"):
            debug = os.path.join(work, place)
            os.makedirs(os.path.dirname(debug), exist_ok=True)
            run("objcopy", "--only-keep-debug", whole + ".tmp", debug)
            shutil.copy(whole + ".tmp", bare)
            run("strip", bare)
            run("objcopy", "--add-gnu-debuglink=" + debug, bare)
            moved("debuglink %s %s" % (place, "by CRC" if flags else "by build-id"), "debug-file")
            # Another file of that name is refused.
            shutil.copy("/bin/true", debug)
            got = names(bare, [local])[0]
            say("a wrong debug file", [str(got)] if got else [], "is not taken")
            os.unlink(debug)

    # By build-id below /usr/lib/debug.
    build_id = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", whole))[1]
    place = "/usr/lib/debug/.build-id/%s/%s.debug" % (build_id[:2], build_id[2:])
    try:
        made = not os.path.isdir(os.path.dirname(place))
        os.makedirs(os.path.dirname(place), exist_ok=True)
        run("objcopy", "--only-keep-debug", whole, place)
        strip()
        moved("build-id", "debug-file")
        os.unlink(place)
        if made:
            os.rmdir(os.path.dirname(place))
    except PermissionError:
        print("skip build-id: /usr/lib/debug is root's")
        skipped += 1

    # debuginfod: a server is a folder here.
    os.makedirs(os.path.join(work, "server/buildid", build_id))
    run("objcopy", "--only-keep-debug", whole, os.path.join(work, "server/buildid", build_id, "debuginfo"))
    strip()
    env = dict(os.environ, DEBUGINFOD_URLS="file://" + work + "/server", DEBUGINFOD_CACHE_PATH=work + "/cache")
    out = run(SYMBOLIZE, "debuginfod", bare, stdin="%x\n" % local, env=env, check=False)
    if "no libdebuginfod" in out:
        print("skip debuginfod: there is no libdebuginfod")
        skipped += 1
    else:
        say("debuginfod", [] if "debug-file" in out and "local_one" in out else [out], out.strip())
    env["DEBUGINFOD_URLS"] = ""
    out = run(SYMBOLIZE, "debuginfod", bare, stdin="%x\n" % local, env=env, check=False)
    say("debuginfod without servers", [] if "not asked" in out else [out], out.strip())

    # .gnu_debugdata, made as Fedora's find-debuginfo does.
    strip()
    dynamic = {l.split()[-1].split("@")[0] for l in run("nm", "-D", whole, "--defined-only").splitlines()}
    keep = {l.split()[2] for l in run("nm", whole, "--defined-only").splitlines() if l.split()[1] in "tTwW"}
    open(work + "/keep", "w").write("\n".join(sorted(keep - dynamic)))
    run("objcopy", "--only-keep-debug", whole, work + "/mini")
    run("objcopy", "-S", "--remove-section", ".gdb_index", "--remove-section", ".comment",
        "--keep-symbols=" + work + "/keep", work + "/mini")
    run("xz", "-f", work + "/mini")
    run("objcopy", "--add-section", ".gnu_debugdata=" + work + "/mini.xz", bare)
    got = [x for x in names(bare, [local])][0]
    say("debugdata", [] if got[:1] == ["debugdata"] and "local_one" in got[1] else [str(got)], str(got))

    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    shutil.rmtree(work)
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
