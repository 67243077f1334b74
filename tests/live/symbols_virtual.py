#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# run-live: beside
"""Names of virtual functions in stripped libraries: C++ libraries are made, with classes of each kind, and stripped. What is told
by their virtual tables must be what the symbol table said, to the letter, and nothing else.

    tests/live/symbols_virtual.py [UNSTRIPPED STRIPPED]    the same of a library at hand
"""
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from lib import ROOT
from lib.result import check, finish

SYMBOLIZE = os.path.join(ROOT, "build/tests/tools/symbolize")
# What others see: bases with methods that are pure or are not, and a class of each that has symbols.
COMMON = """
#include <string>
#include <vector>
namespace lib {
struct Thing { int n; };
struct Base { virtual ~Base(); virtual int run(Thing &t); virtual bool visit(Thing *t, const std::string &s) const = 0;
              virtual Base *clone() const = 0; virtual int operator()(int x) { return x * n + 3; } int n = 1; };
struct Other { virtual ~Other(); virtual double other(double x, std::vector<Thing> &v); };
template <typename T> struct Holder : Base { virtual T get(T x) const; bool visit(Thing *t, const std::string &s) const override; };
struct Seen : Base { int run(Thing &t) override; bool visit(Thing *t, const std::string &s) const override; Seen *clone() const override; int operator()(int x) override; };
struct SeenHolder : Holder<int> { int get(int x) const override; SeenHolder *clone() const override; };
struct SeenBoth : Base, Other { double other(double x, std::vector<Thing> &v) override; bool visit(Thing *t, const std::string &s) const override; Base *clone() const override; };
int Base::run(Thing &t) { return t.n + n; }
Base::~Base() { n = 0; }
Other::~Other() {}
double Other::other(double x, std::vector<Thing> &v) { return x + v.size(); }
template <typename T> T Holder<T>::get(T x) const { return x + n; }
template <typename T> bool Holder<T>::visit(Thing *t, const std::string &s) const { return t->n == (int)s.size() + sizeof(T); }
template struct Holder<int>; template struct Holder<long>;
int Seen::run(Thing &t) { return t.n * 17 + n; }
bool Seen::visit(Thing *t, const std::string &s) const { return t->n > (int)s.size() + 4; }
Seen *Seen::clone() const { return new Seen(*this); }
int Seen::operator()(int x) { return x + 99; }
int SeenHolder::get(int x) const { return x * 5 - n; }
SeenHolder *SeenHolder::clone() const { return new SeenHolder(*this); }
double SeenBoth::other(double x, std::vector<Thing> &v) { return x * v.size() - 7; }
bool SeenBoth::visit(Thing *t, const std::string &s) const { return t->n < (int)s.size() - 9; }
Base *SeenBoth::clone() const { return new SeenBoth(*this); }
}
extern "C" lib::Base *make(int which);
"""
# Methods that a class may have: all that its base has, some, or none but the pure ones. {i} makes their code differ.
METHODS = {
    "run": "int run(lib::Thing &t) override {{ return t.n * {i} + n; }}",
    "visit": "bool visit(lib::Thing *t, const std::string &s) const override {{ return t->n + {i} == (int)s.size() * n; }}",
    "clone": "{c} *clone() const override {{ {c} *c = new {c}(*this); c->n += {i}; return c; }}",
    "call": "int operator()(int x) override {{ return x * {i} - n; }}",
    "dtor": "~{c}() {{ n = {i}; }}",
    "own": "virtual long own{i}(long x) {{ return x * {i} + n; }}",
    "get": "int get(int x) const override {{ return x - {i} * n; }}",
    "other": "double other(double x, std::vector<lib::Thing> &v) override {{ return x * {i} + v.size(); }}",
}


def run(*command, stdin=None):
    r = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if r.returncode:
        raise SystemExit("%s: %s" % (" ".join(command), r.stderr))
    return r.stdout


def source(rng):
    """Classes of anonymous, named and function-local namespaces, in chains and with two bases."""
    parts, made = [COMMON], []
    for i in range(1, 60):
        name = "Class%d" % i
        base = rng.choice(["lib::Base", "lib::Base", "lib::Holder<int>", "lib::Seen", "lib::SeenHolder", "both"] + made[-3:])
        root = "lib::Base, lib::Other" if base == "both" else base
        has = set(rng.sample(["run", "call", "dtor", "own"], rng.randint(0, 4))) | {"visit", "clone"}
        if "Holder" in base:
            has.add("get")
        if base == "both":
            has.add("other")
        body = "\n".join("    " + METHODS[m].format(i=i, c=name) for m in sorted(has))
        where = rng.choice(["namespace {", "namespace {", "namespace inner { namespace {", "namespace inner {"])
        qualified = ("inner::" if "inner" in where else "") + name
        parts.append("%s\nstruct %s%s : %s {\n%s\n};\n%s" % (where, name, rng.choice(["", " final"]) if base == "both" else "", root, body,
                                                           "}" * where.count("{")))
        if base != "both":
            made.append(qualified)
        parts.append("lib::Base *make_%d() { return new %s; }" % (i, qualified))
    parts.append("lib::Base *make(int which) {\n  struct Local : lib::Base { bool visit(lib::Thing *t, const std::string &) const override { return t->n == 12345; }"
                 " lib::Base *clone() const override { return 0; } };\n  switch (which) {")
    parts += ["  case %d: return make_%d();" % (i, i) for i in range(1, 60)]
    parts.append("  }\n  return new Local;\n}")
    return "\n".join(parts)


