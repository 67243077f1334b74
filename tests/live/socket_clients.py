#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Live test of the engine: many clients, slow ones, broken ones, on real targets.

Needs root and the built cprofd (CPROFD=path). Each test has a daemon of its own.

run-live: beside
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

from lib.client import Client, Daemon, Refused
from lib.recording import decode
from lib.wait import kernel_thread, until

PYTHON = os.environ.get("CPROFD_PYTHON", sys.executable)

# Each round runs code of its own with a long name: tables grow, so that a client
# that does not read fills its queue within seconds, and epochs change.
CHURN = """
import itertools
for i in itertools.count():
    name = "f%d_" % i + "x" * 800
    space = {}
    code = "def %s(n):\\n    s = 0\\n    for j in range(n):\\n        s += j\\n    return s\\n" % name
    exec(compile(code, "/" + "y" * 900 + str(i), "exec"), space)
    space[name](4000)
"""

STEADY = """
import threading
def leaf(n):
    s = 0
    for i in range(n):
        s += i
    return s
def middle():
    return leaf(3000) + leaf(4000)
def run():
    while True:
        middle()
threading.Thread(target=run, name="second", daemon=True).start()
run()
"""

SLEEP = "import time\nwhile True: time.sleep(0.1)"


class Target:
    def __init__(self, code, stdin=subprocess.DEVNULL):
        self.process = subprocess.Popen([PYTHON, "-c", code], stdin=stdin)
        self.pid = self.process.pid
        time.sleep(0.3)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def rss(pid):
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    return 0


class Memory(threading.Thread):
    """The largest RSS of the daemon's children, watched."""

    def __init__(self, daemon):
        super().__init__(daemon=True)
        self.of, self.peak, self.going = daemon, 0, True
        self.start()

    def run(self):
        while self.going:
            for pid in self.of.engines():
                try:
                    self.peak = max(self.peak, rss(pid))
                except OSError:
                    pass
            time.sleep(0.05)

    def stop(self):
        self.going = False
        self.join()
        return self.peak


class Reader(threading.Thread):
    """Reads a client to the session's end."""

    def __init__(self, client):
        super().__init__(daemon=True)
        self.client, self.error = client, None
        self.start()

    def run(self):
        try:
            self.client.until_end()
        except Exception as error:  # told by the test's thread
            self.error = error

    def lines(self, timeout=60):
        self.join(timeout)
        assert not self.is_alive(), "no `end` came"
        if self.error:
            raise self.error
        return self.client.events


def first_sample(lines):
    for i, line in enumerate(lines):
        if line.startswith(b'{"ev":"samples"'):
            return i
    return len(lines)


def check_joined(whole, joined):
    """What a late joiner got: tables without samples, then exactly what the first one got."""
    at = first_sample(joined)
    live = joined[at:]
    assert live, "no samples"
    assert whole[-len(live):] == live, "a client got other events than the first one"
    a, b = decode(whole), decode(joined)
    assert b.samples, "no samples"
    assert a.samples[-len(b.samples):] == b.samples, "a late joiner's tables say something else"
    return len(live)


def raw_stall(daemon, session):
    """A client that subscribes and never reads: its buffer is made small."""
    client = daemon.connect()
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.request("subscribe", session=session)
    return client


def overflow(reading):
    """Waits until what a client that reads nothing missed is more than its queue takes, 8 MiB, however long a busy machine needs to
    make that."""
    begin = sum(map(len, reading.events))
    assert until(lambda: sum(map(len, reading.events)) - begin > 12 << 20, 240, 0.3), "the queue did not fill"


# --- tests ---

