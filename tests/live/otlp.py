#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""`push` and `convert -f otlp`, read with OpenTelemetry's own classes (opentelemetry-proto of PyPI): every sample arrives once, and sums are those of
`report --json`, whatever the server does meanwhile: it is not there, busy, slow, cuts connections, answers nonsense. Needs root.

    otlp.py [NAME ...]     only the tests whose names contain one of these

run-live: beside"""
import base64
import collections
import contextlib
import gzip
import http.server
import json
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import traceback

from lib import CPROFD, ROOT, cgroup, recording
from lib.command import BUSY, NOBODY, UNTIL_TOLD, as_nobody, cprofd, daemon, environment, expect, fails, folder, target
from lib.result import finish, run_tests, skip
from lib.stepped import stepped
from lib.wait import until

HOME = os.path.join(ROOT, "build", "otlp")
PYTHON = "/usr/bin/python3"
PATH = "/v1development/profiles"
THREADS = BUSY + """
import threading
threading.Thread(target=time.sleep, args=(1000,), daemon=True, name="sleeper").start()
threading.Thread(target=busy, args=(3,), name="worker").start()
busy(%s)
time.sleep(0.3)
"""
# A child, once it is told to.
FORKS = UNTIL_TOLD + """
import os
child = os.fork()
busy(1)
if child:
    os.waitpid(child, 0)
    print(child, flush=True)
