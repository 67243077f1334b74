#!/usr/bin/python3
"""An engine that misbehaves: every attempt (tests/tools/misbehave.c) is refused or ends it, for a user's engine and for
root's. Its victim runs as the engine's own user. The same attempts without the sandbox show that they can succeed.

run-live: beside
"""
import os
import pathlib
import pwd
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "build/tests/tools/misbehave"
USER, NOBODY = 64999, 65534

passed = failed = skipped = 0


def check(good, name, *what):
    global passed, failed
    passed += bool(good)
    failed += not good
    if not good:
        print("FAILED", name, *what)


def engine_of_root():
    try:
        return pwd.getpwnam("cprofd").pw_uid
    except KeyError:
        return NOBODY


def attempt(victim, name, uid, *options):
    tried = subprocess.run([TOOL, "-u", str(uid), *options, str(victim.pid), name], stdout=subprocess.PIPE, text=True, timeout=60)
    return ", ".join(tried.stdout.split("\n")[:-1]) or f"exit status {tried.returncode}"


def main():
    global skipped
    names = subprocess.run([TOOL, "-l"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    for uid, engine in (USER, USER), (0, engine_of_root()):
        victim = subprocess.Popen(["setpriv", f"--reuid={engine}", f"--regid={engine}", "--clear-groups", "sleep", "600"],
                                  stdin=subprocess.DEVNULL)
        try:
            found = {name: attempt(victim, name, uid) for name in names}
            bare = {name: attempt(victim, name, uid, "-b") for name in names}
        finally:
            victim.kill()
            victim.wait()
            pathlib.Path("/tmp/misbehave-link").unlink(missing_ok=True)
        for name, result in found.items():
            good = result.startswith(("refused", "killed: seccomp")) or name in ("kind", "send_rights") and result.startswith("ended: 137")
            check(good, f"uid {uid}: {name}", result)
        kills = sum(result == "killed: seccomp" for result in found.values())
        check(kills >= 20, f"uid {uid}: seccomp ends the engine", found)
        can = [name for name, result in bare.items() if result == "succeeded"]
        check(len(can) >= 8, f"uid {uid}: attempts that succeed without the sandbox", bare)
        print(f"uid {uid}: {len(names)} attempts, {kills} killed by seccomp; without the sandbox {len(can)} succeed: {' '.join(can)}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if os.geteuid():
    print("skipped: needs root\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)
sys.exit(main())