def test_twenty_clients(daemon):
    memory = Memory(daemon)
    with Target(CHURN) as a, Target(STEADY) as b, Target(SLEEP) as c:
        owners = [daemon.connect() for _ in range(3)]
        sessions = [owner.request("attach", pid=t.pid, rate=rate)["session"]
                    for owner, t, rate in zip(owners, (a, b, c), (8000, 999, 999))]
        readers = [[Reader(owner)] for owner in owners]
        stalled = raw_stall(daemon, sessions[0])
        for i in range(16):
            client = daemon.connect()
            client.request("subscribe", session=sessions[i % 3])
            readers[i % 3].append(Reader(client))
            time.sleep(0.1)
        control = daemon.connect()
        clients = control.request("status")["status"]["clients"]
        assert clients == 21, "%d clients" % clients
        overflow(owners[0])
        # The first flush that does not fit into 8 MiB begins the gap, as a whole: at an epoch's start it has up to 4.
        queued = control.request("status")["status"]["queued_bytes"]
        assert queued > 4 << 20, "%d bytes are queued" % queued
        for session in sessions:
            control.request("stop", session=session)
        got = [[reader.lines() for reader in group] for group in readers]
        joined = 0
        for i, group in enumerate(got):
            assert decode(group[0]).end["reason"] == "stopped"
            for lines in group[1:]:
                if i < 2:
                    joined += check_joined(group[0], lines)
                else:
                    assert lines[-1] == group[0][-1]
        tables = decode(got[0][0])
        assert not tables.gaps, "a reading client had a gap"
        peak = memory.stop()
        # The stalled one is told now: what it had, a gap, and the end.
        lines = stalled.until_end()
        missed = decode(lines)
        sent = sum(map(len, got[0][0]))
        print(f"    {sum(len(g) for g in got)} streams, {sent >> 20} MiB on the first session, epochs "
              f"{tables.kinds.count('epoch')}, {joined} live lines compared, engine's peak RSS {peak >> 20} MiB, "
              f"gap of {missed.gaps[0]['bytes'] >> 10 if missed.gaps else 0} KiB")
        assert len(missed.gaps) == 1 and missed.gaps[0]["events"] > 0, "no gap was told"
        assert peak < 128 << 20, f"the engine grew to {peak >> 20} MiB"


def test_gap_goes_on(daemon):
    with Target(CHURN) as target:
        owner = daemon.connect()
        session = owner.request("attach", pid=target.pid, rate=8000)["session"]
        reader = Reader(owner)
        stalled = raw_stall(daemon, session)
        control = daemon.connect()
        overflow(owner)
        late = Reader(stalled)

        def goes_on():
            lines = list(stalled.events)
            gap = next((i for i, line in enumerate(lines) if line.startswith(b'{"ev":"gap"')), len(lines))
            return first_sample(lines[gap + 1:]) < len(lines) - gap - 1

        assert until(goes_on, 150, 0.2), "nothing came after the gap"
        control.request("stop", session=session)
        whole, lines = reader.lines(), late.lines()
        gap = next(i for i, line in enumerate(lines) if line.startswith(b'{"ev":"gap"'))
        before = first_sample(lines)
        n = gap - before
        start = whole.index(lines[before])
        assert whole[start:start + n] == lines[before:gap], "before the gap events were missing"
        check_joined(whole, lines[gap + 1:])
        decode(lines)
        print(f"    {n} lines, {json.loads(lines[gap])['bytes'] >> 10} KiB gap, {len(lines) - gap} lines")


def test_late_joiner_of_long_session(daemon):
    with Target(STEADY) as target:
        owner = daemon.connect()
        session = owner.request("attach", pid=target.pid)["session"]
        reader = Reader(owner)
        late = []
        for _ in range(4):
            time.sleep(0.5)
            client = daemon.connect()
            client.request("subscribe", session=session)
            late.append(Reader(client))
        time.sleep(1)
        owner_lines = daemon.connect()
        owner_lines.request("stop", session=session)
        whole = reader.lines()
        for one in late:
            check_joined(whole, one.lines())
        tables = decode(whole)
        names = {name for sample in tables.samples for name, _ in sample[4]}
        assert {"leaf", "middle", "run"} <= names, names
        assert {t["name"] for t in tables.threads.values()} & {"second", "python3"}, tables.threads