"""


def classes():
    """Of this Python, or of a virtual environment, with which the test begins again."""
    global Request, Response, json_format
    try:
        from google.protobuf import json_format
        from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service
    except ImportError:
        python = os.path.join(HOME, "bin", "python")
        if sys.prefix.startswith(HOME):
            return False
        if not os.path.exists(os.path.join(HOME, "done")):
            for command in ([PYTHON, "-m", "venv", HOME], [os.path.join(HOME, "bin", "pip"), "install", "-q", "--retries", "1", "opentelemetry-proto>=1.45"]):
                if subprocess.call(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
                    return False
            open(os.path.join(HOME, "done"), "w").close()
        os.execv(python, [python, *sys.argv])
    Request, Response = service.ExportProfilesServiceRequest, service.ExportProfilesServiceResponse
    return hasattr(Request(), "dictionary")


class Told:
    """What requests say, added up."""

    def __init__(self):
        self.sums, self.samples, self.classes = collections.Counter(), collections.Counter(), collections.Counter()
        self.ids, self.resources, self.attributes, self.duplicates, self.latest = set(), [], collections.Counter(), 0, 0

    def read(self, body):
        self.add(Request.FromString(gzip.decompress(body)))

    def response(self, step):
        response = Response()
        if step == "partial":
            response.partial_success.rejected_profiles = 300
            response.partial_success.error_message = "too old, " * 40 + "\x1b[31m"
        elif step == "warning":
            response.partial_success.error_message = "soon too old"
        return response.SerializeToString()

    def add(self, request):
        strings, tables = request.dictionary.string_table, request.dictionary
        expect(strings[0] == "" and not any(getattr(tables, name + "_table")[0].ByteSize() for name in "mapping location function attribute stack".split()), "entries 0")
        expect(len(tables.link_table) == 1 and not any(tables.link_table[0].trace_id), "the link")
        for table in (strings, *(getattr(tables, name + "_table") for name in "mapping location function attribute stack".split())):
            expect(len({entry if isinstance(entry, str) else entry.SerializeToString() for entry in table}) == len(table), "an entry is there twice")
        attributes = [(strings[a.key_strindex], a.value.string_value or a.value.int_value) for a in tables.attribute_table]
        for resource in request.resource_profiles:
            self.resources.append({a.key: a.value.string_value or a.value.int_value for a in resource.resource.attributes})
            for profile in (profile for scope in resource.scope_profiles for profile in scope.profiles):
                if profile.profile_id in self.ids:
                    self.duplicates += 1
                    continue
                self.ids.add(profile.profile_id)
                self.add_profile(profile, strings, tables, attributes)

    def add_profile(self, profile, strings, tables, attributes):
        kind = strings[profile.sample_type.type_strindex]
        expect(strings[profile.sample_type.unit_strindex] == "nanoseconds" and len(profile.profile_id) == 16, "the type")
        for sample in profile.samples:
            expect(len(sample.values) == len(sample.timestamps_unix_nano) > 0, "values and times")
            expect(all(profile.time_unix_nano <= t < profile.time_unix_nano + profile.duration_nano for t in sample.timestamps_unix_nano), "times")
            expect(abs(profile.time_unix_nano / 1e9 - time.time()) < 86400, "today")
            self.latest = max(self.latest, profile.time_unix_nano / 1e9)
            has = dict(attributes[i] for i in sample.attribute_indices)
            expect(len(has) == len(sample.attribute_indices), "each key once", has)
            expect({"thread.id", "thread.name", "cprofd.class"} <= set(has), "attributes", has)
            self.attributes.update(has.keys())
            stack = [tables.location_table[i] for i in tables.stack_table[sample.stack_index].location_indices]
            expect(stack and all(location.lines and strings[tables.function_table[location.lines[0].function_index].name_strindex] for location in stack), "a stack of functions")
            self.sums[kind] += sum(sample.values)
            self.samples[kind] += len(sample.values)
            self.classes[kind, has["cprofd.class"]] += sum(sample.values)


class Receiver(http.server.ThreadingHTTPServer):
    """Does `script` to the first requests, one item each, and takes the rest. What is not taken may come again."""
    daemon_threads = True

    def __init__(self, script=(), port=0, tls=None, told=None):
        super().__init__(("127.0.0.1", port), Handler)
        self.connections = []
        self.script, self.told, self.headers, self.paths, self.requests, self.failed = list(script), told or Told(), [], [], 0, []
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = "%s://localhost:%d" % ("https" if tls else "http", self.server_address[1])

    def get_request(self):
        accepted = super().get_request()
        self.connections.append(accepted[0])
        return accepted

    def handle_error(self, request, address):
        pass  # connections that end early are part of it

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()
        for connection in self.connections:  # or their threads go on
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in {"Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        server = self.server
        server.requests += 1
        server.headers.append(self.headers)
        server.paths.append(self.path)
        step, how = server.script.pop(0) if server.script else "ok", {}
        if isinstance(step, tuple):
            step, how = step
        length = int(self.headers["Content-Length"])
        if step == "cut":  # in the middle of the body
            self.rfile.read(length // 2)
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        if step == "too large":  # it reads nothing of it, and closes, as nginx does
            self.wfile.write(b"HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100000)
            self.close_connection = True
            return
        body = self.rfile.read(length)
        if isinstance(step, int):
            self.answer(step, **how)
            self.close_connection |= "body" in how  # it may be less than was promised
            return
        if step == "page":  # as of a web server that knows every address
            self.answer(200, b"<html></html>", Content_Type="text/HTML; charset=utf-8")
            return
        if step == "nonsense":
            self.wfile.write(b"\x00\xff<html>" * 1000)
            self.close_connection = True
            return
        if step == "slow":
            time.sleep(3)
        try:
            server.told.read(body)
        except Exception:
            server.failed.append(traceback.format_exc())
        if step == "lost":  # it has taken the request, and nobody hears of it
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
        elif step == "half":  # of the answer
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"\x0a")
            self.close_connection = True
        elif step == "endless":
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(bytes(1 << 16))
        else:
            self.answer(200, server.told.response(step))


def truth(path):
    """From report, and from the recording's own lines: sums, and how many samples there are, from and to: the CPU time of a thread's end may be the
    last sample's."""
    told = json.loads(cprofd("report", path, "--json").out)
    wall = told["recordings"][0]["mode"] == "wall" if "mode" in told["recordings"][0] else False
    by_class = next(table for table in told["tables"] if table["by"] == "class")
    rows = ends = 0
    for event in recording.read(path):
        if event["ev"] == "samples":
            n = len(event["t"])
            cpu, given, others = (event.get(key, [0] * n) for key in ("cpu", "given", "others"))
            expect(not any(others), "a recording of one process, whose threads are all sampled")
            rows += sum(c > g for c, g in zip(cpu, given))
        elif event["ev"] == "thread_end":
            ends += event["cpu"] > 0
    return by_class["total_ns"], {row["name"]: row["exclusive_ns"] for row in by_class["rows"] if row["exclusive_ns"]}, (rows, rows + ends), wall


def arrived(receiver, path, kind="cpu"):
    total, by_class, rows, _ = truth(path)
    told = receiver.told
    expect(not receiver.failed, "requests", *receiver.failed)
    expect(told.sums[kind] == total, "the sum", told.sums, total)
    expect({name: ns for (k, name), ns in told.classes.items() if k == kind} == by_class, "classes", told.classes, by_class)
    expect(rows[0] <= told.samples["cpu"] <= rows[1], "samples", told.samples, rows)


