#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The command line against everything that goes wrong: processes that do not exist, are not
Python, belong to others, die, exec and fork; full disks, links, stale sockets, missing rights.

    cli.py [NAME ...]     only the tests whose names contain one of these. Needs root.

run-live: beside
"""
import contextlib
import fcntl
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import termios
import time

import cli_files
import cli_processes
import cli_summary
from lib.command import (CPROFD, NOBODY, PYTHON, ROOT, Skip, as_nobody, attached, cprofd, daemon, environment, expect, fails, folder,
                      names, sampled, target)
from lib.wait import until

# --- what it is asked to do ---

def test_bad_usage():
    with target() as process:
        pid = str(process.pid)
        for args in ([], ["nonsense"], ["attach"], ["attach", "abc"], ["attach", "0"], ["attach", "-5"], ["attach", pid, "0"],
                     ["attach", pid, "-r", "0"], ["attach", pid, "-r", "21k"], ["attach", pid, "-r", "fast"],
                     ["attach", pid, "-r", "1.5"], ["attach", pid, "-d", "-1"], ["attach", pid, "-d", "x"],
                     ["attach", pid, "-f", "htmls"], ["attach", pid, "-f", "svgz"], ["attach", pid, "-o"],
                     ["attach", pid, "-o", ""], ["attach", pid, "--native=most"],
                     ["attach", pid, "--mode=walls"], ["attach", pid, "-g=1"], ["report", "a", "-i"],
                     ["attach", pid, "--stream", "-o", "-"], ["attach", pid, "--bogus"], ["attach", pid, "-Z"],
                     ["record"], ["record", "--"], ["record", "-p", pid, "--", "true"], ["convert"],
                     ["convert", "a", "b"], ["report"], ["report", "a", "--by=callers"], ["report", "a", "--phases"], ["report", "a", "--depth", "2", "--by=unit"], ["attach", pid, "--stream", "--open"], ["report", "a", "--sort=name"], ["convert", "a", "--window", "3,1"], ["serve", "x"], ["help", "nonsense"]):
            run = cprofd(*args)
            fails(2, run=run)
            expect(run.err.strip() and not run.out, "nothing was said on stderr, or something on stdout", args, run.out)


def test_unknown_names():
    fails(2, "did you mean attach?", "record, serve", run=cprofd("atach", "1"))
    fails(2, "there is no command 'flame'", "convert, report", run=cprofd("flame"))
    fails(2, "did you mean report?", run=cprofd("help", "reprot"))
    fails(2, "speedscope, collapsed (raw), svg (flamegraph), html, pprof, firefox, perfetto, otlp, events", run=cprofd("convert", "a", "-f", "gecko"))


def test_unknown_options():
    fails(2, "attach has no option --bogus\n", run=cprofd("attach", "1", "--bogus"))
    fails(2, "attach has no option --durration: did you mean --duration?", run=cprofd("attach", "1", "--durration=3"))
    fails(2, "--gil takes no value", run=cprofd("attach", "1", "--gil=1"))
    fails(2, "--output needs FILE", run=cprofd("attach", "1", "-o"))
    fails(2, "--rate needs HZ", run=cprofd("attach", "1", "--rate"))
    fails(2, "--native takes its value in the same word: --native=leaf", run=cprofd("attach", "1", "--native", "leaf"))
    fails(2, "options follow the command", run=cprofd("--duration", "3", "attach", "1"))
    fails(2, "report has no option -i; attach, record, convert, push have it", run=cprofd("report", "a", "-i"))
    fails(2, "dump has no option --lines; attach, record, convert, report, top have it", run=cprofd("dump", "1", "--lines"))


def test_help_is_of_its_command():
    """An option that several commands have says what it means to each."""
    for command, words in (("convert", "the recording's name"), ("attach", "cprofd-PID-TIME"), ("top", "until q"), ("report", "--by=line;"),
                           ("diff", "which time is compared")):
        told = " ".join(cprofd(command, "--help").out.split())
        expect(words in told, "%s --help does not say %r" % (command, words), told)
    expect("no classes of time" not in cprofd("dump", "--help").out, "a dump has none in any case")
    # -n is --native; as the letter of --top it is no longer documented, and still accepted.
    expect("-n," not in cprofd("report", "--help").out, "-n has two meanings")
    fails(2, "--top: 'x' is not a number of rows", run=cprofd("report", "a", "-n", "x"))
    for command in ("attach", "top", "report", "diff", "dump", "convert"):
        other = [c for c in ("report:", "diff:", "attach, record:") if c in cprofd(command, "--help").out.split("Options:")[1]]
        expect(not other, "%s --help tells of other commands" % command, other)


def test_help_is_data():
    for args in (["--help"], ["--version"], ["help"], ["help", "attach"], ["attach", "--help"], ["record", "-h"]):
        run = cprofd(*args)
        expect(run.returncode == 0 and run.out and not run.err, "help goes to stdout", args, run.err)
    expect("--subprocesses" in cprofd("attach", "--help").out, "an option is missing in --help")


def test_generated_pages():
    man = cprofd("help", "--man").out
    bash = cprofd("help", "--completion=bash").out
    zsh = cprofd("help", "--completion=zsh").out
    fish = cprofd("help", "--completion=fish").out
    for option in ("subprocesses", "duration", "window", "socket", "native"):
        for page in (man.replace("\\-", "-"), bash, zsh, fish.replace("-l ", "--")):
            expect("--" + option in page, "a page lacks --" + option)
    expect(subprocess.run(["bash", "-n"], input=bash.encode()).returncode == 0, "bash refuses its completion")
    done = subprocess.run(["bash", "-c", bash + "\nCOMP_WORDS=(cprofd attach --sub); COMP_CWORD=2; _cprofd; echo ${COMPREPLY[@]}"],
                          stdout=subprocess.PIPE).stdout.decode()
    expect(done.strip() == "--subprocesses", "the completion does not complete", done)
    done = subprocess.run(["bash", "-c", bash + "\nCOMP_WORDS=(cprofd report --by = cl); COMP_CWORD=4; _cprofd; echo ${COMPREPLY[@]}"],
                          stdout=subprocess.PIPE).stdout.decode()
    expect(done.strip() == "class", "a value after = is not completed", done)
    done = subprocess.run(["bash", "-c", bash + "\nCOMP_WORDS=(cprofd diff a b --by t); COMP_CWORD=5; _cprofd; echo ${COMPREPLY[@]}"],
                          stdout=subprocess.PIPE).stdout.decode()
    expect(not done.strip(), "no table of diff begins so", done)
    if shutil.which("fish"):
        for given, completed in (("attach --sub", "--subprocesses"), ("report --by=cl", "--by=class"), ("rep", "report"), ("dump --native=l", "--native=leaf")):
            done = subprocess.run(["fish", "-c", fish + "\ncomplete -C 'cprofd %s'" % given], stdout=subprocess.PIPE).stdout.decode()
            expect(done.split("\t")[0] == completed and len(done.splitlines()) == 1, "fish does not complete " + given, done)
    if shutil.which("man"):
        page = subprocess.run(["man", "--warnings", "-l", "-"], input=man.encode(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=environment(LC_ALL="C.UTF-8"))
        expect(page.returncode == 0 and not page.stderr, "man complains", page.stderr)


def test_what_is_printed_arrives():
    """Or the exit status is 1; a reader that ends early has read enough."""
    for args in (("help",), ("attach", "--help"), ("check",), ("rules", "list"), ("help", "--man")):
        with open("/dev/full", "w") as full:
            run = subprocess.run([CPROFD, *args], stdout=full, stderr=subprocess.PIPE, env=environment())
        expect(run.returncode == 1 and b"stdout could not be written: No space left on device" in run.stderr, "a full disk", args, run.stderr)
        reader, writer = os.pipe()
        os.close(reader)
        run = subprocess.run([CPROFD, *args], stdout=writer, stderr=subprocess.PIPE, env=environment())
        os.close(writer)
        expect(not run.stderr, "a pipe that nobody reads", args, run.stderr)


def test_commands_that_cannot_run():
    with folder() as work:
        for name, mode, text in (("script.py", 0o644, "pass\n"), ("plain", 0o755, "#!/bin/sh\n"), ("strange", 0o755, "#!/no/interpreter\n"), ("closed", 0o644, "#!/bin/sh\n")):
            with open(os.path.join(work, name), "w") as file:
                file.write(text)
            os.chmod(file.name, mode)
        for command, hint in (("script.py", "cprofd record -- python3 script.py"), ("./script.py", "python3 ./script.py"), ("plain", "./plain"), ("/", "it is a directory"),
                              ("./strange", "the interpreter that its first line names"), ("./closed", "chmod +x"), ("no-such-command", "check the command's name")):
            fails(1, command + " cannot be run: ", hint, run=cprofd("record", "-o", "a.cprof", "--", command, cwd=work))


# --- rights ---

def test_nobody_without_daemon():
    with folder(NOBODY) as work, target() as process:
        run = cprofd("attach", process.pid, "-d", "1", cwd=work, prefix=as_nobody())
        fails(1, "sudo", run=run)
        expect(os.listdir(work) == [], "something was left behind", os.listdir(work))


def test_daemon_serves_its_users():
    with folder() as run_dir, folder(NOBODY) as work:
        path = os.path.join(run_dir, "s.sock")
        with daemon(path), target() as roots, target(uid=NOBODY) as own:
            expect(os.stat(path).st_mode & 0o777 == 0o666, "the socket is not for everyone")
            fails(1, "process %d belongs to root (uid 0)" % roots.pid, "sudo", run=cprofd("attach", roots.pid, "-d", "1", "--socket", path, cwd=work, prefix=as_nobody()))
            run = cprofd("attach", own.pid, "-d", "1", "--socket", path, "-o", "a.json", cwd=work, prefix=as_nobody())
            fails(0, "open it at", run=run)
            output = os.path.join(work, "a.json")
            expect(os.stat(output).st_uid == NOBODY and "leaf" in names(output), "not nobody's file")
            status = json.loads(cprofd("status", "--json", "--socket", path).out)
            expect(status["version"], "status tells no version", status)


def test_why_a_process_may_not_be_read():
    """A user reads which of the kernel's rules it is, and of which process."""
    nobody = pwd.getpwuid(NOBODY).pw_name
    hides = "import ctypes, sys, time; ctypes.CDLL(None).prctl(4, 0); print('up', flush=True); time.sleep(60)"
    up = ("sh", "-c", "echo up; exec sleep 60")
    with folder() as run_dir, folder() as work, contextlib.ExitStack() as stack:
        path, setuid = os.path.join(run_dir, "s.sock"), os.path.join(work, "sleep")
        shutil.copy(shutil.which("sleep"), setuid)
        os.chmod(setuid, 0o4755)
        stack.enter_context(daemon(path))
        cases = {
            "belongs to root (uid 0)": up,
            "is yours, but lets nobody read its memory: it is not dumpable": (*as_nobody(), PYTHON, "-c", hides),
            "runs a setuid program, with the rights of root (uid 0)": (*as_nobody(), "sh", "-c", "echo up; exec %s 60" % setuid),
            "runs with the rights of another group than you do: daemon (gid 1)": ("setpriv", "--reuid=%d" % NOBODY, "--regid=1", "--clear-groups", "--", *up),
            "is yours, but holds capabilities": ("setpriv", "--reuid=%d" % NOBODY, "--regid=%d" % NOBODY, "--clear-groups", "--inh-caps=+net_raw", "--ambient-caps=+net_raw", "--", *up),
        }
        for words, command in cases.items():
            process = subprocess.Popen(command, stdout=subprocess.PIPE)
            stack.callback(process.wait)
            stack.callback(process.kill)
            process.stdout.readline()
            expect(until(lambda: open("/proc/%d/comm" % process.pid).read().strip() in ("sleep", "python3")), "it does not begin", command)
            for told in (("attach", process.pid, "-d", "0.2", "-o", "/dev/null", "--socket", path), ("dump", process.pid, "--socket", path)):
                fails(1, "process %d %s" % (process.pid, words), "sudo", run=cprofd(*told, prefix=as_nobody()))
            check = cprofd("check", process.pid, prefix=as_nobody())
            expect("process %d %s" % (process.pid, words) in check.out, "check, too", nobody, check.out)