def test_snapshot(daemon):
    with Target(STEADY) as target:
        client = daemon.connect()
        session = client.request("attach", pid=target.pid, spool=True)["session"]
        counts = []
        for i in range(4):
            time.sleep(0.4 * i)
            with tempfile.TemporaryFile() as into:
                asker = daemon.connect()
                answer = asker.request("snapshot", fds=[into.fileno()], session=session, fd=True)
                into.seek(0)
                data = into.read()
                assert len(data) == answer["bytes"], (len(data), answer)
                lines = unpack(data)
                tables = decode(lines)
                assert tables.kinds[0] == "hello" and tables.end["reason"] == "snapshot"
                counts.append(len(tables.samples))
                asker.close()
        assert counts == sorted(counts) and counts[-1] > counts[0], counts
        # without a descriptor: as bytes, while the same connection streams
        client.events.clear()
        streamed = client.request("snapshot", session=session)
        lines = unpack(client.read(streamed["bytes"]))
        assert decode(lines).end["reason"] == "snapshot"
        client.request("stop", session=session)
        live = client.until_end()
        assert all(json.loads(line) for line in live)
        plain = daemon.connect()
        other = plain.request("attach", pid=target.pid)["session"]
        refused("NO_SPOOL", plain, "snapshot", session=other)


def unpack(data):
    out = subprocess.run(["zstd", "-dcq"], input=data, stdout=subprocess.PIPE, check=True).stdout
    assert out.endswith(b"\n")
    return out.splitlines()


def refused(code, client, req, **keys):
    try:
        client.request(req, **keys)
    except Refused as refusal:
        assert refusal.code == code, refusal
        assert refusal.answer["error"]
        return
    raise AssertionError(f"{req} {keys} was not refused")


def test_spool_of_a_full_disk(_):
    """The live stream goes on, the ledger says it once, and what was written before can be had."""
    folder, disk = tempfile.mkdtemp(), tempfile.mkdtemp()
    os.chmod(folder, 0o755)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=1777", "none", disk], check=True)
    env = {key: value for key, value in os.environ.items() if key != "XDG_RUNTIME_DIR"}
    daemon = Daemon(folder, env=dict(env, TMPDIR=disk))
    try:
        with Target(CHURN) as target:
            client = daemon.connect()
            session = client.request("attach", pid=target.pid, rate=8000, spool=True)["session"]
            deadline = time.monotonic() + 150
            full = 0
            while not full and time.monotonic() < deadline:
                event = json.loads(client.line())
                full = event["ev"] == "ledger" and event["losses"].get("disk_full", 0)
            assert full == 1, f"disk_full: {full}"
            answer = client.request("snapshot", session=session)
            lines = unpack(client.read(answer["bytes"]))
            kept = decode(lines)
            assert kept.kinds[0] == "hello" and kept.end["reason"] == "snapshot" and kept.samples, (
                kept.kinds[:20], len(kept.kinds), kept.end)
            client.events.clear()
            # It reads, as the names of what this target makes are 8 MB a second: more than a queue holds.
            more = time.monotonic() + 1
            while time.monotonic() < more:
                client.events.append(client.line())
            client.request("stop", session=session)
            live = client.until_end()
            assert any(line.startswith(b'{"ev":"samples"') for line in live), "the live stream stopped"
            ledgers = [json.loads(line) for line in live if line.startswith(b'{"ev":"ledger"')]
            assert ledgers[-1]["losses"]["disk_full"] == 1, ledgers[-1]
    finally:
        stopped = daemon.stop()
        subprocess.run(["umount", disk], check=True)
        os.rmdir(disk)
        shutil.rmtree(folder)
    assert stopped, "the daemon did not end"


