#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""`push --pyroscope`, read as Pyroscope's published messages say (push.v1, types.v1, and pprof's profile.proto, written down below): every sample
arrives once, sums by class, compiler and compile are those of `report --json`, whatever the server does meanwhile. Needs root.

    pyroscope.py [NAME ...]     only the tests whose names contain one of these

run-live: beside"""
import base64
import collections
import gzip
import json
import os
import socket
import sys
import time
import uuid

import otlp
from lib.command import BUSY, as_nobody, cprofd, daemon, environment, expect, fails, folder, target
from lib.result import finish, run_tests, skip

PATH = "/push.v1.PusherService/Push"
# message: {field: (number, type)}; [type]: repeated
MESSAGES = {
    "PushRequest": {"series": (1, ["Series"])},
    "Series": {"labels": (1, ["LabelPair"]), "samples": (2, ["RawSample"])},
    "RawSample": {"raw_profile": (1, bytes), "id": (2, str)},
    "LabelPair": {"name": (1, str), "value": (2, str)},
    "Profile": {"sample_type": (1, ["ValueType"]), "sample": (2, ["Sample"]), "mapping": (3, ["Mapping"]), "location": (4, ["Location"]), "function": (5, ["Function"]),
                "string_table": (6, [str]), "time_nanos": (9, int), "duration_nanos": (10, int), "period_type": (11, "ValueType"), "period": (12, int),
                "comment": (13, [int]), "default_sample_type": (14, int)},
    "ValueType": {"type": (1, int), "unit": (2, int)},
    "Sample": {"location_id": (1, [int]), "value": (2, [int]), "label": (3, ["Label"])},
    "Label": {"key": (1, int), "str": (2, int), "num": (3, int), "num_unit": (4, int)},
    "Mapping": {"id": (1, int), "filename": (5, int), "build_id": (6, int), "has_functions": (7, bool), "has_filenames": (8, bool), "has_line_numbers": (9, bool)},
    "Location": {"id": (1, int), "mapping_id": (2, int), "address": (3, int), "line": (4, ["Line"])},
    "Line": {"function_id": (1, int), "line": (2, int)},
    "Function": {"id": (1, int), "name": (2, int), "system_name": (3, int), "filename": (4, int), "start_line": (5, int)},
}
RULES = "compiler toy\nunit\n    file <string>\n    function build\n    has told\n    name told\nphase\n    file <string>\n    function lower\n    has step\n    name step\n"
COMPILES = BUSY + """
def lower(step, s):
    busy(s)
def build(told, s):
    busy(s)
    lower("lower", s)
for i in range(4):
    build("one", 0.2)
    build("two", 0.4)
    busy(0.3)
"""


def classes():
    """Of MESSAGES, by Google's library."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name="store.proto", package="store", syntax="proto3")
    field_of = descriptor_pb2.FieldDescriptorProto
    kinds = {bytes: field_of.TYPE_BYTES, str: field_of.TYPE_STRING, int: field_of.TYPE_INT64, bool: field_of.TYPE_BOOL}
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            repeated = isinstance(kind, list)
            kind = kind[0] if repeated else kind
            added = message.field.add(name=field, number=number, label=field_of.LABEL_REPEATED if repeated else field_of.LABEL_OPTIONAL,
                                      type=field_of.TYPE_MESSAGE if isinstance(kind, str) else kinds[kind])
            if isinstance(kind, str):
                added.type_name = ".store." + kind
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName("store." + name)) for name in MESSAGES}