def test_capabilities_of_the_unit():
    """The daemon needs no more than what its systemd unit leaves it."""
    unit = open(os.path.join(ROOT, "systemd", "cprofd.service.in")).read()
    kept = next(line for line in unit.split("\n") if line.startswith("CapabilityBoundingSet=")).split("=")[1].lower().split()
    last = int(open("/proc/sys/kernel/cap_last_cap").read())
    every = subprocess.run(["capsh", "--decode=%x" % ((1 << last + 1) - 1)], stdout=subprocess.PIPE).stdout.decode()
    dropped = [c for c in every.strip().split("=")[1].split(",") if c not in kept]
    prefix = ("capsh", "--drop=" + ",".join(dropped), "--no-new-privs", "--", "-c", 'exec "$0" "$@"')
    with folder() as work, target() as roots, target(uid=NOBODY) as own:
        os.chmod(work, 0o777)
        path = os.path.join(work, "s.sock")
        with daemon(path, prefix):
            fails(0, run=cprofd("attach", roots.pid, "-d", "1", "--socket", path, "-o", "a.json", cwd=work))
            fails(0, run=cprofd("attach", own.pid, "-d", "1", "--socket", path, "-o", "b.json", cwd=work, prefix=as_nobody()))
            for output in ("a.json", "b.json"):
                expect("leaf" in names(os.path.join(work, output)), "the file lacks the functions")


