#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A real OpenTelemetry Collector, made by its own builder, takes what `push` sends of a real Numba recording: its file exporter's output has the sums of
`report --json`. Needs root, Go and the Go module proxy; the Collector is built once, below build/fleet (10 minutes of CPU).

    fleet.py [--port 4318]
    fleet.py --outage 600     another test: a busy Python is sampled by two `push`, to the Collector and to a receiver of Pyroscope's messages, which both
                              are gone for so long. All samples arrive, none twice: sums are the CPU time by the target's own clock. If no Collector was
                              built yet, OTLP goes to a receiver that reads it with OpenTelemetry's classes"""
import argparse
import collections
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "live")]
import otlp  # noqa: E402
import pyroscope  # noqa: E402
from lib import CPROFD, ROOT  # noqa: E402
from lib.command import BUSY, NOBODY, as_nobody, cprofd, daemon, environment, expect, folder, target  # noqa: E402
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
# Asleep until SIGUSR1, then busy until the next one: at the end its CPU time, ns.
ON_AND_OFF = BUSY.replace('print("up"', 'import signal\ntold = []\nsignal.signal(signal.SIGUSR1, lambda *_: told.append(1))\nprint("up"') + """
while not told:
    signal.pause()
while len(told) < 2:
    leaf(20000)
print(time.process_time_ns(), flush=True)
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


def told(*paths):
    """Sums, samples, compiles of what the file exporter wrote: OTLP as JSON, a request a line. And how many profiles came twice."""
    sums, samples, classes, units, ids = (collections.Counter() for _ in range(5))
    for request in (json.loads(line) for path in paths for line in open(path)):
        tables = request["dictionary"]
        strings = tables["stringTable"]
        attributes = [(strings[a.get("keyStrindex", 0)], a.get("value", {}).get("stringValue")) for a in tables["attributeTable"]]
        for profile in (p for r in request["resourceProfiles"] for s in r["scopeProfiles"] for p in s["profiles"]):
            kind = strings[profile["sampleType"]["typeStrindex"]]
            ids[profile["profileId"]] += 1
            for sample in profile.get("samples", ()):
                values = numbers(sample["values"])
                expect(len(values) == len(sample["timestampsUnixNano"]), "values and times", sample)
                has = dict(attributes[i] for i in sample["attributeIndices"])
                sums[kind] += sum(values)
                samples[kind] += len(values)
                classes[kind, has["cprofd.class"]] += sum(values)
                units[has.get("compiler.unit.name")] += sum(values)
    return sums, samples, classes, units, ids.total() - len(ids)


class Collector:
    """It runs in the folder, and writes profiles.json there."""

    def __init__(self, folder, port):
        self.url, self.file = "http://localhost:%d" % port, os.path.join(folder, "profiles.json")
        with open(os.path.join(HERE, "collector.yaml")) as source, open(os.path.join(folder, "collector.yaml"), "w") as out:
            out.write(source.read().replace("4318", str(port)))
        self.log = open(os.path.join(folder, "log"), "w+")
        self.process = subprocess.Popen([COLLECTOR, "--config", "collector.yaml", "--feature-gates=service.profilesSupport"], cwd=folder, stdout=self.log, stderr=self.log)
        until(self.is_up)

    def is_up(self):
        try:
            urllib.request.urlopen(self.url, timeout=1)
        except urllib.error.HTTPError:
            return True
        except OSError:
            return self.process.poll() is not None

    def stop(self):
        self.process.terminate()
        self.process.wait(60)
        self.log.seek(0)
        return self.log.read()


class CollectorTwice:
    """Before an outage and after it."""

    def __init__(self, work, port):
        self.work, self.port, self.files = work, port, []
        self.start()

    def start(self):
        folder = os.path.join(self.work, str(len(self.files)))
        os.mkdir(folder)
        self.collector = Collector(folder, self.port)
        self.url = self.collector.url
        self.files.append(self.collector.file)

    def stop(self):
        self.collector.stop()

    def requests(self):
        with open(self.files[-1], "rb") as file:
            return file.read().count(b"\n")

    def arrived(self):
        """The sum, the number of samples, and what came twice."""
        sums, samples, _, _, twice = told(*self.files)
        return sums["cpu"], samples["cpu"], twice


class ReceiverTwice:
    def __init__(self, what_is_told, samples):
        self.told, self.samples, self.receiver = what_is_told, samples, None
        self.start()

    def start(self):
        self.receiver = otlp.Receiver(told=self.told, port=self.receiver.server_address[1] if self.receiver else 0)
        self.url = self.receiver.url

    def stop(self):
        self.receiver.__exit__()
        expect(not self.receiver.failed, "requests", *self.receiver.failed)

    def requests(self):
        return self.receiver.requests

    def arrived(self):
        return self.told.sums["cpu"], self.samples and self.told.samples["cpu"], self.told.duplicates


def cpu_time(process):
    with open("/proc/%d/schedstat" % process.pid) as file:
        return int(file.read().split()[0])


def outage(seconds, port):
    """Of both stores at once."""
    pyroscope.STORE = pyroscope.classes()
    with folder() as work, daemon(os.path.join(work, "socket")), target(ON_AND_OFF, uid=NOBODY) as process:
        stores = {"otlp": CollectorTwice(work, port) if os.path.exists(COLLECTOR) else ReceiverTwice(otlp.Told(), True), "pyroscope": ReceiverTwice(pyroscope.Told(), False)}
        clients = {kind: subprocess.Popen([*as_nobody(), CPROFD, "push", "--" + kind, store.url, "--socket", os.path.join(work, "socket"), "--every", "2", str(process.pid)],
                                          stderr=subprocess.PIPE, env=environment()) for kind, store in stores.items()}
        try:
            status = lambda: json.loads(cprofd("status", "--json", "--socket", os.path.join(work, "socket"), prefix=as_nobody()).out)  # noqa: E731
            expect(until(lambda: status()["sessions"] == 2), "two sessions", status())
            before = cpu_time(process)
            process.send_signal(signal.SIGUSR1)
            for word in ("it runs", "it runs again"):
                expect(until(lambda: all(store.requests() for store in stores.values()), 200), word)
                if word == "it runs":
                    for store in stores.values():
                        store.stop()
                    time.sleep(seconds)  # it is what is tested
                    for store in stores.values():
                        store.start()
            process.send_signal(signal.SIGUSR1)
            ran = int(process.stdout.readline()) - before
            for kind, client in clients.items():
                err = client.communicate(timeout=300)[1].decode()
                stores[kind].stop()
                total, samples, twice = stores[kind].arrived()
                expect(client.returncode == 0 and "wait on disk" in err and "delivered again" in err, kind, err)
                check_figures(not twice, kind + ": none came twice,", type(stores[kind]).__name__, "outage of %g s" % seconds)
                # Less by the last period, more by its end.
                check_figures(-0.01e9 < total - ran < 0.2e9, kind + ": all CPU time arrives", total, ran)
                check_figures(not samples or "delivered {:,} samples".format(samples) in err, kind + ": samples", samples, err.strip().splitlines()[-1])
        finally:
            for client in clients.values():
                client.kill()
                client.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=4318)
    parser.add_argument("--outage", type=float, metavar="SECONDS")
    arguments = parser.parse_args()
    if arguments.outage:
        if os.geteuid() or not otlp.classes():
            skip("needs root" if os.geteuid() else "opentelemetry-proto is not there (pip install opentelemetry-proto)")
        else:
            outage(arguments.outage, arguments.port)
        return finish()
    if os.geteuid() or subprocess.call(["/usr/bin/python3", "-c", "import numba"], stderr=subprocess.DEVNULL):
        skip("needs root and Numba")
        return finish()
    collector = build()
    for mode in ("cpu", "wall") if collector else ():
        with folder() as work:
            recording = os.path.join(work, "numba.cprof")
            run = cprofd("record", "--mode=" + mode, "-o", recording, "--", "/usr/bin/python3", "-c", NUMBA, env=environment(CPROFD_SOCKET="none"), timeout=300)
            expect(run.returncode == 0, "a recording", run.err)
            server = Collector(work, arguments.port)
            try:
                sent = cprofd("push", "--otlp", server.url, "--every", 1, recording)
            finally:
                log = server.stop()
            expect(sent.returncode == 0, "push", sent.err, log)
            sums, samples, classes, units, _ = told(server.file)
            table = {t["by"]: t for t in json.loads(cprofd("report", recording, "--json").out)["tables"]}
            check_figures(sums[mode] == table["class"]["total_ns"], mode + ": the sum", sums, table["class"]["total_ns"])
            want = {row["name"]: row["exclusive_ns"] for row in table["class"]["rows"] if row["exclusive_ns"]}
            check_figures({name: ns for (kind, name), ns in classes.items() if kind == mode} == want, mode + ": classes", len(want))
            check_figures("%s samples" % "{:,}".format(samples["cpu"]) in sent.err or mode == "wall", mode + ": samples", dict(samples), sent.err.strip())
            check_figures(sum(1 for name in units if name and name.startswith("kernel_")) >= 35, mode + ": compiles have names", len(units))
            if mode == "cpu" and os.environ.get("KEEP"):
                shutil.copy(server.file, os.environ["KEEP"])
    return finish()


if __name__ == "__main__":
    sys.exit(main())
