# SPDX-License-Identifier: MIT
"""What a live test checked, and its last line, which tools/run-live.sh reads.

    check(share > 0.9, "whole stacks", share)     # a line "ok ..." or "FAILED ..."
    skip("perf is not installed")
    sys.exit(finish())                            # "3 passed, 0 failed, 1 skipped"
"""
import collections
import traceback

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


def run_tests(namespace, names, *arguments):
    """Each test_* of a module (globals()) whose name contains one of `names`, or all: a check that has its name, and fails by an exception."""
    for name, test in list(namespace.items()):
        if name.startswith("test_") and (not names or any(word in name for word in names)):
            try:
                test(*arguments)
                check(True, name)
            except Exception as error:
                check(False, name, *([error] if isinstance(error, AssertionError) else [traceback.format_exc()]))


def finish():
    """The exit status."""
    print("%d passed, %d failed, %d skipped" % (counts["passed"], counts["failed"], counts["skipped"]), flush=True)
    return 1 if counts["failed"] else 0