def test_missing_capabilities():
    with target() as process:
        for dropped, word in (("cap_bpf,cap_sys_admin", "CAP_BPF"), ("cap_perfmon,cap_sys_admin", "CAP_PERFMON")):
            prefix = ("capsh", "--drop=" + dropped, "--", "-c", 'exec "$0" "$@"')
            run = cprofd("attach", process.pid, "-d", "1", "-o", "/dev/null", prefix=prefix)
            fails(1, word, run=run)
            check = cprofd("check", prefix=prefix)
            row = next((line for line in check.out.split("\n") if word in line), "")
            expect(check.returncode == 1 and row.startswith("missing"), "check does not name " + word, check.out)
            check = json.loads(cprofd("check", "--json", prefix=prefix).out)
            row = next(row for row in check["checks"] if row["name"] == word)
            expect(not check["works"] and row["help"], "check --json does not name " + word, row)


def test_a_remedy_is_said_once():
    run = cprofd("check", prefix=as_nobody())
    remedies = [line.strip() for line in run.out.split("\n") if "-> " in line]
    expect(run.returncode == 1 and len(remedies) == len(set(remedies)), "a remedy is repeated", run.out)
    rows = [row["name"] for row in json.loads(cprofd("check", "--json", prefix=as_nobody()).out)["checks"] if row["help"].startswith("sudo cprofd") and row["state"] != "ok"]
    shared = " ".join(run.out.split("\n-> sudo cprofd")[1].split("\n\n")[0].split())
    expect(len(rows) > 2 and shared.endswith("for " + ", ".join(rows)), "the remedy does not name its rows", run.out, rows)