class Recordings:
    def __init__(self, work):
        self.work = work

    def path(self, mode):
        path = os.path.join(self.work, mode + ".cprof")
        if not os.path.exists(path):
            with target(THREADS % 5) as process:
                run = cprofd("attach", process.pid, "--mode=" + mode, "-o", path, env=environment(CPROFD_SOCKET="none"))
            expect(run.returncode == 0, "a recording", run.err)
        return path


def push(receiver, *args, **how):
    url = receiver if isinstance(receiver, str) else receiver.url
    return cprofd("push", "--otlp", url, *args, **how)


# --- files ---

def test_convert(recordings):
    for mode in ("cpu", "wall"):
        out = os.path.join(recordings.work, mode + ".otlp.gz")
        run = cprofd("convert", recordings.path(mode), *(["-i"] if mode == "wall" else []), "-o", out)
        expect(run.returncode == 0, "convert", run.err)
        with Receiver() as receiver, open(out, "rb") as file:
            receiver.told.add(Request.FromString(gzip.decompress(file.read())))
            arrived(receiver, recordings.path(mode), mode)
            main = [r for r in receiver.told.resources if r.get("process.runtime.name") == "cpython"]
            expect(main and main[0]["process.executable.name"].startswith("python") and main[0]["process.pid"] > 0, "the resource", receiver.told.resources)


def build_ids(process):
    """What readelf says of the files whose code a process maps, by their names: "" of those without one."""
    with open("/proc/%d/maps" % process.pid) as maps:
        paths = {line.split()[5] for line in maps if line.split()[1][2] == "x" and "/" in line}
    told = {os.path.basename(path): subprocess.run(["readelf", "-n", path], capture_output=True, text=True).stdout for path in paths}
    return {name: text.partition("Build ID: ")[2].split("\n")[0] for name, text in told.items()}


def mappings(path):
    """Of a file: names and build ids."""
    with gzip.open(path) as file:
        tables = Request.FromString(file.read()).dictionary
    keys = [(tables.string_table[a.key_strindex], a.value.string_value) for a in tables.attribute_table]
    return {tables.string_table[m.filename_strindex]: dict(keys[i] for i in m.attribute_indices).get("process.executable.build_id.gnu", "") for m in tables.mapping_table[1:]}


def test_build_ids(recordings):
    path, out = (os.path.join(recordings.work, name) for name in ("ids.cprof", "ids.otlp.gz"))
    with target("import zlib\n" + BUSY + "data = bytes(range(256)) * 4096\nfor _ in range(100):\n    zlib.compress(data, 9)\nbusy(0.5)\n") as process:
        truth = build_ids(process)
        run = cprofd("attach", process.pid, "-o", path, env=environment(CPROFD_SOCKET="none"))
    expect(run.returncode == 0 and cprofd("convert", path, "-o", out).returncode == 0, "a recording", run.err)
    told = mappings(out)
    expect(any(name.startswith("libz") and build_id for name, build_id in told.items()), "libz is there", told)
    expect(all(told[name] == truth.get(name, "") for name in told), "as readelf says", told, truth)


def test_recordings_arrive(recordings):
    for mode in ("cpu", "wall"):
        with Receiver() as receiver:
            run = push(receiver, recordings.path(mode), "--every", 1, "--service", "it")
            expect(run.returncode == 0, "push", run.err)
            expect(receiver.requests > 1 and receiver.told.duplicates == 0, "requests", receiver.requests, receiver.told.duplicates)
            arrived(receiver, recordings.path(mode), mode)
            expect({r["service.name"] for r in receiver.told.resources} == {"it"}, "service.name", receiver.told.resources)
            expect(set(receiver.paths) == {PATH}, "paths", receiver.paths)
            header = receiver.headers[0]
            expect(header["Content-Type"] == "application/x-protobuf" and header["Content-Encoding"] == "gzip", "headers", header)


