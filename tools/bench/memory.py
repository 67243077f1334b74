#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Where cprofd's memory is, attached to a compiler: PSS of its processes and memlock of their BPF maps, by part.

    memory.py [--seconds S] [--rate HZ] [--native HOW] [--debug FOLDER] [--parts] TARGET [ARGUMENTS]

TARGET: a Python script that prints "ready"; --python says what runs it. --debug: a folder that stands for
/usr/lib/debug in the target's mount namespace. Looked at every 0.2 s: the largest sum, and the last; --parts: of the
process that holds most, at its largest, what the memory is of.
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import time

from bench import CPROFD, maps_of, pss_of, tree


def kinds(pid):
    """PSS by kind of mapping, MB."""
    found, kind = collections.Counter(), ""
    try:
        lines = open("/proc/%d/smaps" % pid).read().splitlines()
    except OSError:
        return found
    for line in lines:
        m = re.match(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ \d+\s*(.*)", line)
        if m:
            name = m[2]
            kind = ("anonymous" if not name else name if name[0] == "[" or name.startswith("anon_inode") else
                    "files, written to" if "w" in m[1] else "file " + os.path.basename(name))
        m = re.match(r"Pss:\s+(\d+)", line)
        if m:
            found[kind] += int(m[1]) / 1024
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--seconds", type=float, default=12)
    parser.add_argument("--rate", default="999")
    parser.add_argument("--native", default="full")
    parser.add_argument("--debug")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("target")
    parser.add_argument("arguments", nargs="*")
    args = parser.parse_args()
    command = [args.python, args.target] + args.arguments
    if args.debug:
        command = ["unshare", "-m", "sh", "-ec", 'mount --bind "$0" /usr/lib/debug; exec "$@"', args.debug] + command
    target = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    work = tempfile.TemporaryDirectory(prefix="cprofd-memory-")
    try:
        assert target.stdout.readline().strip() == "ready"
        cprofd = subprocess.Popen([CPROFD, "attach", str(target.pid), "-r", args.rate, "-d", str(args.seconds), "-f", "events", "-o",
                                   os.path.join(work.name, "out.cprof"), "--native=" + args.native],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        most, last, parts, sums = 0, (0, 0), None, []
        start = time.monotonic()
        while cprofd.poll() is None and time.monotonic() < start + args.seconds - 0.5:
            pids = tree(cprofd.pid)
            sizes, held = {p: pss_of([p]) for p in pids}, maps_of(pids)
            last = (sum(sizes.values()), sum(b for _, b in held.values()))
            sums.append(sum(last))
            if sum(last) > most:
                most = sum(last)
                at = time.monotonic() - start
                largest = last
                if args.parts:
                    parts = [(p, size, kinds(p)) for p, size in sizes.items()], held
            time.sleep(0.2)
        words = cprofd.communicate()[1]
        if cprofd.returncode:
            sys.exit("cprofd failed: " + words)
        sums.sort()
        print("%s: most %.1f MB after %.1f s (PSS %.1f, maps %.1f); median %.1f; last %.1f (PSS %.1f, maps %.1f)" % (
            os.path.basename(args.target), most / 1e6, at, largest[0] / 1e6, largest[1] / 1e6, sums[len(sums) // 2] / 1e6,
            sum(last) / 1e6, last[0] / 1e6, last[1] / 1e6), flush=True)
        for p, size, found in parts[0] if parts else ():
            print("  process %d: %.1f MB" % (p, size / 1e6))
            for kind, mb in found.most_common(7):
                print("    %6.2f MiB %s" % (mb, kind))
        for i, (what, size) in sorted(parts[1].items(), key=lambda x: -x[1][1])[:8] if parts else ():
            print("  map: %8.2f MB %s" % (size / 1e6, what))
    finally:
        target.kill()
        target.wait()
        work.cleanup()


if __name__ == "__main__":
    main()
