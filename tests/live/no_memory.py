#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""An engine that runs out of memory, at any allocation: it does not crash, and its client does not wait forever. Needs root.

    no_memory.py [--first N] [--last N] [--step N] [--all]      from its N-th allocation on there is no memory"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

import freeze
from lib import CPROFD, ROOT
from lib.result import check, finish, skip

OPTIONS = (), ("-i",), ("--native=full",), ("--mode=wall", "-i", "--native=full")


def ends(daemon, target, options):
    """How its client ended; None: it did not."""
    client = daemon.attach(freeze.USER, target.pid, "-d", "0.1", *options, wait=False)
    try:
        client.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        client.kill()
        client.communicate()
        return None
    return client.returncode


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--first", type=int, default=500)
    parser.add_argument("--last", type=int, default=1000)
    parser.add_argument("--step", type=int, default=60)
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    if os.geteuid():
        skip("needs root")
        return finish()
    if arguments.all:
        arguments.first, arguments.last, arguments.step = 10, 6000, 20
    target = freeze.start(freeze.USER, freeze.BUSY)
    tries = range(arguments.first, arguments.last, arguments.step)
    crashes, waits, codes = [], [], set()
    try:
        with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
            os.chmod(folder, 0o755)
            shutil.copy(os.path.join(os.path.dirname(CPROFD), "cprofd-engine"), folder)
            library = os.path.join(folder, "no_memory.so")
            subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", library, os.path.join(ROOT, "tests/targets/no_memory.c")], check=True)
            for number, at in enumerate((*tries, 1 << 30)):
                with tempfile.TemporaryFile() as log:
                    daemon = freeze.Daemon(folder, log=log, env=dict(os.environ, LD_PRELOAD=library, FAIL_AT=str(at)))
                    try:
                        codes.add(code := ends(daemon, target, OPTIONS[number % len(OPTIONS)]))
                    finally:
                        daemon.end()
                    waits += [at] if code is None else []
                    log.seek(0)
                    crashes += [at] if b"crashed" in log.read() else []
    finally:
        freeze.stop(target)
    check(not crashes, "%d engines without memory: none crashes" % len(tries), crashes)
    check(not waits, "no client waits for one", waits)
    check({0, 1} <= codes, "some sessions get as far as their end, and some do not", codes)
    return finish()


if __name__ == "__main__":
    sys.exit(main())