def test_snapshot_descriptors(daemon):
    with Target(STEADY) as target:
        client = daemon.connect()
        session = client.request("attach", pid=target.pid, stream=False)["session"]
        refused("NO_FD", client, "snapshot", session=session, fd=True)
        reading, writing = os.pipe()
        with open(PYTHON, "rb") as file:
            refused("BAD_FD", client, "snapshot", session=session, fd=True, fds=[file.fileno()])
        refused("BAD_FD", client, "snapshot", session=session, fd=True, fds=[writing])
        os.close(reading)
        os.close(writing)
        with open("/dev/full", "wb") as full:
            refused("BAD_FD", client, "snapshot", session=session, fd=True, fds=[full.fileno()])
        assert not client.events, "stream:false, but events came"
        # One that came with a refused request, or with one that wants none, is not another request's.
        with tempfile.NamedTemporaryFile() as wrong:
            refused("NO_SESSION", client, "stop", session=4711, fd=True, fds=[wrong.fileno()])
            refused("NO_SESSION", client, "snapshot", session=4711, fds=[wrong.fileno()])
            refused("BAD_VALUE", client, "snapshot", session="x", fd=True, fds=[wrong.fileno()])
            client.request("status", fds=[wrong.fileno()])
            refused("NO_FD", client, "snapshot", session=session, fd=True)
            with tempfile.NamedTemporaryFile() as right:
                size = client.request("snapshot", session=session, fd=True, fds=[right.fileno()])["bytes"]
                assert os.stat(right.name).st_size == size and not os.stat(wrong.name).st_size, "written into another request's file"
        # stop with a file: all of it, up to the session's own end.
        refused("NO_FD", client, "stop", session=session, fd=True)
        assert len(client.request("sessions")["sessions"]) == 1, "a refused stop stopped it"
        with tempfile.NamedTemporaryFile() as file:
            size = client.request("stop", session=session, fd=True, fds=[file.fileno()])["bytes"]
            lines = subprocess.run(["zstdcat", file.name], stdout=subprocess.PIPE, check=True).stdout.splitlines()
            assert size == os.stat(file.name).st_size, size
            assert json.loads(lines[-1])["reason"] == "stopped" and sum(b'"ev":"end"' in line for line in lines) == 1, lines[-1]
            assert any(b'"ev":"thread_end"' in line for line in lines), "it is not the whole"
        wait_sessions(daemon.connect(), 0)


def wait_sessions(client, n):
    deadline = time.monotonic() + 60
    while len(client.request("sessions")["sessions"]) != n:
        assert time.monotonic() < deadline, client.request("sessions")
        time.sleep(0.05)


def test_bad_requests(daemon):
    with Target(STEADY) as target:
        watcher = daemon.connect()
        session = watcher.request("attach", pid=target.pid)["session"]
        reader = Reader(watcher)
        client = daemon.connect()

        def send(data):
            client.socket.sendall(data)
            return client.answer()

        assert send(b"what?\n")["code"] == "BAD_JSON"
        assert send(b"[1,2]\n")["code"] == "BAD_JSON"
        assert send(b"\xff\xfe\n")["code"] == "BAD_JSON"
        assert send(b'{"req":"status","id":3,"x":' + b"[" * 50000 + b"}\n")["code"] == "BAD_JSON"
        assert send(b"x" * 300000 + b"\n")["code"] == "TOO_LONG"
        answer = send(b'{"req":"fly","id":9}\n')
        assert (answer["id"], answer["code"]) == (9, "UNKNOWN_REQ")
        refused("MISSING", client, "attach")
        refused("BAD_VALUE", client, "attach", pid="x")
        refused("NO_SESSION", client, "stop", session=77)
        refused("NO_PROCESS", client, "attach", pid=2 ** 22 - 3)
        refused("NOT_SUBSCRIBED", client, "unsubscribe")
        # in pieces, and several at once
        for byte in b'{"req":"status","id":5}':
            client.socket.sendall(bytes([byte]))
        assert send(b"\n")["id"] == 5
        client.socket.sendall(b'{"req":"status","id":6}\n\n{"req":"sessions","id":7}\n')
        assert [client.answer()["id"], client.answer()["id"]] == [6, 7]
        # half a request, then the end of its half of the connection
        client.socket.sendall(b'{"req":"stat')
        client.socket.shutdown(socket.SHUT_WR)
        assert client.answer()["code"] == "HALF"
        assert client.socket.recv(100) == b"", "said all, but still open"
        # 200 KB without a newline, and gone
        rude = daemon.connect()
        rude.socket.sendall(b"y" * 200000)
        rude.close()
        # nothing of it reached the others, who are sampled for so long
        until(lambda: first_sample(list(watcher.events)) < len(watcher.events))
        control = daemon.connect()
        control.request("stop", session=session)
        tables = decode(reader.lines())
        assert tables.samples and not tables.gaps