def test_bad_servers(recordings):
    path = recordings.path("cpu")
    scripts = {
        "busy": [(503, {"Retry_After": 1}), 429, (502, {"Retry_After": "soon"}), "ok", 504],
        "cut": ["cut", "ok", "cut", "cut"],
        "slow": ["ok", "slow"],
        "half": ["half", "ok", "half"],
        "nonsense": ["nonsense", "ok", "nonsense"],
        "endless": ["endless", "ok"],
        "ends in time": [(503, {"Retry_After": "Fri, 01 Jan 1999 00:00:00 GMT"}), (429, {"Retry_After": -5})],
    }
    for name, script in scripts.items():
        with Receiver(script) as receiver:
            run = push(receiver, path, "--every", 2)
            expect(run.returncode == 0, name, run.err)
            expect(receiver.told.duplicates == 0, name + ": no duplicates", receiver.told.duplicates)
            arrived(receiver, path)


def test_lost_answers(recordings):
    """The request has come, its answer has not: it comes again, and profile_id says so."""
    with Receiver(["lost", "ok", "lost"]) as receiver:
        run = push(receiver, recordings.path("cpu"), "--every", 1)
        expect(run.returncode == 0 and receiver.told.duplicates >= 2, "push", run.err, receiver.told.duplicates)
        arrived(receiver, recordings.path("cpu"))


def test_a_server_that_comes_later(recordings):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    client = subprocess.Popen([CPROFD, "push", "--otlp", "http://localhost:%d" % port, "--every", "1", recordings.path("cpu")], stderr=subprocess.PIPE, env=environment())
    expect("requests wait on disk" in client.stderr.readline().decode(), "the outage is told")
    with Receiver(port=port) as receiver:
        err = client.communicate(timeout=120)[1].decode()
        expect(client.returncode == 0 and "delivered again" in err, "push", err)
        arrived(receiver, recordings.path("cpu"))
        expect(receiver.told.duplicates == 0, "no duplicates")


def test_refusals(recordings):
    path = recordings.path("cpu")
    for status, words in ((401, "--header-file"), (404, "service.profilesSupport"), (400, "is this the address"), (307, "points elsewhere")):
        with Receiver([(status, {"Location": "http://localhost:1/"})] * 9) as receiver:
            fails(1, str(status), words, run=push(receiver, path, "--every", 1))
            expect(receiver.requests == 1, "asked once", receiver.requests)
    with Receiver(["ok", 400]) as receiver:
        fails(1, "refused", run=push(receiver, path, "--every", 1))
        expect(receiver.requests > 2, "the others are sent", receiver.requests)
    for page in ("too large", (400, {"Content_Length": 200000, "body": b"x" * 200000}), (400, {"Content_Length": 200000, "body": b"x"})):
        with Receiver(["ok", page]) as receiver:
            fails(1, "refused", "answers 4", run=push(receiver, path, "--every", 1))
            expect(receiver.requests > 2 and not receiver.told.duplicates, "refused once", receiver.requests)
    with Receiver(["page"]) as receiver:
        fails(1, "with a web page", "is this the address", run=push(receiver, path, "--every", 1))
        expect(receiver.requests == 1, "asked once", receiver.requests)
    with Receiver(["partial"]) as receiver:
        fails(1, "rejected 300 profiles", "it accepted: too old, too old", run=push(receiver, path))
    with Receiver(["warning"]) as receiver:
        run = push(receiver, path)
        expect(run.returncode == 0 and "the server says: soon too old" in run.err, "a warning", run.err)
    with Receiver([503] * 99) as receiver:
        fails(1, "was not delivered", "answers 503", run=push(receiver, path, "--retry", 2))
    fails(2, "no URL", run=push("localhost:4318", path))
    fails(2, "where to?", run=cprofd("push", path))
    fails(2, "which recordings", run=push("http://localhost:1"))
    fails(1, "is not a recording", run=push("http://localhost:1", "--retry", 1, __file__ if "/" in __file__ else "./" + __file__))


class Json(Told):
    """Requests in JSON; `messages`: in the order of their coming."""

    def __init__(self):
        super().__init__()
        self.messages = []

    def read(self, body):
        def ids(value):  # hexadecimal in OTLP's JSON, base64 in that of Protocol Buffers
            if isinstance(value, list):
                return [ids(item) for item in value]
            if not isinstance(value, dict):
                return value
            return {key: base64.b64encode(bytes.fromhex(item)).decode() if key in ("profileId", "traceId", "spanId") else ids(item) for key, item in value.items()}
        self.messages.append(json_format.ParseDict(ids(json.loads(gzip.decompress(body))), Request()))
        self.add(self.messages[-1])

    def response(self, step):
        return b'{"partialSuccess":{}}'


