#!/usr/bin/python3
# SPDX-License-Identifier: MIT
# run-live: beside
"""`cprofd view` by bare sockets: its page comes to who has the address, and nothing else comes to nobody."""
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

from lib import CPROFD, ROOT
from lib.command import UNTIL_TOLD, caller, cprofd, environment, fails, folder, sudo, target
from lib.result import check, finish
from lib.wait import until

MAKE = os.path.join(ROOT, "build/tests/tools/make_recording")


class View:
    """A view that is served; `address` is that of its page."""

    def __init__(self, *arguments, env=None, **more):
        env = {k: v for k, v in (env or environment()).items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
        self.process = subprocess.Popen([CPROFD, "view", *map(str, arguments)], stderr=subprocess.PIPE, env=env, text=True, **more)
        line = self.process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)(/[0-9a-f]{40}/)$", line.strip())
        if not found:
            raise AssertionError(line + self.process.stderr.read())
        self.address, self.port, self.page = found[0], int(found[1]), found[2]

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        return connection

    def ask(self, path=None, method="GET", host=None, headers=(), body=b""):
        """(status, head, body)"""
        lines = ["%s %s HTTP/1.1" % (method, self.page if path is None else path),
                 "Host: %s" % (host or "127.0.0.1:%d" % self.port), "Connection: close", *headers]
        return self.raw(("\r\n".join(lines) + "\r\n\r\n").encode() + body)

    def raw(self, request):
        with self.connect() as connection, contextlib.suppress(ConnectionResetError, BrokenPipeError):
            got = b""
            try:
                connection.sendall(request)
            except (ConnectionResetError, BrokenPipeError):
                pass
            with contextlib.suppress(ConnectionResetError):
                while data := connection.recv(1 << 16):
                    got += data
        head, _, rest = got.partition(b"\r\n\r\n")
        return (int(head.split()[1]) if head else 0), head.decode(), rest

    def end(self):
        self.process.send_signal(signal.SIGINT)
        rest = self.process.stderr.read()
        return self.process.wait(30), rest


def recording(work):
    path = os.path.join(work, "a.cprof")
    subprocess.run([MAKE, "-t", "2", "-s", "1", "-d", "10", "-u", "-f", "events", "-o", path], check=True, stdout=subprocess.DEVNULL)
    return path