def test_half_closed_listens(daemon):
    """`echo '{"req":"attach",...}' | nc -U socket` works."""
    with Target(STEADY) as target:
        client = daemon.connect()
        client.name(target.pid)
        client.socket.sendall(b'{"req":"attach","pid":%d,"duration_ms":700}\n' % target.pid)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.answer()["ok"]
        tables = decode(client.until_end())
        assert tables.samples and tables.end["reason"] == "duration"


def test_not_pythons(daemon):
    client = daemon.connect()
    sleep = subprocess.Popen(["sleep", "100"])
    try:
        time.sleep(2.1)  # older than a program that only starts
        refused("NOT_PYTHON", client, "attach", pid=sleep.pid)
    finally:
        sleep.kill()
        sleep.wait()
    refused("KERNEL_THREAD", client, "attach", pid=kernel_thread()) if kernel_thread() else None
    assert client.request("sessions")["sessions"] == []


def test_vanishing_client(daemon):
    with Target(STEADY) as target:
        control = daemon.connect()
        client = daemon.connect()
        client.request("attach", pid=target.pid)
        other = daemon.connect()
        other.request("subscribe", session=control.request("sessions")["sessions"][0]["session"])
        client.close()
        time.sleep(0.3)
        wait_sessions(control, 1)  # somebody still listens
        other.close()
        wait_sessions(control, 0)
        # before the answer to attach came
        for _ in range(5):
            rude = daemon.connect()
            rude.name(target.pid)
            rude.socket.sendall(b'{"req":"attach","pid":%d}\n' % target.pid)
            rude.close()
        time.sleep(0.5)
        wait_sessions(control, 0)
        keeper = daemon.connect()
        session = keeper.request("attach", pid=target.pid, keep=True, stream=False)["session"]
        keeper.close()
        time.sleep(0.3)
        wait_sessions(control, 1)
        control.request("stop", session=session)
        wait_sessions(control, 0)


def enough(tables, rate):
    """The samples that the CPU time of the threads gives at that rate."""
    cpu = sum(sample[3] for sample in tables.samples)
    return len(tables.samples) > 0.7 * cpu * rate / 1e9 > 10


def test_second_attach(daemon):
    with Target(STEADY) as target:
        a, b = daemon.connect(), daemon.connect()
        first = a.request("attach", pid=target.pid, rate=499)["session"]
        second = b.request("attach", pid=target.pid, duration_ms=1000)["session"]
        assert first != second
        reader_a, reader_b = Reader(a), Reader(b)
        tables = decode(reader_b.lines())
        assert tables.end["reason"] == "duration" and enough(tables, 999)
        daemon.connect().request("stop", session=first)
        other = decode(reader_a.lines())
        assert enough(other, 499) and other.session["rate"] == 499
        # the session that went on was not disturbed
        assert other.end["reason"] == "stopped"


def test_target_ends(daemon):
    with Target(STEADY) as target:
        client = daemon.connect()
        client.request("attach", pid=target.pid)
        reader = Reader(client)
        time.sleep(0.5)
        target.process.kill()
        tables = decode(reader.lines())
        assert tables.end["reason"] == "exited", tables.end
        assert tables.kinds.count("thread_end") == 2 and tables.kinds.count("process_end") == 1, tables.kinds[-8:]


