#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What report, svg, pprof, collapsed and others say of real recordings, against sums that report_truth.py makes
itself from the lines of the recording.

    report.py [NAME ...]     only the tests whose names contain one of these. Needs root.

run-live: beside"""
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile

import report_formats
import report_perfetto
import report_tables
from report_truth import (Recordings, Skip, add_up, cprofd, expect, function, read_recording, report, same, stand,
                          shown)


# --- what goes wrong ---

def test_bad_input(recordings):
    path, folder = recordings.path("python"), recordings.folder
    whole = open(path, "rb").read()

    def fails(*args, says, status=1):
        err = cprofd(*args, status=status).err
        for words in says:
            expect(words in err, "stderr does not say %r" % words, err)

    for name, data in (("empty", b""), ("noise", os.urandom(5000)), ("damaged", whole[:3000] + b"xxxx" + whole[3004:])):
        bad = os.path.join(folder, name)
        open(bad, "wb").write(data)
        why = "is empty" if name == "empty" else "not a recording, or it is damaged"
        fails("report", bad, says=[why])
        for form in ("svg", "pprof"):
            fails("convert", bad, "-f", form, "-o", os.path.join(folder, "never"), says=[why])
    cut = os.path.join(folder, "truncated.cprof")
    open(cut, "wb").write(whole[:len(whole) * 9 // 10])
    result = report(cut, "--by=function")
    expect(result["recordings"][0]["cut"] and result["tables"][0]["rows"], "a truncated recording")
    expect("ends in the middle" in cprofd("report", cut).out, "it is not said that it is truncated")
    same("a truncated recording", shown(result["tables"][0]["rows"]), add_up(read_truncated(cut), function))
    fails("report", path, "--callers", "dwn", says=["no sample has a function dwn", "down"])
    fails("report", path, "--function", "evne", says=["has no function evne", "even"])
    fails("convert", path, "-f", "svg", "-o", os.path.join(folder, "never"), "--module", "numbaa", says=["has no module numbaa"])
    fails("report", path, "--thread", "pyton3", says=["no thread pyton3", "python3"])
    fails("report", path, "--class", "interpretre", says=["no class interpretre"])
    expect(not os.path.exists(os.path.join(folder, "never")), "a file was written")
    fails("report", path, "--window", "1000,1001", says=["nothing to report", "the recording is "])
    fails("report", says=["which recording"], status=2)
    fails("report", os.path.join(folder, "not there"), says=["cannot be read"])
    fails("report", path, "--by=nonsense", says=["is not one of"], status=2)
    fails("report", path, "--top=-3", says=["is not a number of rows"], status=2)
    fails("report", path, "--until=200%", says=["is not a share"], status=2)
    fails("report", path, "--json", "--csv", says=["choose one"], status=2)
    # From a pipe, and as plain lines.
    plain = subprocess.run(["zstdcat", path], stdout=subprocess.PIPE, check=True).stdout
    result = json.loads(cprofd("report", "-", "--json", "--by=function", stdin=plain).out)
    same("plain lines from a pipe", shown(result["tables"][0]["rows"]), add_up(recordings.samples("python"), function))


def read_truncated(path):
    run = subprocess.run(["zstdcat", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    text = run.stdout[:run.stdout.rfind(b"\n") + 1]
    with tempfile.NamedTemporaryFile(suffix=".zst") as file:
        subprocess.run(["zstd", "-q", "-f", "-o", file.name], input=text, check=True)
        return stand(read_recording(file.name))


def main():
    if os.geteuid():
        sys.exit("report.py needs root")
    tests = [(name[5:], value) for place in (globals(), vars(report_tables), vars(report_formats), vars(report_perfetto)) for name, value in sorted(place.items()) if name.startswith("test_")]
    wanted = [(name, test) for name, test in tests if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]
    counts = collections.Counter()
    folder = tempfile.mkdtemp(prefix="cprofd-report-")
    try:
        recordings = Recordings(folder)
        for name, test in wanted:
            begin = sum(os.times()[:4])
            try:
                test(recordings)
                print("ok      %s (%.1f s of CPU)" % (name, sum(os.times()[:4]) - begin))
                counts["passed"] += 1
            except Skip as skip:
                print("skipped %s: %s" % (name, skip))
                counts["skipped"] += 1
            except Exception as error:  # each is a failure of its own
                print("FAILED  %s: %s: %s" % (name, type(error).__name__, error))
                counts["failed"] += 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("%d passed, %d failed, %d skipped" % (counts["passed"], counts["failed"], counts["skipped"]))
    sys.exit(1 if counts["failed"] else 0)


main()
