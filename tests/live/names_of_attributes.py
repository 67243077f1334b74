#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""As names_of_texts.py, of a compiler that names what it does by attributes of objects that are made for the call
(tests/targets/compile_attributes.py). Needs root.

    names_of_attributes.py [--compiles N] [--long] [--modes cpu,wall] [PYTHON ...]"""
import os
import re
import sys

from lib import ROOT
from names_of_texts import main

RULE = "%s\n    file */targets/compile_attributes.py\n    function %s\n    name %s\n"
RULES = "compiler mine\n" + "".join(RULE % rule for rule in (
    ("unit", "build", "kernel.name"), ("unit", "needed", "kernel.absent | kernel.name"), ("phase", "analyse", "holder.inner.name"),
    ("phase", "lower", "holder.kernel.name"), ("pass", "polish", "kernel.name")))

if __name__ == "__main__":
    sys.exit(main(os.path.join(ROOT, "tests/targets/compile_attributes.py"), RULES, 2, 0.05, re.compile(r"/3\.(8|13)\.\d+/"), long=False))