def test_children(daemon):
    code = f"""
import os, subprocess, sys, time
def spin(t):
    end = time.monotonic() + t
    while time.monotonic() < end:
        pass
def forked(): spin(0.8)
sys.stdin.readline()
pid = os.fork()
if pid == 0:
    forked()
    os._exit(0)
subprocess.run([{PYTHON!r}, "-c", '''
import time
def executed():
    end = time.monotonic() + 0.8
    while time.monotonic() < end:
        pass
executed()
'''])
subprocess.run(["sleep", "0.2"])
os.waitpid(pid, 0)
def parent_again(): spin(0.5)
parent_again()
"""
    with Target(code, subprocess.PIPE) as target:
        client = daemon.connect()
        client.request("attach", pid=target.pid, subprocesses=True)
        target.process.stdin.close()
        tables = decode(Reader(client).lines(120))
        names = {}
        for tid, _, _, _, words in tables.samples:
            for name, _ in words:
                names.setdefault(name, set()).add(tid)
        for name in ("forked", "executed", "parent_again"):
            assert name in names, (name, sorted(names))
        assert names["forked"] != names["executed"]
        pythons = {p["pid"] for p in tables.processes.values() if p.get("python")}
        assert len(pythons) >= 3, tables.processes
        assert tables.end["reason"] == "exited"
        print(f"    processes {len(tables.processes)}, losses {tables.ledger.get('losses')}")


def test_limits(daemon):
    clients = [daemon.connect() for _ in range(64)]
    extra = daemon.connect()
    assert extra.answer()["code"] == "LIMIT"
    for client in clients[1:]:
        client.close()
    with Target(STEADY) as target:
        client = clients[0]
        for _ in range(32):
            client.request("attach", pid=target.pid, stream=False)
        refused("LIMIT", client, "attach", pid=target.pid, stream=False)
        client.close()
        time.sleep(0.5)
        wait_sessions(daemon.connect(), 0)


def connected_as(path, uid, gid, groups):
    """The pid of a client that is somebody else and stays connected."""
    told, tells = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setgroups(groups)
            os.setgid(gid)
            os.setuid(uid)
            client = Client(path)
            os.write(tells, b"1")
            client.socket.settimeout(None)
            client.socket.recv(1)
        finally:
            os._exit(0)
    os.close(tells)
    ready = os.read(told, 1)
    os.close(told)
    if not ready:
        os.waitpid(pid, 0)
        raise AssertionError("no hello")
    return pid


def test_engine_of_an_identity(daemon):
    """Who has another gid or other groups may look into other processes: an engine of its own."""
    identities = [(64999, 64999, []), (64999, 64999, []), (64999, 64998, []), (64999, 64999, [64997, 64998]),
                  (64999, 64999, [64998, 64997]), (64998, 64999, [])]
    clients = []
    try:
        for identity in identities:
            clients.append(connected_as(daemon.path, *identity))
        assert len(daemon.engines()) == 4, f"{len(daemon.engines())} engines"
    finally:
        for pid in clients:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_one_after_the_other(daemon):
    """The last client's engine leaves while the next comes: told to come again at worst (docs/protocol.md), and hardly ever."""
    again = 0
    for i in range(400):
        time.sleep(i % 20 * 0.0002)
        client = daemon.connect()
        try:
            client.socket.sendall(b'{"req":"status","id":1}\n')
        except BrokenPipeError:  # what it was told is there still
            pass
        again += client.answer().get("code") == "TRY_AGAIN"
        client.close()
    print(f"    {again} of 400 were told to connect again")
    assert again <= 40, f"{again} of 400 were told to connect again"


TESTS = [value for name, value in list(globals().items()) if name.startswith("test_")]


def main():
    if os.geteuid() != 0:
        print("skipped: socket_clients needs root\n0 passed, 0 failed, 1 skipped")
        return 0
    wanted = sys.argv[1:]
    passed = failed = 0
    for word in wanted:
        if not any(word in test.__name__ for test in TESTS):
            failed += 1
            print(f"FAIL no test is named {word}")
    for test in TESTS:
        if wanted and not any(word in test.__name__ for word in wanted):
            continue
        folder = tempfile.mkdtemp()
        os.chmod(folder, 0o755)
        daemon = Daemon(folder)
        try:
            test(daemon)
            passed += 1
            print(f"ok   {test.__name__}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAIL {test.__name__}: {type(error).__name__}: {error}", flush=True)
            if os.environ.get("V"):
                import traceback
                traceback.print_exc()
        finally:
            alive = daemon.process.poll() is None
            if not daemon.stop() or not alive:
                failed += 1
                print(f"FAIL {test.__name__}: the daemon {'did not end' if alive else 'died'}", flush=True)
            shutil.rmtree(folder)
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