def attacks(view, name):
    """Each is refused; nothing of the page comes along."""
    token, host = view.page, "127.0.0.1:%d" % view.port
    wrong = [
        ("no token", 404, dict(path="/")),
        ("a wrong token", 404, dict(path="/" + "0" * 40 + "/")),
        ("a token that is one letter off", 404, dict(path=token[:-2] + ("0" if token[-2] != "0" else "1") + "/")),
        ("a part of the token", 404, dict(path=token[:20] + "/")),
        ("the token as an argument", 404, dict(path="/?token=" + token[1:-1])),
        ("DNS rebinding", 403, dict(host="evil.example:%d" % view.port)),
        ("another port as Host", 403, dict(host="127.0.0.1:1")),
        ("localhost as Host", 403, dict(host="localhost:%d" % view.port)),
        ("two Hosts", 403, dict(headers=["Host: evil.example"])),
        ("another Origin", 403, dict(headers=["Origin: http://evil.example"])),
        ("Origin null", 403, dict(headers=["Origin: null"])),
        ("a POST of another origin", 403, dict(method="POST", headers=["Origin: http://evil.example", "Content-Length: 3"], body=b"a=b")),
        ("a POST of a form", 405, dict(method="POST", headers=["Content-Length: 3"], body=b"a=b")),
        ("a POST with the page's own Origin", 405, dict(method="POST", headers=["Origin: http://" + host, "Content-Length: 3"], body=b"a=b")),
        ("a preflight", 403, dict(method="OPTIONS", headers=["Origin: http://evil.example", "Access-Control-Request-Method: GET"])),
        ("in a frame of another page", 403, dict(headers=["Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: iframe"])),
        ("as a script of another page", 403, dict(headers=["Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: script"])),
        ("PUT", 405, dict(method="PUT")),
        ("DELETE", 405, dict(method="DELETE")),
        ("TRACE", 405, dict(method="TRACE")),
        ("a path upwards", 404, dict(path=token + "../../../../etc/passwd")),
        ("a path upwards, encoded", 404, dict(path=token + "%2e%2e%2f%2e%2e%2fetc%2fpasswd")),
        ("an absolute path", 404, dict(path=token + "/etc/passwd")),
        ("a path with a zero", 404, dict(path=token + "events%00.html")),
        ("a GET with a body", 413, dict(headers=["Content-Length: 3"], body=b"a=b")),
        ("a GET with a body without an end", 413, dict(headers=["Transfer-Encoding: chunked"], body=b"ffffffff\r\n")),
    ]
    for what, status, request in wrong:
        got, head, body = view.ask(**request)
        check(got == status and "Access-Control-Allow" not in head and len(body) < 200, f"{name}: {what} is refused with {status}", got, head)
    for what, request in (("an endless head", b"GET " + token.encode() + b" HTTP/1.1\r\nHost: " + host.encode() + b"\r\n" + b"X: y\r\n" * 100000),
                          ("a head of a megabyte", b"GET " + token.encode() + b" HTTP/1.1\r\nX: " + b"y" * (1 << 20) + b"\r\n\r\n"),
                          ("a path of a megabyte", b"GET /" + b"y" * (1 << 20) + b" HTTP/1.1\r\n\r\n"),
                          ("HTTP/1.1 without a Host", b"GET " + token.encode() + b" HTTP/1.1\r\n\r\n"),
                          ("HTTP/1.0 without a Host", b"GET " + token.encode() + b" HTTP/1.0\r\n\r\n"),
                          ("a proxy's request", b"GET http://evil.example" + token.encode() + b" HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
                          ("no HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(200) + b"\r\n\r\n")):
        got, head, body = view.raw(request)
        check(got == 0 or 400 <= got < 500, f"{name}: {what} is refused", got, head)


def served(view, name):
    """The page is there, with the headers that keep it in."""
    with urllib.request.urlopen(view.address) as answer:
        body, headers = answer.read(), answer.headers
    policies = " ".join(headers.get_all("Content-Security-Policy"))
    check(b"<title>" in body, f"{name}: the page comes")
    check("default-src 'none'" in policies and "frame-ancestors 'none'" in policies and "unsafe" not in policies, f"{name}: its policy", policies)
    check(headers["Referrer-Policy"] == "no-referrer" and headers["Cache-Control"] == "no-store" and headers["X-Content-Type-Options"] == "nosniff" and
          "Access-Control-Allow-Origin" not in headers, f"{name}: its headers", headers)
    return body


def addresses(view):
    """Where it listens: (address, port) of its sockets."""
    inodes = set()
    for fd in os.listdir("/proc/%d/fd" % view.process.pid):
        with contextlib.suppress(OSError):
            inodes.add(os.readlink("/proc/%d/fd/%s" % (view.process.pid, fd)))
    found = []
    for table in ("tcp", "tcp6"):
        with open("/proc/net/" + table) as lines:
            for line in list(lines)[1:]:
                words = line.split()
                if words[3] == "0A" and "socket:[%s]" % words[9] in inodes:
                    found.append((table, words[1]))
    return found


def slow(view, name):
    """Who opens connections and says nothing, or little, keeps nobody out for long, and is ended."""
    idle = [view.connect() for _ in range(70)]
    for connection in idle[::2]:
        with contextlib.suppress(OSError):
            connection.sendall(b"GET / HTTP/1.1\r\n")

    def ended(connection):
        connection.settimeout(0.01)
        try:
            return connection.recv(1) == b""
        except TimeoutError:
            return False
        except OSError:
            return True

    def all_ended():
        for connection in idle:
            with contextlib.suppress(OSError):
                connection.sendall(b"X")
        time.sleep(1)
        return all(map(ended, idle))
    check(until(all_ended, 40), f"{name}: connections without a request are ended, though they go on sending")
    check(until(lambda: view.ask()[0] == 200, 20), f"{name}: and the page comes again")
    for connection in idle:
        connection.close()


def identity(pid):
    with open("/proc/%d/status" % pid) as lines:
        return {key: value.split() for key, _, value in (line.partition(":") for line in lines)}


def is_dropped(pid, uid):
    status = identity(pid)
    return status["Uid"] == [str(uid)] * 4 and set(status["CapEff"] + status["CapPrm"] + status["CapBnd"]) == {"0" * 16} and status["NoNewPrivs"] == ["1"]


def of_a_file(work):
    path = recording(work)
    view = View(path)
    body = served(view, "file")
    want = os.path.join(work, "a.html")
    cprofd("convert", path, "-o", want)
    with open(want, "rb") as file:
        check(file.read() == body, "file: it is the report of `convert -f html`")
    where = addresses(view)
    check(where == [("tcp", "0100007F:%04X" % view.port)], "file: it listens at 127.0.0.1 alone", where)
    attacks(view, "file")
    check(view.ask(view.page + "events")[0] == 404, "file: there are no events")
    slow(view, "file")
    other = View(path)
    check(other.page != view.page and view.ask(other.page)[0] == 404, "file: each view has a token of its own")
    for it in (other, view):
        status, err = it.end()
        check(status == 0, "file: Ctrl-C ends it", status, err)
    fails(1, "made out of a recording", run=cprofd("view", want))
    fails(1, "cannot be read", run=cprofd("view", os.path.join(work, "none.cprof")))
    fails(2, "which recording", run=cprofd("view"))


def under_sudo(work):
    uid = caller()[0]
    path = recording(work)
    os.chmod(path, 0o644)
    view = View(path, env=sudo())
    check(is_dropped(view.process.pid, uid), "sudo: the server is the caller's, without capabilities", identity(view.process.pid))
    served(view, "sudo")
    check(view.end()[0] == 0, "sudo: Ctrl-C ends it")
    os.chmod(path, 0o600)
    fails(1, "cannot be read", run=cprofd("view", path, env=sudo()))


def events(view, seconds=20, until_event="ledger"):
    """Lines of the stream until one of such an event."""
    lines, text = [], b""
    with view.connect() as connection:
        connection.settimeout(seconds)
        connection.sendall(b"GET %sevents HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (view.page.encode(), view.port))
        while b'"ev":"%s"' % until_event.encode() not in text:
            data = connection.recv(1 << 16)
            if not data:
                break
            text += data
    return re.findall(rb"^data: (\{.*\})\r?$", text, re.M), text


def of_a_process(work):
    uid = caller()[0]
    with target(UNTIL_TOLD, uid=uid) as process:
        view = View(process.pid, "--socket", "none", "--native=off", env=sudo())
        check(is_dropped(view.process.pid, uid), "process: the server is the caller's, without capabilities", identity(view.process.pid))
        served(view, "process")
        attacks(view, "process")
        for path, status in (("events/../x", 404), ("live.js", 200), ("live.j", 404), ("source", 404), ("save?format=nothing", 400),
                             ("save?format=html&window=--rules", 400), ("save?format=html&thread=a", 400)):
            got = view.ask(view.page + path)[0]
            check(got == status, f"process: {path}: {status}", got)
        lines, text = events(view)
        check(lines and b'"ev":"hello"' in lines[0] and any(b'"ev":"samples"' in line for line in lines), "process: events as the protocol has them", text[:300])
        check(b'"ev":"answer"' not in text, "process: no answers among them")
        # Readers that do not read: the session, and the others, go on.
        stuck = []
        for _ in range(30):
            connection = view.connect()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(b"GET %sevents HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % (view.page.encode(), view.port))
            stuck.append(connection)
        full = [c for c in stuck if b" 503 " in c.recv(4096).split(b"\r\n")[0]]
        check(len(full) == 14, "process: at most 16 pages read", len(full))
        for connection in stuck:
            connection.close()
        # The others have read all that there is when they are closed, so nothing more is written to them.
        pages = [bool(events(view)[0]) for _ in range(40)]
        check(all(pages), "process: and another one comes as soon as one is gone", pages)
        status, head, body = view.ask(view.page + "save?format=events")
        check(status == 200 and body.startswith(b'{"ev":"hello"') and body.rstrip().endswith(b'"reason":"snapshot","detail":""}'), "process: what was recorded is saved", head, body[-200:])
        process.send_signal(signal.SIGUSR1)
        process.wait(20)
        lines, _ = events(view, until_event="end")
        check(b'"reason":"exited"' in lines[-1], "process: the end comes, too", lines[-1:])
        status, head, body = view.ask(view.page + "save?format=collapsed")
        check(status == 200 and b"leaf" in body, "process: and can be saved afterwards", head)
        status, err = view.end()
        check(status == 0, "process: Ctrl-C ends it", status, err)
    fails(1, "no such process", run=cprofd("view", "--socket", "none", 4194000))
    fails(2, "is a file", run=cprofd("view", "-r", "99", recording(work)))


if __name__ == "__main__":
    with folder() as work:
        of_a_file(work)
        under_sudo(work)
        of_a_process(work)
    sys.exit(finish())