class Told:
    """What requests say, added up."""

    def __init__(self):
        self.sums, self.classes, self.compilers, self.units, self.phases = (collections.Counter() for _ in range(5))
        self.ids, self.labels, self.duplicates = set(), [], 0

    def response(self, _):
        return b""

    def read(self, body):
        request = STORE["PushRequest"].FromString(body)
        expect(request.series, "a request")
        for series in request.series:
            self.labels.append({label.name: label.value for label in series.labels})
            expect(len(self.labels[-1]) == len(series.labels) and self.labels[-1]["__name__"] == "process_cpu", "labels", self.labels[-1])
            for sample in series.samples:
                if str(uuid.UUID(sample.id)) in self.ids:
                    self.duplicates += 1
                    continue
                self.ids.add(sample.id)
                self.add(STORE["Profile"].FromString(gzip.decompress(sample.raw_profile)))

    def add(self, profile):
        strings = profile.string_table
        expect(strings[0] == "" and len(set(strings)) == len(strings), "strings")
        kinds = [strings[kind.type] for kind in profile.sample_type]
        expect(kinds == ["cpu", "wall"] and {strings[kind.unit] for kind in profile.sample_type} == {"nanoseconds"} and strings[profile.period_type.type] == "cpu", "types", kinds)
        expect(abs(profile.time_nanos / 1e9 - time.time()) < 86400 and profile.duration_nanos > 0, "time", profile.time_nanos)
        functions = {function.id: strings[function.name] for function in profile.function}
        locations = {location.id: [functions[line.function_id] for line in location.line] for location in profile.location}
        expect(0 not in functions and 0 not in locations and all(len(names) == 1 for names in locations.values()), "ids")
        for sample in profile.sample:
            labels = {strings[label.key]: strings[label.str] for label in sample.label}
            expect(len(labels) == len(sample.label) and "class" in labels and set(labels) <= {"class", "compiler", "phase"}, "labels", labels)
            stack = [locations[at][0] for at in sample.location_id]
            cpu, wall = sample.value
            expect(stack and cpu + wall > 0, "a stack and its values")
            self.sums.update(cpu=cpu, wall=wall)
            self.classes[labels["class"]] += cpu
            if "compiler" in labels:
                self.compilers[labels["compiler"]] += cpu
                self.phases[labels.get("phase")] += cpu
                self.units.update({name: cpu for name in stack if name in ("one()", "two()")})


def push(receiver, *args, **how):
    return cprofd("push", "--pyroscope", receiver if isinstance(receiver, str) else receiver.url, *args, **how)


def arrived(receiver, path, kind="cpu"):
    total, by_class, _, _ = otlp.truth(path)
    told = receiver.told
    expect(not receiver.failed, "requests", *receiver.failed)
    expect(told.sums[kind] == total, "the sum", told.sums, total)
    if kind == "cpu":
        expect({name: ns for name, ns in told.classes.items() if ns} == by_class, "classes", told.classes, by_class)


# --- tests ---

def test_recordings_arrive(recordings):
    for mode in ("cpu", "wall"):
        with otlp.Receiver(told=Told()) as receiver:
            run = push(receiver, recordings.path(mode), "--every", 1, "--service", "it")
            expect(run.returncode == 0, "push", run.err)
            arrived(receiver, recordings.path(mode), mode)
            expect(receiver.requests >= 2 and not receiver.told.duplicates and set(receiver.paths) == {PATH}, "requests", receiver.requests, receiver.paths)
            expect({labels["service_name"] for labels in receiver.told.labels} == {"it"}, "labels", receiver.told.labels)
            header = receiver.headers[0]
            expect(header["Content-Type"] == "application/proto" and header["Content-Encoding"] is None, "headers", header)


def test_compiles(recordings):
    """Their compiler and phase are labels, their name is a frame."""
    rules, path = (os.path.join(recordings.work, name) for name in ("toy.rules", "toy.cprof"))
    with open(rules, "w") as file:
        file.write(RULES)
    with target(COMPILES) as process:
        run = cprofd("attach", process.pid, "--rules", rules, "-o", path, env=environment(CPROFD_SOCKET="none"))
    expect(run.returncode == 0, "a recording", run.err)
    told = json.loads(cprofd("report", path, "--by=unit", "--json").out)
    truth = {row["name"] + "()": row["inclusive_ns"] for row in told["tables"][0]["rows"]}
    with otlp.Receiver(told=Told()) as receiver:
        expect(push(receiver, path, "--every", 1).returncode == 0, "push")
        arrived(receiver, path)
        has = receiver.told
        expect(set(has.compilers) == {"toy"} and set(has.units) == {"one()", "two()"} and set(has.phases) == {"lower", None}, "names", has.compilers, has.units, has.phases)
        expect({name: truth.get(name) for name in has.units} == dict(has.units), "compiles", has.units, truth)
        expect(abs(has.phases["lower"] / sum(has.phases.values()) - 0.5) < 0.1, "half of each is its phase", has.phases)


