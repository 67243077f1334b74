#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""First inputs for fuzz targets whose formats no fuzzer comes upon by chance: small ELF files as gcc makes them, packed debug data, rules, maps.

    seeds.py FOLDER    FOLDER/fuzz_x/seed-..."""
import glob
import lzma
import os
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
SOURCE = """
typedef struct { const char *name; void *meth; int flags; const char *doc; } PyMethodDef;
static void *len(void *self, void *x) { return x ? self : x; }
static void *sort(void *self, void *x) { return self ? x : self; }
PyMethodDef methods[] = {{"len", len, 8, "len()"}, {"sort", sort, 8, "sort()"}, {0, 0, 0, 0}};
static inline int twice(int x) { return x * 2; }
int _PyEval_EvalFrameDefault(int x, char **v) { switch (x) { case 1: return twice(x); case 2: return v[0][0]; case 3: return v[1][2]; case 4: return 9; } return twice(x + 1); }
struct { int a; long b; } __jit_debug_descriptor = {1, 2};
unsigned long Py_Version = 0x030c01f0;
char _PyRuntime[64] = "xdebugpy3.13.1 (main)";
int PyCode_Type = 3;
int main(int argc, char **argv) { return _PyEval_EvalFrameDefault(argc, argv) + (int)(long)len(argv, argv); }
"""
ELF = {"symbols": b"", "eval_ranges": b"", "callables": b"", "jit_image": b"", "jit_descriptor": b"", "elf_dynamic": b"", "segments": b"",
       "unwind_elf": b"\1", "relocate": b"\0" * 8}
BUILDS = {"object": ["-c", "-g", "-O1"], "shared": ["-shared", "-fPIC", "-O1"], "packed": ["-c", "-g", "-O0", "-gz"], "static": ["-c", "-O2", "-ffunction-sections"],
          "dwarf4": ["-c", "-g", "-gdwarf-4", "-O2"], "program": ["-pie", "-O2", "-Wl,--build-id"]}


def put(folder, target, name, data):
    where = os.path.join(folder, "fuzz_" + target)
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, "seed-" + name), "wb") as file:
        file.write(data)


def elf_files(folder):
    with tempfile.TemporaryDirectory() as work:
        source = os.path.join(work, "seed.c")
        with open(source, "w") as file:
            file.write(SOURCE)
        for name, flags in BUILDS.items():
            path = os.path.join(work, name)
            subprocess.run(["gcc", "-w", *flags, "-o", path, source], check=True)
            with open(path, "rb") as file:
                data = file.read()
            for target, head in ELF.items():
                put(folder, target, name, head + data)
            put(folder, "debugdata", name, lzma.compress(data))
            if name == "shared":
                put(folder, "data_scan", name, data)
                put(folder, "version", name, b"\0" * 9 + b"3.12.1 (main, Jan  1 2024, 00:00:00) [GCC 12.2.0]\0")


def sources(folder):
    for name, data in {"lines": b"\0\1# one\rdef f(x):\r\n\treturn '\x1b[1m'\n\n# five\xff\n", "wide": "\0\0# ".encode() + "é漢".encode() * 300, "cut": b"\5\5a\r"}.items():
        put(folder, "annotate", name, data)


def answers(folder):
    for name, data in {"partial": b"\x0a\x09\x08\xac\x02\x12\x04late", "long": b"\x0a\xb3\x01\x08\x05\x12\xae\x01" + b"x" * 174,
                       "less": b"\x0a\x0b\x08" + b"\xff" * 9 + b"\x01", "page": b"<html></html>"}.items():
        put(folder, "push_answer", name, data)


def texts(folder):
    for path in glob.glob(os.path.join(ROOT, "rules/*.rules")):
        with open(path, "rb") as file:
            put(folder, "rules", os.path.basename(path), file.read() + b"\n%\nllvm::FPPassManager::runOnFunction(llvm::Function&)\ncompile_extra\n")
    with open("/proc/self/maps", "rb") as file:
        put(folder, "maps", "self", file.read(4096))
    put(folder, "kallsyms", "few", b"ffffffff81000000 T _stext\nffffffff81000100 t do_one_initcall\nffffffffc0000000 t init\t[ext4]\n")
    for i, name in enumerate((b"_ZN4llvm13FPPassManager13runOnFunctionERNS_8FunctionE", b"_RNvC6_123foo3bar",
                              b"_ZN8__main__3fooB2v1B38c8tJTIcFKzyF2ILShI4CrgQElQb6HczSBAA_3dE5ArrayIdLi2E1C7mutable7alignedE")):
        put(folder, "symbol_names", str(i), name)
    put(folder, "jit_perf_map", "few", b"\0" + b"7f0000001000 20 jit_add\n7f0000001020 40 py::f:/a.py\n")
    put(folder, "hlo", "few", b"HloModule jit_f\n\nfused (p: f32[2]) -> f32[2] {\n  %p = f32[2]{0} parameter(0)\n  ROOT %a = f32[2]{0} add(%p, %p), metadata={op_name=\"jit(f)/add\" source_file=\"a.py\" source_line=3}\n}\n\nENTRY main {\n  %x = f32[2]{0} parameter(0)\n  ROOT %fusion = f32[2]{0} fusion(%x), kind=kLoop, calls=fused\n}\n")


def recordings(folder):
    """What the corpus has of fuzz_recording is lines after two bytes."""
    for path in glob.glob(os.path.join(ROOT, "tests/fuzz/corpus/fuzz_recording/*")):
        with open(path, "rb") as file:
            data = file.read()[2:]
        put(folder, "events", os.path.basename(path), data)
        put(folder, "report", os.path.basename(path), b"\0" + data)


def main():
    folder = sys.argv[1]
    elf_files(folder)
    texts(folder)
    answers(folder)
    sources(folder)
    recordings(folder)


if __name__ == "__main__":
    main()
