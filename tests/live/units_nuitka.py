#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Modules that Nuitka optimises and makes into C, as cprofd reports them, against Nuitka's own report.

    tests/live/units_nuitka.py --python FILE            an interpreter that has nuitka 4

Each module by name, as often as Nuitka passed over it; its CPU time, which is what the report has, within a point of all of it. Needs root; without
--python nothing is done.
"""
import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from units_told import CPROFD, ROOT, finish, verdict  # noqa: E402

MODULES = "argparse configparser csv difflib fractions json.decoder json.encoder textwrap".split()
FIND = "import importlib, sys; print('\\n'.join(importlib.import_module(x).__file__ for x in sys.argv[1:]))"


def account_of(path):
    """{(module, part): [CPU seconds, times]} of the report."""
    found = collections.defaultdict(lambda: [0, 0])
    root = xml.etree.ElementTree.parse(path).getroot()
    for module in root.iter("module"):
        for tag, part in (("optimization-time", "optimize"), ("code-generation-time", "C")):
            for row in module.iter(tag):
                found[module.get("name"), part][0] += float(row.get("time"))
                found[module.get("name"), part][1] += 1
    return root.get("nuitka_version"), found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python")
    options = parser.parse_args()
    options.python = options.python and os.path.abspath(options.python) # what runs it has another directory
    if not options.python:
        print("skipped: --python says which interpreter has Nuitka\n0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        package, recording = os.path.join(folder, "package"), os.path.join(folder, "out.cprof")
        os.mkdir(package)
        open(os.path.join(package, "__init__.py"), "w").close()
        for path in subprocess.run([options.python, "-c", FIND] + MODULES, stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout.split():
            shutil.copy(path, package)
        done = subprocess.run([CPROFD, "record", "--mode=wall", "-o", recording, "--", options.python, "-m", "nuitka", "--mode=package",
                               "--generate-c-only", "--report=report.xml", "package"],
                              cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        if done.returncode:
            verdict("Nuitka runs", done.stdout[-1000:])
            return finish()
        version, true = account_of(os.path.join(folder, "report.xml"))
        table = subprocess.run([CPROFD, "report", recording, "--by=unit", "--json"], stdout=subprocess.PIPE, check=True, universal_newlines=True).stdout
    rows = [row for row in json.loads(table)["tables"][0]["rows"] if row["compiler"] == "Nuitka"]
    told = {(row["name"], row["signature"]): [row["cpu_ns"] / 1e9, row["calls"]] for row in rows}
    label, whole = "Nuitka %s: " % version, sum(row[0] for row in true.values())
    modules = {name for name, _ in true}  # the first parse is over before the sampler was told which local to give
    strange = [key for key, row in told.items() if row[0] > 0.005 and (key[0] not in modules or key not in true and key[1] != "parse")]
    missed = [key for key, row in true.items() if row[0] > 0.005 and key not in told]
    verdict(label + "%d modules, in %d parts, by name" % (len(modules), len(true)),
            "missed %s, strange %s" % (missed, strange) if missed or strange else None)
    far = ["%s(%s) %.3f s told %.3f s" % (*key, row[0], told.get(key, [0])[0]) for key, row in true.items()
           if abs(row[0] - told.get(key, [0])[0]) > 0.01 * whole]
    verdict(label + "CPU time of each within a point of %.1f s" % whole, "; ".join(far),
            "the furthest is %.2f off" % max(100 * abs(row[0] - told.get(key, [0])[0]) / whole for key, row in true.items()))
    often = ["%s(%s) %d told %d" % (*key, row[1], told[key][1]) for key, row in true.items() if key in told and row[0] > 0.1 and row[1] != told[key][1]]
    verdict(label + "each as often as it was at work on it", "; ".join(often))
    return finish()


sys.exit(main())