def functions(path):
    """{address: names}, as nm says, in the words of c++filt."""
    found = {}
    for line in run("nm", "-C", path).splitlines():
        m = re.match(r"([0-9a-f]{16}) [tTwWiVu] (.*)$", line)
        if m:
            found.setdefault(int(m[1], 16), set()).add(m[2])
    return found


def compare(whole, stripped):
    """How many were told of how many virtual functions without a symbol; what was told otherwise."""
    true = functions(whole)
    told, wrong = 0, []
    for line in run(SYMBOLIZE, "find", stripped, "--no-debug", stdin="".join("%x\n" % a for a in true)).splitlines():
        f = line.split(" ", 4)
        if len(f) < 5 or f[3] != "vtable":
            continue
        told += 1
        if int(f[1], 16) not in true or f[4] not in true[int(f[1], 16)]:
            wrong.append("%s, nm: %s" % (line, sorted(true.get(int(f[0], 16), []))))
    return told, wrong


def case_made(work):
    for name, command in (("gcc", ["g++", "-O2"]), ("gcc -O0", ["g++", "-O0"]), ("clang", ["clang++", "-O2"]),
                          ("gcc, packed relocations", ["g++", "-O2", "-Wl,-z,pack-relative-relocs"]),
                          ("gcc, bound symbols", ["g++", "-O1", "-Wl,-Bsymbolic-functions"])):
        rng = random.Random(name)
        path, whole, stripped = (os.path.join(work, x) for x in ("lib.cc", "whole.so", "stripped.so"))
        text = source(rng)
        open(path, "w").write(text)
        run(*command, "-std=c++17", "-shared", "-fPIC", "-o", whole, path)
        shutil.copy(whole, stripped)
        run("strip", stripped)
        told, wrong = compare(whole, stripped)
        dynamic = {int(x.split()[0], 16) for x in run("nm", "-D", "--defined-only", stripped).splitlines()}
        hidden = sum(bool(re.search(r"anonymous namespace.*::(run|visit|clone|operator\(\)|get)\(", " ".join(names))) and a not in dynamic
                     for a, names in functions(whole).items())
        check(not wrong, name + ": all as nm says", *wrong[:5])
        check(told >= 0.9 * hidden and hidden > 60, "%s: %d told, of %d methods of anonymous classes" % (name, told, hidden))


def case_damaged(work):
    """Bytes of the tables are anything: no crash, no hang, and no name that was in no class."""
    path, whole = os.path.join(work, "lib.cc"), os.path.join(work, "whole.so")
    open(path, "w").write(source(random.Random(7)))
    run("g++", "-O1", "-std=c++17", "-shared", "-fPIC", "-s", "-o", whole, path)
    sections = {m[1]: (int(m[2], 16), int(m[3], 16)) for m in
                re.finditer(r"\] (\.\S+) +\S+ +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+)", run("readelf", "-SW", whole))}
    data, rng, died = open(whole, "rb").read(), random.Random(8), []
    for i in range(60):
        bad = bytearray(data)
        at, size = sections[rng.choice([".rela.dyn", ".data.rel.ro", ".dynsym", ".dynstr", ".eh_frame_hdr", ".eh_frame", ".rodata"])]
        for _ in range(rng.choice([1, 20, 400])):
            bad[at + rng.randrange(size)] = rng.choice([0, 255, rng.randrange(256)])
        name = os.path.join(work, "bad.so")
        open(name, "wb").write(bad)
        r = subprocess.run([SYMBOLIZE, "find", name, "--no-debug"], input="".join("%x\n" % x for x in range(0x4000, 0x14000, 64)),
                           capture_output=True, text=True, errors="replace", timeout=60)
        if r.returncode not in (0, 1):
            died.append((i, r.returncode))
    check(not died, "60 damaged libraries", died)


if len(sys.argv) == 3:
    told, wrong = compare(*sys.argv[1:])
    check(not wrong and told, "%d told" % told, *wrong[:20])
else:
    for case in (case_made, case_damaged):
        with tempfile.TemporaryDirectory() as folder:
            case(folder)
sys.exit(finish())