def test_json(recordings):
    """The parser that protobuf publishes reads in it what is in the binary form of the same request."""
    class Binary(Told):
        def __init__(self):
            super().__init__()
            self.messages = []

        def add(self, request):
            self.messages.append(request)
    for mode in ("cpu", "wall"):
        with Receiver(told=Json()) as receiver, Receiver(told=Binary()) as other:
            for server, more in ((receiver, ["--json"]), (other, [])):
                run = push(server, recordings.path(mode), "--every", 1, *more)
                expect(run.returncode == 0, "push", run.err)
            expect({h["Content-Type"] for h in receiver.headers} == {"application/json"}, "headers", receiver.headers)
            arrived(receiver, recordings.path(mode), mode)
            expect(receiver.told.messages == other.told.messages and len(other.told.messages) > 1, "the same messages", len(other.told.messages))
    fails(2, "only OTLP has a form in JSON", run=cprofd("push", "--pyroscope", "http://localhost:1", "--json", recordings.path("cpu")))


def test_headers(recordings):
    path, secret = recordings.path("cpu"), "Bearer 7Tk-secret"
    file = os.path.join(recordings.work, "headers")
    with open(file, "w") as out:
        out.write("# for the collector\nAuthorization: %s\n\nX-More: 1\n" % secret)
    with Receiver() as receiver:
        run = push(receiver.url + "/", path, "--header", "X-One: a b", "--header-file", file, "--tenant", "us")
        expect(run.returncode == 0 and "secret" not in run.err, "push", run.err)
        has = receiver.headers[0]
        expect((has["X-One"], has["Authorization"], has["X-More"], has["X-Scope-OrgID"]) == ("a b", secret, "1", "us"), "headers", has)
    for wrong in ("X-One", "X-One:", ": a", "X-One: a\r\nX-Two: b"):
        fails(2, "is no header", run=push("http://localhost:1", path, "--header", wrong))
    with open(file, "w") as out:
        out.write("Bearer 7Tk-secret\n")
    run = push("http://localhost:1", path, "--header-file", file)
    fails(2, "is no header", run=run)
    expect("7Tk" not in run.err, "no secret is shown", run.err)


def test_proxy(recordings):
    with Receiver() as receiver:
        run = push("http://collector.invalid:4318", recordings.path("cpu"), env=environment(http_proxy=receiver.url))
        expect(run.returncode == 0, "push", run.err)
        expect(receiver.paths[0] == "http://collector.invalid:4318" + PATH, "by the proxy", receiver.paths)
        arrived(receiver, recordings.path("cpu"))


def certificate(work, name):
    key, cert = (os.path.join(work, name + end) for end in (".key", ".pem"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=" + name,
                    "-addext", "subjectAltName=DNS:" + name], check=True, stderr=subprocess.DEVNULL)
    return cert, key


def test_tls(recordings):
    good, other = certificate(recordings.work, "localhost"), certificate(recordings.work, "other.example")
    path = recordings.path("cpu")
    with Receiver(tls=good) as receiver:
        expect(push(receiver, path, "--ca-file", good[0]).returncode == 0, "a certificate that is trusted")
        arrived(receiver, path)
    for tls, ca in ((good, None), (good, other[0]), (other, other[0])):
        with Receiver(tls=tls) as receiver:
            fails(1, "its certificate is not trusted, or is not for this host", "--ca-file", run=push(receiver, path, *(["--ca-file", ca] if ca else [])))
            expect(not receiver.requests, "nothing was sent")
    with Receiver(tls=good) as receiver:
        fails(1, "the file of --ca-file", run=push(receiver, path, "--ca-file", "/nonexistent"))


# --- sessions ---

def test_a_process(recordings):
    """By a daemon, as a user without privileges, over an outage."""
    with folder() as work, daemon(os.path.join(work, "socket")), target(BUSY + "busy(6)", uid=65534) as process, \
            Receiver(["ok", 503, "cut", (503, {"Retry_After": 2})]) as receiver:
        run = cprofd("push", "--otlp", receiver.url, "--socket", os.path.join(work, "socket"), "--every", "0.5", process.pid, prefix=as_nobody())
        expect(run.returncode == 0, "push", run.err)
        told = receiver.told
        expect(not receiver.failed and told.duplicates == 0 and receiver.requests > 4, "requests", receiver.failed, receiver.requests)
        expect("delivered {:,} samples".format(told.samples["cpu"]) in run.err, "all arrive", told.samples, run.err)
        expect({(r["process.pid"], r["host.name"]) for r in told.resources} == {(process.pid, socket.gethostname())}, "the resource", told.resources)


