#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Compiles that an exception left, as `report --by=failed` and `--by=repeat` show them, against the target's own account: which calls of Numba's
compiler raised, by name and signature, each with its own CPU time. Those that ran for 20 ms or more must be shown, and none that did not raise.
Needs root."""
import collections
import json
import os
import subprocess
import sys
import tempfile

from lib import CPROFD
from units_told import finish, verdict

SURE_NS = 20e6  # of 10 periods and more each is told
# compile_extra, compile_internal, compile_ir each by a wrapper that keeps its own time, that of compiles in it left out.
TARGET = """
import inspect, json, sys, time
import numba, numpy as np
import numba.core.compiler as compiler
import numba.core.dispatcher, numba.core.base
calls, stack = [], []
def count(original, name_of):
    bind = inspect.signature(original).bind
    def counted(*args, **kwargs):
        given = bind(*args, **kwargs).arguments
        call = {"name": name_of(given), "signature": ", ".join(str(t) for t in given["args"]), "raised": True, "inner": 0}
        calls.append(call)
        stack.append(call)
        begin = time.thread_time_ns()
        try:
            result = original(*args, **kwargs)
            call["raised"] = False
            return result
        finally:
            cpu = time.thread_time_ns() - begin
            stack.pop()
            call["own"] = cpu - call["inner"]
            if stack:
                stack[-1]["inner"] += cpu
    return counted
for name in "compile_extra", "compile_internal":
    setattr(compiler, name, count(getattr(compiler, name), lambda given: given["func"].__qualname__))
compiler.compile_ir = count(compiler.compile_ir, lambda given: given["func_ir"].func_id.func_qualname)

def adds_text(x):
    s = 0.0
    for i in range(x.shape[0]):
        s += np.linalg.norm(x) + x[i, 0] * np.sin(s)
    return s + "text"
def no_attribute(x):
    y = np.sort(x.ravel())
    return [np.cumsum(y * k) for k in range(4)], y.nothing_of_that_name
def no_overload(x):
    y = x.T @ x
    return np.dot(y, y) + np.linalg.svd(x, "one", "two", "three")
def two_types(x):
    y = [1]
    y = np.linalg.inv(x)
    return np.sum(y) + y.append(2.5)
def norm(x):
    return np.linalg.norm(x) + np.sum(np.sqrt(np.abs(x)))
def ordered(x):
    y = np.sort(x.ravel())
    return np.cumsum(y) + np.searchsorted(y, 0.5)
def products(x):
    return np.dot(x.T @ x, x.T).sum() + np.linalg.svd(x)[1][0]
values = [np.eye(5), np.eye(5, dtype=np.float32)]
for function in adds_text, no_attribute, norm, no_overload, ordered, two_types, products:
    for value in values + values[:1]:
        try:
            numba.njit(function)(value)
        except numba.core.errors.NumbaError:
            pass
time.sleep(0.05)
sum(range(5000000))
json.dump(calls, open(sys.argv[1], "w"))
"""


def report(recording, by):
    text = subprocess.run([CPROFD, "report", recording, "--by=" + by, "--json"], stdout=subprocess.PIPE, check=True).stdout
    return json.loads(text.decode())["tables"][0]["rows"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        recording, account, script = [os.path.join(folder, name) for name in ("a.cprof", "calls.json", "target.py")]
        with open(script, "w") as out:
            out.write(TARGET)
        run = subprocess.run([CPROFD, "record", "--native", "-o", recording, "--", "/usr/bin/python3", script, account],
                             stderr=subprocess.PIPE, universal_newlines=True)
        if run.returncode:
            verdict("the target compiles", run.stderr)
            return finish()
        with open(account) as stream:
            calls = json.load(stream)
        failed, repeats = report(recording, "failed"), report(recording, "repeat")
    raised, sure = collections.Counter(), collections.Counter()
    for call in calls:
        key = call["name"], call["signature"]
        raised[key] += call["raised"]
        sure[key] += call["raised"] and call["own"] >= SURE_NS
    told = {(row["name"], row["signature"]): row["calls"] for row in failed}
    verdict("no compile is told as left that was not", "; ".join("%s(%s): %d told, %d raised" % (*key, n, raised[key])
                                                                 for key, n in told.items() if n > raised[key]),
            "%d compiles of %d functions, %d of them raised" % (len(calls), len(set(call["name"] for call in calls)), sum(raised.values())))
    verdict("what was left after 20 ms or more is told", "; ".join("%s(%s): %d told of %d" % (*key, told.get(key, 0), n) for key, n in sure.items()
                                                                 if told.get(key, 0) < n), "%d" % sum(sure.values()))
    verdict("each was left in a phase of Numba's", "; ".join("%s: %s" % (row["name"], part["name"]) for row in failed for part in row["left_in"]
                                                           if "type_inference" not in part["name"]))
    again = collections.Counter()
    for row in repeats:
        if row["reason"] == "failed before":
            again[row["name"], row["signature"]] += row["calls"]
    verdict("what is compiled again after it failed is told as that", "; ".join("%s(%s)" % key for key in again if not raised[key]) or
            (None if again else "nothing is"), "%d" % sum(again.values()))
    return finish()


sys.exit(main())
