#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# run-live: beside
"""Symbols of real libraries: random addresses of their code, resolved by the symbols
stage, compared with elfutils (eu-addr2line -S), readelf, objdump and addr2line.

    tests/live/symbols.py [--addresses N] [FILE...]
"""
import argparse
import contextlib
import functools
import bisect
import glob
import io
import multiprocessing
import os
import random
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SYMBOLIZE = os.path.join(HERE, "../../build/tests/tools/symbolize")
LIBS = "/usr/lib/x86_64-linux-gnu/"
FILES = [LIBS + "libLLVM-14.so.1", LIBS + "libpython3.11.so.1.0", "/usr/bin/python3.11",
         LIBS + "libc.so.6", LIBS + "libm.so.6", LIBS + "libstdc++.so.6", LIBS + "libcrypto.so.3",
         LIBS + "libgcc_s.so.1", LIBS + "libzstd.so.1", "/lib64/ld-linux-x86-64.so.2"]
GLOBS = ["/usr/lib/python3/dist-packages/numpy/core/_multiarray_umath*.so",
         "/usr/lib/python3/dist-packages/numpy/linalg/*.so",
         "/usr/lib/python3/dist-packages/scipy/linalg/_f*.so",
         "/usr/lib/python3/dist-packages/scipy/sparse/_sparsetools*.so",
         "/usr/lib/python3/dist-packages/scipy/spatial/_ckdtree*.so",
         "/usr/lib/python3/dist-packages/llvmlite/binding/libllvmlite.so"]


def run(*command, stdin=None):
    return subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, errors="surrogateescape").stdout


def code_sections(path):
    """[(start, end, name)] of what is executable."""
    found = []
    for line in run("readelf", "-SW", path).splitlines():
        m = re.match(r"\s*\[\s*\d+\] (\S+)\s+\S+\s+([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+) [0-9a-f]+\s+"
                     r"([A-Za-z]*)", line)
        if m and "X" in m[4] and "A" in m[4]:
            found.append((int(m[2], 16), int(m[2], 16) + int(m[3], 16), m[1]))
    return found


def symbols(path):
    """{start: [(size, type, binding, name)]} of both tables, code only."""
    sections = code_sections(path)
    found = {}
    for line in run("readelf", "-sW", path).splitlines():
        f = line.split()
        if len(f) < 8 or not f[0].endswith(":") or f[6] in ("UND", "ABS"):
            continue
        if f[3] not in ("FUNC", "IFUNC", "NOTYPE"):
            continue
        start = int(f[1], 16)
        if not any(a <= start < b for a, b, _ in sections):
            continue
        name = f[7].split("@")[0]
        found.setdefault(start, set()).add((int(f[2], 0), f[3], f[4], name))
    return found


def debug_file(path):
    """Where Debian puts the separate debug file, if it is there."""
    m = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-nW", path))
    debug = m and "/usr/lib/debug/.build-id/%s/%s.debug" % (m[1][:2], m[1][2:])
    return debug if debug and os.path.exists(debug) else None


def innermost(starts, table, address):
    """The names of the sized symbol that holds the address and begins last."""
    i = bisect.bisect_right(starts, address)
    steps = 0
    while i and steps < 5000:
        i -= 1
        steps += 1
        names = {s[3] for s in table[starts[i]] if s[0] and starts[i] + s[0] > address}
        if names:
            return starts[i], names
    return None, set()


class Tally:
    passed = failed = skipped = 0

    def say(self, name, wrong, text):
        print("%s %s: %s" % ("FAILED" if wrong else "ok", name, text))
        if wrong:
            self.failed += 1
            for line in wrong[:10]:
                print("    " + line)
        else:
            self.passed += 1


def plt_truth(path):
    """{start: name} as objdump labels stubs."""
    found = {}
    for line in run("objdump", "-d", "-j", ".plt", "-j", ".plt.sec", "-j", ".plt.got", path).splitlines():
        m = re.match(r"([0-9a-f]+) <(.+)@plt>:", line)
        if m and not m[2].startswith("*ABS*"):
            found[int(m[1], 16)] = m[2].split("@")[0]
    return found


def frames_truth(path):
    """[(start, end)] of the entries of .eh_frame, as readelf reads them."""
    found = re.findall(r" FDE .*pc=([0-9a-f]+)\.\.([0-9a-f]+)", run("readelf", "--debug-dump=frames", path))
    return sorted({(int(start, 16), int(end, 16)) for start, end in found})