@contextlib.contextmanager
def container():
    """A control group as Docker makes one for a container, and the container's id; None, None: there are none here."""
    name = secrets.token_hex(32)
    made = cgroup.make("docker-%s.scope" % name)
    try:
        yield made, made and name
    finally:
        cgroup.end(made)


def enter(group, process):
    with open(os.path.join(group, "cgroup.procs"), "w") as file:
        file.write(str(process.pid))


def test_a_container(recordings):
    """A process that is in one, a child that it forks, and one beside them that is in none."""
    with container() as (group, name), folder() as work, daemon(os.path.join(work, "socket")), Receiver() as receiver:
        if not group:
            skip("no cgroup v2 in which one can be made")
            return
        with target(FORKS, uid=NOBODY) as inside, target(FORKS, uid=NOBODY) as outside:
            enter(group, inside)
            client = subprocess.Popen([*as_nobody(), CPROFD, "push", "--otlp", receiver.url, "--socket", os.path.join(work, "socket"), "--every", "0.5", "-s",
                                       str(inside.pid), str(outside.pid)], stderr=subprocess.PIPE, env=environment())
            expect(until(lambda: {r["process.pid"] for r in list(receiver.told.resources)} == {inside.pid, outside.pid}), "both are sampled", receiver.told.resources)
            for process in (inside, outside):
                process.send_signal(signal.SIGUSR1)
            err = client.communicate(timeout=60)[1].decode()
            expect(client.returncode == 0 and not receiver.failed, "push", err, receiver.failed)
            children = [int(process.stdout.readline()) for process in (inside, outside)]
        has = {r["process.pid"]: r.get("container.id") for r in receiver.told.resources}
        expect(has == {inside.pid: name, children[0]: name, outside.pid: None, children[1]: None}, "container.id", has, name, children)


def test_a_clock_that_is_set(recordings):
    """What is sampled after that has the new time."""
    with folder() as work, target(BUSY + "busy(60)") as process, Receiver() as receiver:
        more, step = stepped(work)
        client = subprocess.Popen([CPROFD, "push", "--otlp", receiver.url, "--every", "0.5", str(process.pid)], stderr=subprocess.PIPE,
                                  env=environment(CPROFD_SOCKET="none", **more))
        expect(until(lambda: receiver.requests), "it runs")
        open(step, "w").close()
        expect(until(lambda: receiver.told.latest > time.time() + 7000), "the new time", receiver.told.latest - time.time())
        client.send_signal(signal.SIGINT)
        err = client.communicate(timeout=60)[1].decode()
        expect(client.returncode == 0 and not receiver.failed and not receiver.told.duplicates, "push", err, receiver.failed)