def test_a_container(recordings):
    """Its series have its id; of what is in none they have no such label."""
    path = os.path.join(recordings.work, "contained.cprof")
    with otlp.container() as (group, name):
        if not group:
            skip("no cgroup v2 in which one can be made")
            return
        with target(BUSY + "busy(2)") as process:
            otlp.enter(group, process)
            run = cprofd("attach", process.pid, "-o", path, env=environment(CPROFD_SOCKET="none"))
        expect(run.returncode == 0, "a recording", run.err)
    for file, expected in ((path, {name}), (recordings.path("cpu"), {None})):
        with otlp.Receiver(told=Told()) as receiver:
            expect(push(receiver, file).returncode == 0, "push")
            expect({labels.get("container_id") for labels in receiver.told.labels} == expected, "labels", receiver.told.labels, name)


def test_build_ids(recordings):
    """pprof files have those that OTLP has."""
    files = [os.path.join(recordings.work, "ids." + end) for end in ("otlp.gz", "pb.gz")]
    for form, file in zip(("otlp", "pprof"), files):
        expect(cprofd("convert", recordings.path("cpu"), "-f", form, "-o", file).returncode == 0, "convert", form)
    with gzip.open(files[1]) as file:
        profile = STORE["Profile"].FromString(file.read())
    strings = profile.string_table
    has = {strings[mapping.filename]: strings[mapping.build_id] for mapping in profile.mapping}
    expect(has == otlp.mappings(files[0]) and has["libc.so.6"], "build ids", has)


def test_bad_servers(recordings):
    for script in ([(503, {"Retry_After": 1}), 429, "ok", 504], ["cut", "ok", "cut"], ["lost", "ok", "lost"], ["nonsense", "ok"]):
        with otlp.Receiver(script, told=Told()) as receiver:
            run = push(receiver, recordings.path("cpu"), "--every", 1)
            expect(run.returncode == 0, "push", script, run.err)
            expect((receiver.told.duplicates > 0) == ("lost" in script), "what comes twice has the same id", script, receiver.told.duplicates)
            arrived(receiver, recordings.path("cpu"))


def test_refusals(recordings):
    path = recordings.path("cpu")
    for status, words in ((401, "--header-file"), (422, "--tenant"), (404, "the address of a Pyroscope")):
        with otlp.Receiver([status] * 9, told=Told()) as receiver:
            fails(1, str(status), words, run=push(receiver, path, "--every", 1))
            expect(receiver.requests == 1, "asked once", receiver.requests)
    fails(2, "--pyroscope: 'localhost:4040' is no URL", run=push("localhost:4040", path))
    fails(2, "either --otlp or --pyroscope", run=push("http://localhost:1", path, "--otlp", "http://localhost:1"))


def test_credentials(recordings):
    file = os.path.join(recordings.work, "headers")
    with open(file, "w") as out:
        out.write("Authorization: Basic %s\n" % base64.b64encode(b"me:secret").decode())
    with otlp.Receiver(told=Told()) as receiver:
        expect(push(receiver, recordings.path("cpu"), "--header-file", file, "--tenant", "us").returncode == 0, "push")
        has = receiver.headers[0]
        expect(base64.b64decode(has["Authorization"].split()[1]) == b"me:secret" and has["X-Scope-OrgID"] == "us", "headers", has)


def test_a_process(recordings):
    """By a daemon, as a user without privileges, over an outage."""
    with folder() as work, daemon(os.path.join(work, "socket")), target(BUSY + "busy(4)\nprint(time.process_time(), flush=True)", uid=65534) as process, \
            otlp.Receiver(["ok", 503, "cut"], told=Told()) as receiver:
        run = push(receiver, "--socket", os.path.join(work, "socket"), "--every", "0.5", process.pid, prefix=as_nobody())
        expect(run.returncode == 0, "push", run.err)
        expect(not receiver.failed and not receiver.told.duplicates and receiver.requests > 4, "requests", receiver.failed, receiver.requests)
        ran = float(process.stdout.readline())
        expect(0.7 * ran < receiver.told.sums["cpu"] / 1e9 < 1.02 * ran, "what it ran, but for what was before", receiver.told.sums, ran)
        expect({labels["hostname"] for labels in receiver.told.labels} == {socket.gethostname()}, "labels", receiver.told.labels)


def main():
    global STORE
    if os.geteuid() or not otlp.classes():
        skip("needs root" if os.geteuid() else "Google's protobuf is not there (pip install opentelemetry-proto)")
        return finish()
    STORE = classes()
    with folder() as work:
        run_tests(globals(), sys.argv[1:], otlp.Recordings(work))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