def nameless(path, asked, table):
    """What is wrong with functions that have no name; how many addresses had one, and how many none. asked: (address, fields of the
    answer) of all that are in no symbol."""
    frames, wrong, inside, alone = frames_truth(path), [], 0, 0
    starts = [start for start, _ in frames]
    for address, f in asked:
        i = bisect.bisect_right(starts, address) - 1
        start, end = frames[i] if i >= 0 and address < frames[i][1] else (0, 0)
        named = any(s[0] for s in table.get(start, ()))  # a symbol that is shorter than its function
        mine = (int(f[2], 16), int(f[2], 16) + int(f[3], 16)) if len(f) > 3 else (0, 0)
        inside += end > 0
        alone += not end
        if mine != (start, end) and not (named and mine == (0, 0)):
            wrong.append("%x: %x to %x, readelf has %x to %x" % (address, *mine, start, end))
    return wrong, inside, alone


def check(path, n, tally):
    rng = random.Random(path)
    sections = [s for s in code_sections(path) if not s[2].startswith(".plt")]
    table, headers = symbols(path), run("readelf", "-SW", path)
    debug = debug_file(path)
    if debug and not re.search(r"\.symtab", headers):
        for start, items in symbols(debug).items():
            table.setdefault(start, set()).update(items)
    starts = sorted(table)
    weights = [b - a for a, b, _ in sections]
    addresses = [rng.randrange(a, b) for a, b, _ in rng.choices(sections, weights, k=n)]
    # Edges are where mistakes are.
    for start in rng.sample(starts, min(n // 4, len(starts))):
        size = max(s[0] for s in table[start])
        addresses += [start, start + 1, start - 1, start + size - 1, start + size]
    addresses = [a for a in addresses if any(x <= a < y for x, y, _ in sections)]
    text = "".join("%x\n" % a for a in addresses)

    wrong, outside, extended, sized = [], 0, 0, 0
    ours, unnamed = [], []
    for address, line in zip(addresses, run(SYMBOLIZE, "find", path, stdin=text).splitlines()):
        f = line.split(" ", 4)
        if int(f[0], 16) != address:
            wrong.append("out of step: " + line)
            break
        start, names = innermost(starts, table, address)
        # What virtual tables tell is symbols_virtual.py's: here, that no symbol is there.
        if f[1] == "-" or f[3] == "vtable":
            outside += 1
            ours.append(None)
            if f[1] == "-":
                unnamed.append((address, line.split()))
            if names:
                wrong.append("%s, readelf has %s" % (line, names))
            continue
        ours.append((f[4], int(f[2], 16)))
        if f[3].endswith("+"):
            extended += 1
            # A label without size, and nothing with one around or between.
            at = int(f[1], 16)
            if names or f[4] not in {s[3] for s in table.get(at, ())}:
                wrong.append("%x: %s, readelf has %s" % (address, line, names))
            elif starts[bisect.bisect_right(starts, address) - 1] != at:
                wrong.append("%x: %s goes over another symbol" % (address, line))
            continue
        sized += 1
        if f[4] not in names or int(f[1], 16) != start or int(f[2], 16) != address - start:
            wrong.append("%x: %s, readelf has %s" % (address, line, names))
    if len(ours) != len(addresses):
        wrong.append("%d answers to %d addresses" % (len(ours), len(addresses)))
    tally.say(path + " readelf", wrong, "%d addresses: %d in symbols, %d in labels, %d outside"
              % (len(addresses), sized, extended, outside))

    if not debug and not re.search(r"\.symtab|\.gnu_debugdata", headers):
        wrong, inside, alone = nameless(path, unnamed, table)
        tally.say(path + " call frames", wrong, "%d addresses in functions without a name, %d in none" % (inside, alone))

    # elfutils: name+offset. It also goes on behind symbols without size where tables
    # are incomplete, which is not asked of it.
    wrong, same = [], 0
    theirs = run("eu-addr2line", "-S", "-e", path, stdin=text.replace("\n", "\n")).splitlines()[0::2]
    for address, mine, line in zip(addresses, ours, theirs):
        m = re.match(r"(.+?)(?:\+0x([0-9a-f]+))?$", line)
        name, offset = m[1].split("@")[0], int(m[2] or "0", 16)
        if mine and name not in ("??", "(null)"):
            aliases = {s[3] for s in table.get(address - mine[1], ())}
            if offset == mine[1] and name in aliases:
                same += 1
            else:
                wrong.append("%x: %s+%#x, elfutils %s" % (address, mine[0], mine[1], line))
        elif mine and aliases_sized(table, address, mine):
            wrong.append("%x: %s+%#x, elfutils %s" % (address, mine[0], mine[1], line))
    if same < sized // 2:
        wrong.append("only %d of %d could be compared" % (same, sized))
    tally.say(path + " elfutils", wrong, "%d the same" % same)

    truth = plt_truth(path)
    if truth:
        wrong = []
        text = "".join("%x\n" % (a + 2) for a in truth)
        for (start, name), line in zip(truth.items(), run(SYMBOLIZE, "find", path, stdin=text).splitlines()):
            f = line.split(" ", 4)
            if f[1] == "-" or f[4].split("@")[0] != name or not f[4].endswith("@plt") or int(f[1], 16) != start:
                wrong.append("%s, objdump has %x %s" % (line, start, name))
        tally.say(path + " plt", wrong, "%d stubs" % len(truth))


def aliases_sized(table, address, mine):
    start = address - mine[1]
    return any(s[0] > mine[1] for s in table.get(start, ()) if s[3] == mine[0])


def check_kernel(tally):
    lines = [l.split() for l in open("/proc/kallsyms")]
    text = sorted((int(l[0], 16), l) for l in lines if int(l[0], 16))
    code = [x for x in text if x[1][1] in "tTwW" and x[0] > 1 << 63]
    if not code:
        print("skip kallsyms: the kernel hides addresses")
        tally.skipped += 1
        return
    names = {}
    for address, l in code:
        names.setdefault(address, set()).add((l[2], l[3].strip("[]") if len(l) > 3 else ""))
    # BPF programs come and go while this runs.
    starts = sorted(a for a in names if not any(module == "bpf" for _, module in names[a]))
    every = sorted({x[0] for x in text})
    rng = random.Random(1)
    wrong, asked = [], []
    for start in rng.sample(starts, min(20000, len(starts))):
        i = bisect.bisect_right(every, start)
        end = every[i] if i < len(every) else start + 1
        asked.append((start, rng.randrange(start, min(end, start + 65536))))
        asked.append((start, min(end, start + 65536) - 1))
    out = run(SYMBOLIZE, "kallsyms", "/proc/kallsyms", stdin="".join("%x\n" % a for _, a in asked))
    for (start, address), line in zip(asked, out.splitlines()):
        f = line.split(" ")
        if f[1] == "-" or int(f[1], 16) != start or (f[2], f[3] if len(f) > 3 else "") not in names[start]:
            wrong.append("%s, kallsyms has %x %s" % (line, start, names[start]))
    if out.count("\n") != len(asked):
        wrong.append("answers are missing")
    tally.say("kallsyms", wrong, "%d addresses of %d functions" % (len(asked), len(starts)))


def check_names(tally):
    """Manglings of real libraries against c++filt."""
    names = set()
    for path in [LIBS + "libLLVM-14.so.1", LIBS + "libstdc++.so.6"]:
        found = sorted({s[3] for items in symbols(path).values() for s in items} - {""})
        names.update(random.Random(path).sample(found, min(8000, len(found))))
    names = sorted(n for n in names if len(n) < 8000)
    text = "\n".join(names) + "\n"
    wrong = []
    for name, mine, theirs in zip(names, run(SYMBOLIZE, "names", stdin=text).splitlines(),
                                  run("c++filt", "-i", stdin=text).splitlines()):
        if mine != theirs and len(theirs) < 16000:
            wrong.append("%s: %s, c++filt %s" % (name, mine, theirs))
    tally.say("c++filt", wrong, "%d names" % len(names))


def check_alone(addresses, path):
    """In a process of its own: what it said, and its counts."""
    tally, said = Tally(), io.StringIO()
    with contextlib.redirect_stdout(said):
        check(path, addresses, tally)
    return said.getvalue(), tally.passed, tally.failed, tally.skipped


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--addresses", type=int, default=4000)
    parser.add_argument("files", nargs="*")
    args = parser.parse_args()
    tally = Tally()
    files = args.files or FILES + [f for g in GLOBS for f in sorted(glob.glob(g))[:2]]
    there = [os.path.realpath(path) for path in files if os.path.exists(path)]
    with multiprocessing.Pool() as pool:
        for text, passed, failed, skipped in pool.imap(functools.partial(check_alone, args.addresses), there, 1):
            print(text, end="", flush=True)
            tally.passed, tally.failed, tally.skipped = tally.passed + passed, tally.failed + failed, tally.skipped + skipped
    for path in files:
        if not os.path.exists(path):
            print("skip %s: not there" % path)
            tally.skipped += 1
    if not args.files:
        check_kernel(tally)
        check_names(tally)
    print("%d passed, %d failed, %d skipped" % (tally.passed, tally.failed, tally.skipped))
    return tally.failed != 0


if __name__ == "__main__":
    sys.exit(main())
