# SPDX-License-Identifier: MIT
"""What a live test checked, and its last line, which tools/run-live.sh reads.

    check(share > 0.9, "whole stacks", share)     # a line "ok ..." or "FAILED ..."
    skip("perf is not installed")
    sys.exit(finish())                            # "3 passed, 0 failed, 1 skipped"
"""
import collections

counts = collections.Counter()


def check(good, name, *details):
    """Details are printed with a failure only."""
    counts["passed" if good else "failed"] += 1
    print("ok" if good else "FAILED", name, *([] if good else details), flush=True)
    return bool(good)


def check_figures(good, name, *figures):
    """A check whose figures are of interest in any case."""
    return check(good, " ".join(map(str, (name, *figures))))


def skip(why):
    counts["skipped"] += 1
    print("skip:", why, flush=True)


def finish():
    """The exit status."""
    print("%d passed, %d failed, %d skipped" % (counts["passed"], counts["failed"], counts["skipped"]), flush=True)
    return 1 if counts["failed"] else 0