def test_follow(recordings):
    """What --continuous completes arrives once: the server is away for a while, push is killed in the middle and begins again, a file is none."""
    with folder() as work:
        of = os.path.join(work, "of")
        bad = os.path.join(of, "cprofd-20200101T000000.000Z-1.cprof")
        recorder = subprocess.Popen([CPROFD, "record", "-q", "--continuous", of, "--rotate-age", "1s", "--", PYTHON, "-c", THREADS % 5], stdout=subprocess.DEVNULL,
                                    env=environment(CPROFD_SOCKET="none"), group=NOBODY, umask=0o027)
        os.chmod(work, 0o755)
        kept = os.path.join(work, "kept")
        os.mkdir(kept)
        os.chown(kept, NOBODY, NOBODY)
        done = lambda: sorted(name for name in os.listdir(of) if name.startswith("cprofd-202") and name.endswith(".cprof"))  # noqa: E731
        expect(until(lambda: os.path.isdir(of) and len(done()) > 1), "it records")
        for path in (bad, os.path.join(of, "other.cprof")):
            with open(path, "w") as file:
                file.write("no recording\n")
        with Receiver([503] * 3 + ["ok", "slow", "ok", "slow"]) as receiver:
            command = as_nobody(CPROFD, "push", "--otlp", receiver.url, "--every", "0.2", "--follow", of, "--state", os.path.join(kept, "delivered"))
            client = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment())
            expect(until(lambda: receiver.requests > 5, 60), "it begins")
            client.kill()
            expect(bad.encode() in client.communicate()[1], "a file that is none is told")
            expect(recorder.wait() == 0, "the recorder")
            client = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment())
            state = lambda: open(os.path.join(kept, "delivered")).read().split()  # noqa: E731
            expect(until(lambda: state() == done(), 60), "all are delivered", state(), done(), client.poll())
            client.terminate()
            err = client.communicate(timeout=60)[1].decode()
            expect(client.returncode == 0, "it ends", err)
            whole, told = sum(json.loads(cprofd("report", os.path.join(of, name), "--json").out)["tables"][0]["total_ns"] for name in done() if name not in bad), receiver.told
            expect(not receiver.failed and told.sums["cpu"] == whole, "the sum", told.sums, whole, receiver.failed)
            requests, sums = receiver.requests, dict(told.sums)
            client = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment())
            expect(not until(lambda: receiver.requests > requests, 2), "nothing is sent again", receiver.requests, requests)
            client.terminate()
            expect(client.wait() == 0 and dict(told.sums) == sums, "it ends", client.communicate())
        with open(os.path.join(work, "state"), "w") as file:
            file.write("\n".join(done()[:-1]))
        with Receiver([401] * 9) as receiver:
            fails(1, "401", run=push(receiver, "--follow", of, "--state", os.path.join(work, "state")))
        expect(open(os.path.join(work, "state")).read().split() == done()[:-1], "what was refused is not noted")
        with open(os.path.join(kept, "delivered"), "w") as file:
            file.write("\n".join(done()[:-1]))
        os.chmod(os.path.join(of, done()[-1]), 0)
        run = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60)
        expect(run.returncode == 1 and "Permission denied" in run.stderr and done()[-1] not in state(), "what may not be read waits", run.stderr)
    fails(1, "cannot be noted", "--state", run=push("http://localhost:1", "--follow", "/nonexistent"))
    fails(2, "--follow is", run=push("http://localhost:1", "--follow", ".", "a.cprof"))
    fails(2, "add --follow", run=push("http://localhost:1", "--state", "x", "a.cprof"))


def test_all(recordings):
    """--all finds a Python that starts later, and only this user's: one that no other test has processes of."""
    uid = 65533
    push_all = ("setpriv", "--reuid=%d" % uid, "--regid=%d" % uid, "--clear-groups", CPROFD, "push")
    with folder() as work, daemon(os.path.join(work, "socket")), Receiver() as receiver, target(BUSY + "busy(60)"), target(BUSY + "busy(60)", uid=uid) as one:
        client = subprocess.Popen([*push_all, "--otlp", receiver.url, "--socket", os.path.join(work, "socket"), "--every", "0.5", "--all"],
                                  stderr=subprocess.PIPE, env=environment())
        pids = lambda: {r["process.pid"] for r in list(receiver.told.resources)}  # noqa: E731
        try:
            expect(until(lambda: pids() == {one.pid}), "the first", pids())
            with target(BUSY + "busy(60)", uid=uid) as two:
                expect(until(lambda: pids() == {one.pid, two.pid}), "the second", pids())
        finally:
            client.send_signal(signal.SIGINT)
            err = client.communicate(timeout=60)[1].decode()
        expect(client.returncode == 0, "push", err)
        expect("delivered {:,} samples".format(receiver.told.samples["cpu"]) in err and not receiver.told.duplicates, "all arrive", receiver.told.samples, err)
    with folder() as work, Receiver() as receiver, target(BUSY + "busy(60)", uid=uid):
        with daemon(os.path.join(work, "socket")):
            client = subprocess.Popen([*push_all, "--otlp", receiver.url, "--socket", os.path.join(work, "socket"), "--every", "0.5", "--all"],
                                      stderr=subprocess.PIPE, env=environment())
            expect(until(lambda: receiver.told.samples["cpu"]), "it runs")
        err = client.communicate(timeout=60)[1].decode()
        expect(client.returncode == 1 and "no daemon answers" in err, "the daemon is gone", err)
    fails(2, "not for root", run=push("http://localhost:1", "--all"))


def main():
    if os.geteuid() or not classes():
        skip("needs root" if os.geteuid() else "opentelemetry-proto is not there (pip install opentelemetry-proto)")
        return finish()
    with folder() as work:
        run_tests(globals(), sys.argv[1:], Recordings(work))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
