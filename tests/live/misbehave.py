#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""An engine that misbehaves: every attempt (tests/tools/misbehave.c) is refused or ends it, for a user's engine and for
root's. Its victim, which its client named, runs as the engine's own user. The same attempts without the sandbox, and
with all of them named, show that they can succeed.

run-live: beside
"""
import os
import pathlib
import pwd
import random
import subprocess
import sys
import tempfile
import time

from lib.wait import until
from lib.result import check, finish, skip

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "build/tests/tools/misbehave"
USER, NOBODY = 64999, 65534
OTHER = "import subprocess; p = subprocess.Popen(['sleep', '600']); print(p.pid, flush=True); p.wait()"
# Asked of the broker: of root's engine nothing but the names of its clients keeps these.
ASKED = {"pid_one", "pid_one_sample", "other_dump", "other_sample", "other_children", "other_child", "the_broker", "pid_zero",
         "pid_negative", "other_authorised", "other_child_authorised", "pid_one_authorised", "other_file", "other_debug",
         "other_perf_map", "other_watch", "other_thread", "forged_target", "host", "other_adopted"}


def engine_of_root():
    try:
        return pwd.getpwnam("cprofd").pw_uid
    except KeyError:
        return NOBODY


def with_child():
    """A process of root's, and its child: no client names them."""
    other = subprocess.Popen([sys.executable, "-c", OTHER], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    return other, int(other.stdout.readline())


def attempt(victim, others, name, uid, *options):
    other, child = others
    arguments = ["-u", str(uid), "-o", str(other.pid), "-c", str(child), *options, str(victim.pid), name]
    tried = subprocess.run([TOOL, *arguments], stdout=subprocess.PIPE, text=True, timeout=60)
    return ", ".join(tried.stdout.split("\n")[:-1]) or f"exit status {tried.returncode}"


# Many children, so that to attach takes a while; in it, or after it, their parent becomes a program of root's.
BECOMES = """
import os, signal, sys
for i in range(int(sys.argv[2])):
    if not os.fork():
        signal.pause()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.write(1, b"ready\\n")
signal.sigwait([signal.SIGUSR1])
os.execv(sys.argv[1], [sys.argv[1]])
"""
CHILDREN = 150


def becoming(tries, chance):
    """The user's engine asks for a file of what its target has become, which is setuid and not to be read."""
    results, becomes = [], 0
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        program = os.path.join(folder, "guarded")
        subprocess.run(["gcc", "-x", "c", "-no-pie", "-o", program, "-"], input=b"#include <unistd.h>\nint main(void) { return sleep(20); }", check=True)
        os.chmod(program, 0o4711)
        for i in range(tries):
            victim = subprocess.Popen(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "/usr/bin/python3", "-c", BECOMES, program, str(CHILDREN)],
                                      stdout=subprocess.PIPE, start_new_session=True)
            try:
                victim.stdout.readline()
                tool = subprocess.Popen([TOOL, "-u", str(USER), str(victim.pid), "became"], stdout=subprocess.PIPE, text=True)
                time.sleep(chance.random() * 1.0)
                os.kill(victim.pid, 10)
                results.append(tool.communicate(timeout=60)[0].split("\n")[0])
                becomes += until(lambda: os.readlink(f"/proc/{victim.pid}/exe") == program) or 0
            finally:
                os.killpg(victim.pid, 9)
                victim.wait()
    check(becomes == tries and not any(result == "succeeded" for result in results), "what a target becomes is not its user's", becomes, results)
    print(f"{tries} targets that become a setuid program: {sorted(set(results))}")


def main():
    becoming(int(os.environ.get("TRIES", "8")), random.Random(int(os.environ.get("SEED", "1"))))
    names = subprocess.run([TOOL, "-l"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    for uid, engine in (USER, USER), (0, engine_of_root()):
        victim = subprocess.Popen(["setpriv", f"--reuid={engine}", f"--regid={engine}", "--clear-groups", "sleep", "600"],
                                  stdin=subprocess.DEVNULL)
        others = with_child()
        try:
            found = {name: attempt(victim, others, name, uid) for name in names}
            bare = {name: attempt(victim, others, name, uid, "-b") for name in names}
        finally:
            os.kill(others[1], 9)
            for process in victim, others[0]:
                process.kill()
                process.wait()
            pathlib.Path("/tmp/misbehave-link").unlink(missing_ok=True)
        for name, result in found.items():
            good = result.startswith(("refused", "killed: seccomp")) or name in ("kind", "send_rights") and result.startswith("ended: 137")
            good = good and (name not in ASKED or result.startswith("refused"))
            check(good, f"uid {uid}: {name}", result)
        kills = sum(result == "killed: seccomp" for result in found.values())
        check(kills >= 20, f"uid {uid}: seccomp ends the engine", found)
        can = [name for name, result in bare.items() if result == "succeeded"]
        if not uid:
            named = {"other_dump", "other_sample", "other_children", "other_child"}
            check(named <= set(can), "root's engine gets what its client named", bare)
        check(len(can) >= 8, f"uid {uid}: attempts that succeed without the sandbox", bare)
        if os.environ.get("V"):
            print("\n".join(f"  {name}: {result}" for name, result in found.items()))
        print(f"uid {uid}: {len(names)} attempts, {kills} killed by seccomp; without the sandbox {len(can)} succeed: {' '.join(can)}")
    return finish()


if os.geteuid():
    skip("needs root")
    sys.exit(finish())
sys.exit(main())