def test_check():
    with target() as process:
        run = cprofd("check", process.pid)
        expect(run.returncode == 0 and "CPython 3" in run.out, "check does not find the Python", run.out)


# --- signals and clients ---

def test_interrupt_writes_the_file():
    with folder() as work, target() as process:
        for number in (signal.SIGINT, signal.SIGTERM):
            with attached(work, process, seconds=2) as client:  # a busy machine lets the target run in some of it
                client.send_signal(number)
            expect("leaf" in names(os.path.join(work, "a.json")), "the file lacks the functions")


def test_interrupt_at_a_terminal():
    with folder() as work, target() as process:
        master, slave = os.openpty()
        client = subprocess.Popen([CPROFD, "attach", str(process.pid), "-o", "a.json"], cwd=work, env=environment(),
                                  stdin=slave, stderr=slave, start_new_session=True,
                                  preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        said, stopped = b"", False
        with contextlib.suppress(OSError):
            while True:
                chunk = os.read(master, 65536)
                if not chunk:
                    break
                said += chunk
                if not stopped and re.search(rb"[1-9]\d* samples.*samples/s", said):
                    stopped = os.write(master, b"\x03")
        os.close(master)
        expect(client.wait(60) == 0, "exit status", said)
        expect(b"samples" in said and b"samples/s" in said, "no progress on a terminal", said)
        # What follows the last carriage return of a line is what stays on the screen.
        expect(not re.search(rb"Ctrl-C[^\r\n]*cprofd:", said), "the summary stands behind the progress line", said)
        expect("leaf" in names(os.path.join(work, "a.json")), "the file lacks the functions")


def test_client_vanishes():
    with folder() as run_dir:
        path = os.path.join(run_dir, "s.sock")
        with daemon(path) as server, target() as process:
            client = subprocess.Popen([CPROFD, "attach", str(process.pid), "--socket", path, "-o", "/dev/null"],
                                      stderr=subprocess.DEVNULL, env=environment())

            def has(sessions):
                return json.loads(cprofd("status", "--json", "--socket", path).out)["sessions"] == sessions

            expect(until(lambda: has(1)), "the session is not there")
            client.kill()
            client.wait()
            expect(until(lambda: has(0)), "the session goes on without its client")
            expect(server.poll() is None, "the daemon ended")


def children_of(pid):
    listed = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid="], stdout=subprocess.PIPE).stdout
    return [int(p) for p in listed.split()]


def test_client_killed_takes_its_engine_along():
    with folder() as work, target() as process:
        client = subprocess.Popen([CPROFD, "attach", str(process.pid), "-o", "a.cprof"], cwd=work, env=environment(),
                                  stderr=subprocess.DEVNULL)
        sampled(work, client, 0)
        helpers = children_of(client.pid)
        helpers += [p for h in helpers for p in children_of(h)]
        expect(helpers, "there is no broker")
        client.kill()
        client.wait()
        expect(until(lambda: not any(os.path.exists("/proc/%d" % p) for p in helpers)), "broker or engine outlive their client", helpers)


# --- sockets ---

def test_stale_socket():
    with folder() as work:
        path = os.path.join(work, "s.sock")
        stale = socket.socket(socket.AF_UNIX)
        stale.bind(path)
        stale.close()
        with target() as process:
            fails(1, "no daemon answers", path, run=cprofd("attach", process.pid, "-d", "1", "--socket", path, "-o", "/dev/null"))
        with daemon(path):
            expect(cprofd("status", "--socket", path).returncode == 0, "the daemon does not answer")
            fails(1, "a daemon answers", run=cprofd("serve", "--socket", path))
            status = cprofd("status", "--socket", path)
            expect(status.returncode == 0, "the second one broke the first")
            expect(re.search(r"^losses +(none|[\d,]+ \w+)$", status.out, re.M), "losses", status.out)
        expect(not os.path.exists(path), "the socket was left behind")
        with open(path, "w") as file:
            file.write("precious")
        fails(1, "no socket", run=cprofd("serve", "--socket", path))
        expect(open(path).read() == "precious", "a file was replaced")
        fails(1, "--socket", run=cprofd("serve", "--socket", "/" + "x" * 200))


@contextlib.contextmanager
def listener(backlog):
    """A socket that listens, and its path: what is behind it is none of cprofd's."""
    with folder() as work, socket.socket(socket.AF_UNIX) as listening:
        path = os.path.join(work, "s.sock")
        listening.bind(path)
        listening.listen(backlog)
        yield listening, path


def test_daemon_that_hangs():
    """Its backlog is full: whoever wants to know whether it is there does not wait for ever."""
    with listener(0) as (_, path), socket.socket(socket.AF_UNIX) as waiting:
        waiting.connect(path)
        fails(1, "accepts no connection", "--socket", run=cprofd("serve", "--socket", path))
        expect(os.path.exists(path), "its socket was removed")


def test_lines_before_the_answer():
    """A line that is no answer, as long as the one before it, is no silence."""
    with listener(1) as (listening, path):
        client = subprocess.Popen([CPROFD, "status", "--json", "--socket", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        end, _ = listening.accept()
        for i in range(3):
            end.sendall(b'{"ev":"news","n":%d}\n' % i)
            time.sleep(0.2) # so that it reads each by itself
        end.sendall(b'{"ev":"answer","id":1,"ok":true,"status":{"version":"7"}}\n')
        out, err = client.communicate(timeout=60)
        expect(client.returncode == 0 and json.loads(out) == {"version": "7"}, "no status", out, err.decode())
        end.close()


def test_socket_activation():
    with listener(4) as (listening, path):
        fd = listening.fileno()
        shell = 'export LISTEN_PID=$$ LISTEN_FDS=1; exec "%s" serve 3<&%d' % (CPROFD, fd)
        server = subprocess.Popen(["bash", "-c", shell], pass_fds=(fd,), stderr=subprocess.PIPE, env=environment())
        listening.close()
        try:
            expect("listens at " + path in server.stderr.readline().decode(), "it did not take the socket over")
            expect(cprofd("status", "--socket", path).returncode == 0, "the daemon does not answer")
            server.terminate()
            expect(server.wait(60) == 0, "SIGTERM is no clean end")
            expect(os.path.exists(path), "systemd's socket was removed")
        finally:
            server.kill()
            server.wait()
            server.stderr.close()


def test_install():
    with folder() as work:
        run = subprocess.run(["make", "-s", "-C", ROOT, "install", "PREFIX=/usr", "DESTDIR=" + work,
                              "B=" + os.path.relpath(os.path.dirname(CPROFD), ROOT)],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment(MAKEFLAGS=""))
        expect(run.returncode == 0, "make install failed", run.stdout.decode())
        for path in ("bin/cprofd", "libexec/cprofd/cprofd-engine", "share/man/man1/cprofd.1", "share/doc/cprofd/rules.md", "share/doc/cprofd/report.md", "share/bash-completion/completions/cprofd",
                     "share/zsh/site-functions/_cprofd", "share/fish/vendor_completions.d/cprofd.fish", "lib/systemd/system/cprofd.socket", "lib/systemd/system/cprofd.service",
                     "lib/systemd/system/cprofd-agent.service", "lib/systemd/system/cprofd-push.service",
                     "lib/sysusers.d/cprofd.conf"):
            path = os.path.join(work, "usr", path)
            expect(os.path.getsize(path) > 0, path + " is empty")
        expect(subprocess.run([os.path.join(work, "usr/bin/cprofd"), "--version"], stdout=subprocess.PIPE).stdout, "it does not run")
        with daemon(os.path.join(work, "socket"), program=os.path.join(work, "usr/bin/cprofd")) as broker:
            client = socket.socket(socket.AF_UNIX)
            client.connect(os.path.join(work, "socket"))
            client.recv(1)
            with open(f"/proc/{broker.pid}/task/{broker.pid}/children") as file:
                engine, = file.read().split()
            program = os.path.realpath(os.path.join(work, "usr/libexec/cprofd/cprofd-engine"))
            expect(os.readlink(f"/proc/{engine}/exe") == program, "its engine is another program", os.readlink(f"/proc/{engine}/exe"))
            client.close()
        if not shutil.which("systemd-analyze"):
            raise Skip("no systemd-analyze to verify the units with")
        units = os.path.join(work, "usr/lib/systemd/system")
        service = os.path.join(units, "cprofd.service")
        text = open(service).read()
        expect("ExecStart=/usr/bin/cprofd serve" in text, "the unit starts something else", text)
        with open(service, "w") as file: # verify looks for the program
            file.write(text.replace("/usr/bin/cprofd", os.path.join(work, "usr/bin/cprofd")))
        run = subprocess.run(["systemd-analyze", "--man=no", "verify", service, os.path.join(units, "cprofd.socket")],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = [line for line in run.stdout.decode().split("\n") if "cprofd" in line]
        expect(not said, "systemd-analyze complains", "\n".join(said))


def main():
    if os.geteuid() != 0:
        print("skipped: cli needs root\n0 passed, 0 failed, 1 skipped")
        return 0
    passed = failed = skipped = 0
    tests = {**vars(cli_processes), **vars(cli_files), **vars(cli_summary), **globals()}
    for name, test in sorted(tests.items()):
        if not name.startswith("test_") or (sys.argv[1:] and not any(word in name for word in sys.argv[1:])):
            continue
        begin = time.monotonic()
        try:
            test()
            passed += 1
            print("ok %s (%.1f s)" % (name[5:], time.monotonic() - begin), flush=True)
        except Skip as reason:
            skipped += 1
            print("skipped %s: %s" % (name[5:], reason), flush=True)
        except (AssertionError, subprocess.TimeoutExpired, OSError, KeyError, ValueError, StopIteration) as error:
            failed += 1
            print("FAILED %s: %s: %s" % (name[5:], type(error).__name__, error), flush=True)
    print("%d passed, %d failed, %d skipped" % (passed, failed, skipped))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
