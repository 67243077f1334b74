#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A real OpenTelemetry Collector, made by its own builder, takes what `push` sends of a real Numba recording: its file exporter's output has the sums of
`report --json`. Needs root, Go and the Go module proxy; the Collector is built once, below build/fleet (10 minutes of CPU).

    fleet.py [--port 4318]"""
import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from lib import ROOT  # noqa: E402
from lib.command import cprofd, environment, expect, folder  # noqa: E402
from lib.result import check_figures, finish, skip  # noqa: E402
from lib.wait import until  # noqa: E402

HOME = os.path.join(ROOT, "build", "fleet")
COLLECTOR = os.path.join(HOME, "dist", "collector")
CORE = "go.opentelemetry.io/collector/"
FILE = "github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
NUMBA = """
import time
import numba, numpy
block = numpy.arange(100.0)
for i in range(40):
    space = {"numba": numba}
    exec("@numba.njit\\ndef kernel_%d(x):\\n    s = 0.0\\n    for i in range(x.shape[0]):\\n        s += x[i] ** %d\\n    return s" % (i, i), space)
    space["kernel_%d" % i](block)
    time.sleep(0.01)
"""


def go(*args, cwd=HOME, check=True, **how):
    env = environment(GOFLAGS="-mod=mod -buildvcs=false", GOBIN=HOME, PATH=os.environ["PATH"] + ":/usr/local/go/bin")
    return subprocess.run(args, cwd=cwd, env=env, check=check, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how).stdout


def build():
    """The program; None: not without Go, or its proxy."""
    if os.path.exists(COLLECTOR):
        return COLLECTOR
    os.makedirs(HOME, exist_ok=True)
    try:
        if not os.path.exists(os.path.join(HOME, "go.mod")):
            go("go", "mod", "init", "fleet")
        newest = {module: go("go", "list", "-m", "-versions", module).split()[-1] for module in (CORE + "cmd/builder", FILE)}
        go("go", "install", "%scmd/builder@%s" % (CORE, newest[CORE + "cmd/builder"]))
        with open(os.path.join(HERE, "builder.yaml")) as source, open(os.path.join(HOME, "builder.yaml"), "w") as out:
            out.write(source.read().replace("VERSION", newest[CORE + "cmd/builder"]).replace("CONTRIB", newest[FILE]))
        # It fails where a module is missing that only a test of the exporter's has, but its sources are complete: -e.
        go(os.path.join(HOME, "builder"), "--config", "builder.yaml", "--skip-compilation", check=False)
        go("go", "mod", "tidy", "-e", cwd=os.path.join(HOME, "dist"))
        go("go", "build", "-trimpath", "-ldflags=-s -w", "-o", "collector", ".", cwd=os.path.join(HOME, "dist"))
    except (OSError, subprocess.CalledProcessError) as error:
        skip("no Collector could be built: %s %s" % (error, getattr(error, "stderr", "")))
        return None
    return COLLECTOR


def numbers(values):
    return [int(value) for value in values or ()]


def told(path):
    """Sums, samples, compiles of what the file exporter wrote: OTLP as JSON, a request a line."""
    sums, samples, classes, units = (collections.Counter() for _ in range(4))
    with open(path) as lines:
        for request in map(json.loads, lines):
            tables = request["dictionary"]
            strings = tables["stringTable"]
            attributes = [(strings[a.get("keyStrindex", 0)], a.get("value", {}).get("stringValue")) for a in tables["attributeTable"]]
            for profile in (p for r in request["resourceProfiles"] for s in r["scopeProfiles"] for p in s["profiles"]):
                kind = strings[profile["sampleType"]["typeStrindex"]]
                for sample in profile.get("samples", ()):
                    values = numbers(sample["values"])
                    expect(len(values) == len(sample["timestampsUnixNano"]), "values and times", sample)
                    has = dict(attributes[i] for i in sample["attributeIndices"])
                    sums[kind] += sum(values)
                    samples[kind] += len(values)
                    classes[kind, has["cprofd.class"]] += sum(values)
                    units[has.get("compiler.unit.name")] += sum(values)
    return sums, samples, classes, units


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=4318)
    arguments = parser.parse_args()
    if os.geteuid() or subprocess.call(["/usr/bin/python3", "-c", "import numba"], stderr=subprocess.DEVNULL):
        skip("needs root and Numba")
        return finish()
    collector = build()
    for mode in ("cpu", "wall") if collector else ():
        with folder() as work:
            recording = os.path.join(work, "numba.cprof")
            run = cprofd("record", "--mode=" + mode, "-o", recording, "--", "/usr/bin/python3", "-c", NUMBA, env=environment(CPROFD_SOCKET="none"), timeout=300)
            expect(run.returncode == 0, "a recording", run.err)
            with open(os.path.join(HERE, "collector.yaml")) as source, open(os.path.join(work, "collector.yaml"), "w") as out:
                out.write(source.read().replace("4318", str(arguments.port)))
            url, log = "http://localhost:%d" % arguments.port, open(os.path.join(work, "log"), "w+")
            server = subprocess.Popen([collector, "--config", "collector.yaml", "--feature-gates=service.profilesSupport"], cwd=work, stdout=log, stderr=log)
            try:
                def up():
                    try:
                        urllib.request.urlopen(url, timeout=1)
                    except urllib.error.HTTPError:
                        return True
                    except OSError:
                        return server.poll() is not None
                until(up)
                sent = cprofd("push", "--otlp", url, "--every", 1, recording)
            finally:
                server.terminate()
                server.wait(60)
            log.seek(0)
            expect(sent.returncode == 0, "push", sent.err, log.read())
            sums, samples, classes, units = told(os.path.join(work, "profiles.json"))
            table = {t["by"]: t for t in json.loads(cprofd("report", recording, "--json").out)["tables"]}
            check_figures(sums[mode] == table["class"]["total_ns"], mode + ": the sum", sums, table["class"]["total_ns"])
            want = {row["name"]: row["exclusive_ns"] for row in table["class"]["rows"] if row["exclusive_ns"]}
            check_figures({name: ns for (kind, name), ns in classes.items() if kind == mode} == want, mode + ": classes", len(want))
            check_figures("%s samples" % "{:,}".format(samples["cpu"]) in sent.err or mode == "wall", mode + ": samples", dict(samples), sent.err.strip())
            check_figures(sum(1 for name in units if name and name.startswith("kernel_")) >= 35, mode + ": compiles have names", len(units))
            if mode == "cpu" and os.environ.get("KEEP"):
                shutil.copy(os.path.join(work, "profiles.json"), os.environ["KEEP"])
    return finish()


if __name__ == "__main__":
    sys.exit(main())
