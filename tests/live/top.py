#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""`cprofd top` in a real terminal (tmux): what the screen shows, against a target whose time is known."""
import os
import re
import subprocess
import sys
import tempfile
import time

from lib import CPROFD
from lib.wait import until
from lib.result import check, finish

NOBODY = 65534
# By its own CPU clock: three quarters of its time in spin(), the rest in list.sort.
TARGET = """
import random, threading, time
def spin(until):
    x = 0
    while time.thread_time() < until:
        for i in range(20000):
            x += i
def order(until, numbers=[random.random() for _ in range(20000)]):
    while time.thread_time() < until:
        list(numbers).sort()
def work(end):
    while time.monotonic() < end:
        spin(time.thread_time() + 0.075)
        order(time.thread_time() + 0.025)
print("up", flush=True)
worker = threading.Thread(target=work, args=(time.monotonic() + %s,))
worker.start()
worker.join()
"""


class Terminal:
    made = 0

    def __init__(self, work, command, columns=120, lines=30):
        # A server of its own each: the one before may be about to exit.
        Terminal.made += 1
        self.tmux = ["tmux", "-S", os.path.join(work, "tmux%d" % Terminal.made), "-f", "/dev/null"]
        self.status = os.path.join(work, "status")
        env = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        subprocess.run(self.tmux + ["new-session", "-d", "-x", str(columns), "-y", str(lines),
                                    f"{command}; echo $? > {self.status}; echo at the prompt; sleep 30"], check=True, env=env)

    def screen(self):
        return subprocess.run(self.tmux + ["capture-pane", "-p"], capture_output=True, text=True).stdout

    def keys(self, *keys):
        subprocess.run(self.tmux + ["send-keys", *keys], check=True)

    def until(self, pattern, seconds=40):
        """The screen when the pattern is on it; the last one when it never is."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            text = self.screen()
            if re.search(pattern, text, re.M):
                return text
            time.sleep(0.1)
        return self.screen()

    def close(self):
        subprocess.run(self.tmux + ["kill-server"], capture_output=True)


def start(seconds, uid=None):
    extra = {"user": uid, "group": uid, "extra_groups": []} if uid else {}
    target = subprocess.Popen(["/usr/bin/python3", "-c", TARGET % seconds], stdout=subprocess.PIPE, text=True, **extra)
    target.stdout.readline()
    return target


def rows(text):
    """[(%own, %total, own time, total time, what)] of the table."""
    found = re.findall(r"^ *([\d.]+)% *([\d.]+)% *([\d.]+)s *([\d.]+)s  (.*)$", text, re.M)
    return [(*map(float, row[:4]), row[4]) for row in found]


def share(text, name, column):
    return next((row[column] for row in rows(text) if row[4].startswith(name)), 0)


def views(terminal):
    text = terminal.until(r"^ +\d.*spin ")
    check(rows(text) and rows(text)[0][4].startswith("spin (<string>:3)"), "functions: the hottest one is first", text)
    # So much of its CPU that parts of a round are little of it.
    until(lambda: share(terminal.screen(), "work", 3) > 2, pause=0.2)
    text = terminal.screen()
    own, total = share(text, "spin", 3), share(text, "work", 3)
    check(total and 0.65 < own / total < 0.85, "functions: spin has three quarters of work's time", own, total, text)
    terminal.keys("4")
    text = terminal.until(r"TotalTime")
    terminal.keys("k")
    text = terminal.until(r"classes of time \(")
    check({row[4] for row in rows(text)[:2]} == {"interpreter", "C call"}, "classes: the interpreter and what it calls", text)
    terminal.keys("c")
    text = terminal.until(r"C callees \([\s\S]*list.sort")
    check(share(text, "list.sort", 3) > 0, "C callees: list.sort", text)
    terminal.keys("t")
    text = terminal.until(r"threads \(\d+\)")
    check(re.search(r"s  \S.* \(\d+\)$", text, re.M), "threads: name and tid", text)
    terminal.keys("f", "L")
    text = terminal.until(r"lines \(")
    check(re.search(r"spin \(<string>:[67]\)", text), "lines: those of the loop", text)


def keys(terminal):
    terminal.keys("f", "/", "o", "r", "d", "e", "Enter")
    text = terminal.until(r"with /orde$")
    names = [row[4] for row in rows(text)]
    check(names and all("orde" in name for name in names), "/ finds", names)
    terminal.keys("Escape")
    terminal.until(r"functions \(\d+\)$")
    terminal.keys("p")
    before = terminal.until("paused")
    time.sleep(1.3)
    check(rows(before) and rows(before) == rows(terminal.screen()), "p: the table stays", before)
    terminal.keys("p", "r")
    text = terminal.until(r"^ +\d.*spin ")
    time.sleep(1.2)
    now = terminal.until(r"^ +\S+% +\S+% +\S+s +(?!0\.00s)\S+s +work ") # on a busy machine it is drawn at 0 first
    check(0 < share(now, "work", 3) < share(before, "work", 3), "r: the sums begin again", before, now)
    terminal.keys("?")
    check("order by %Own" in terminal.until("order by"), "? tells of the keys")
    terminal.keys("?")
    subprocess.run(terminal.tmux + ["resize-window", "-x", "60", "-y", "12"], check=True)
    until(lambda: rows(terminal.screen()) and max(map(len, terminal.screen().splitlines())) <= 60)
    text = terminal.screen()
    check(rows(text) and max(map(len, text.splitlines())) <= 60, "a smaller window is drawn anew", text)
    terminal.keys("q")
    text = terminal.until("at the prompt")
    check(open(terminal.status).read().strip() == "0" and "spin" not in text, "q gives the terminal back", text)


def case_root(work):
    target = start(600)
    terminal = Terminal(work, f"{CPROFD} top {target.pid}")
    views(terminal)
    keys(terminal)
    terminal.close()
    target.kill()
    target.wait()


def case_small(work):
    """80 columns, 24 lines: paths keep their ends, and the keys their line."""
    deep = os.path.join(work, *["a_folder_with_a_long_name"] * 4)
    os.makedirs(deep)
    program = os.path.join(deep, "the_program.py")
    with open(program, "w") as file:
        file.write(TARGET % 600 + "\n")
    terminal = Terminal(work, f"{CPROFD} top --lines -- /usr/bin/python3 {program}", 80, 24)
    text = terminal.until(r"^ +\d.*spin ")
    lines = text.splitlines()
    check(re.search(r"spin \(….*/the_program\.py:\d+\)$", text, re.M), "a path is cut at its begin, its line stays", text)
    check(max(map(len, lines)) <= 80 and lines[23].startswith("f l c t k u") and lines[23].endswith("q quit"), "the keys are there, whole", text)
    terminal.keys("?")
    text = terminal.until("Ctrl-C     quit")
    check("…" not in text.split("TotalTime", 1)[1], "and what they mean fits", text)
    terminal.keys("q")
    terminal.until("at the prompt")
    terminal.close()


def case_daemon(work):
    """As a user, through the daemon; and the end of the target."""
    os.chmod(work, 0o777)
    socket = os.path.join(work, "socket")
    daemon = subprocess.Popen([CPROFD, "serve", "--allow=own", "--socket", socket], stderr=subprocess.DEVNULL)
    for _ in range(100):
        if os.path.exists(socket):
            break
        time.sleep(0.1)
    target = start(600, NOBODY)
    terminal = Terminal(work, f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups {CPROFD} top --socket {socket} {target.pid}")
    check(share(terminal.until(r"^ +\d.*spin "), "spin", 3) > 0, "a user, by the daemon")
    target.kill()
    target.wait()
    text = terminal.until("ended")
    check("ended: the process ended" in text and share(text, "spin", 2) > 0, "the target's end is told, the table stays", text)
    terminal.keys("q")
    terminal.until("at the prompt")
    terminal.close()
    daemon.terminate()
    daemon.wait()


def case_command(work):
    """A command of its own, which does not write on the screen, and ends with the view."""
    mark = f"top_command_{os.getpid()}"
    program = os.path.join(work, mark + ".py")
    with open(program, "w") as file:
        file.write(TARGET % 600 + "\n")
    terminal = Terminal(work, f"{CPROFD} top -- /usr/bin/python3 {program}")
    text = terminal.until(r"^ +\d.*spin ")
    check(share(text, "spin", 3) > 0 and not re.search("^up", text, re.M), "a command is started, and seen", text)
    alive = subprocess.run(["pgrep", "-f", mark + ".py$"], capture_output=True, text=True).stdout.split()
    terminal.keys("q")
    terminal.until("at the prompt")
    check(alive and until(lambda: not any(os.path.exists(f"/proc/{pid}/exe") and mark in open(f"/proc/{pid}/cmdline").read() and
                                          "python3" in os.readlink(f"/proc/{pid}/exe") for pid in alive)), "it ends with the view", alive)
    terminal.close()
    terminal = Terminal(work, f"{CPROFD} top -- /nonexistent/program")
    check("cannot be run: No such file" in terminal.until("at the prompt"), "no such command")
    terminal.close()


def case_refusals(_):
    done = subprocess.run([CPROFD, "top", str(os.getpid())], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    check(done.returncode == 2 and "terminal" in done.stderr, "without a terminal it is refused", done)


wanted = sys.argv[1:]
for case in [x for x in list(globals()) if x.startswith("case_")]:
    if wanted and not any(w in case for w in wanted):
        continue
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        globals()[case](folder)
sys.exit(finish())
