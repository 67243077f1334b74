#!/usr/bin/env python3
"""How often `cprofd diff` says that recordings of one program differ, and whether it finds a pass that takes 5 % longer.

    diff.py [--pairs 20] [--seconds SECS] [--rate HZ] [--each N] [--keep DIR]

Each process is recorded N times, for so long; pairs are neighbours, of one process and of two. Needs root."""
import argparse
import json
import os
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CPROFD = os.environ.get("CPROFD", os.path.join(ROOT, "build", "cprofd"))
TARGET = os.path.join(ROOT, "tests", "targets", "compile_slower.py")
TABLES = "class,unit,phase,pass,function,line,module"


def record(paths, slower, options):
    """Recordings of one process, one after another."""
    if all(os.path.exists(path) for path in paths):
        return
    target = subprocess.Popen(["/usr/bin/python3", TARGET, str(slower), "100000"], stdout=subprocess.PIPE)
    try:
        target.stdout.readline()
        for path in paths:
            subprocess.run([CPROFD, "attach", str(target.pid), "--native", "-d", str(options.seconds), "-r", str(options.rate), "-o", path],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=600)
    finally:
        target.kill()
        target.wait()


def diff(*args):
    run = subprocess.run([CPROFD, "diff", "--json", *args], check=True, stdout=subprocess.PIPE)
    return json.loads(run.stdout)


def tally(results):
    compared, flagged, names = 0, 0, {}
    for result in results:
        for table in result["tables"]:
            for row in table["rows"]:
                if "margin" in row:
                    compared += 1
                    flagged += row["differs"]
                    if row["differs"]:
                        names.setdefault((table["by"], row["name"]), []).append("%.4f -> %.4f +-%.4f" % (row["before"], row["after"], row["margin"]))
    return compared, flagged, names


def show(what, results):
    compared, flagged, names = tally(results)
    print("%s: %d of %d comparisons flagged (%.3f %%)" % (what, flagged, compared, 100 * flagged / max(1, compared)))
    for name, found in sorted(names.items(), key=lambda item: -len(item[1]))[:12]:
        print("    %s: %s" % (" ".join(name), "; ".join(found[:3])))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=int, default=9999)
    parser.add_argument("--slower", type=float, default=0.05)
    parser.add_argument("--each", type=int, default=3)
    parser.add_argument("--keep")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        folder = options.keep or folder
        os.makedirs(folder, exist_ok=True)
        same = [os.path.join(folder, "same%d.cprof" % i) for i in range(options.pairs + 1)]
        slow = [os.path.join(folder, "slow%d.cprof" % i) for i in range(min(3, options.pairs))]
        for i in range(0, len(same), options.each):
            record(same[i:i + options.each], 0, options)
        record(slow, options.slower, options)
        for sort in ("exclusive", "inclusive"):
            args = ["--by", TABLES, "--sort", sort]
            show("%d pairs of the same program, %s times" % (options.pairs, sort), [diff(a, b, *args) for a, b in zip(same, same[1:])])
            sides = [same[i:i + 3] + ["vs"] + same[i + 3:i + 6] for i in range(0, len(same) - 5, 3)]
            show("%d times three against three, %s times" % (len(sides), sort), [diff(*side, *args) for side in sides])
        for i, path in enumerate(slow):
            row = next(row for row in diff(same[i], path, "--by=phase", "--sort=inclusive")["tables"][0]["rows"] if row["name"] == "Finalize object")
            print("%.0f %% slower: %.4f -> %.4f (x%.4f) +- %.4f, %d samples: %s" % (100 * options.slower, row["before"], row["after"], row["ratio"],
                  row["margin"], row["samples"], "found" if row["differs"] else "not found"))
        if len(slow) > 2:
            row = next(row for row in diff(*same[:len(slow)], "vs", *slow, "--by=phase", "--sort=inclusive")["tables"][0]["rows"] if row["name"] == "Finalize object")
            print("%d against %d: x%.4f +- %.4f: %s" % (len(slow), len(slow), row["ratio"], row["margin"], "found" if row["differs"] else "not found"))


main()
