#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""cprofd on other kernels: Debian's 6.1 and 6.12 in guests, and this machine's own; built with the system's clang and
with newer ones. Prints the verifier's counts, kernel by compiler, and what passed.

    run.py FOLDER [--kernels VERSION,..] [--compilers VERSION,..] [--seconds N] [--keep]

FOLDER is below build/: packages (fetch.sh), builds and logs lie there. Guests are emulated instruction by instruction
(qemu's TCG), since no KVM is asked for: minutes each. A guest has this machine's /usr/bin/python3, and what it and
the programs are linked with; no disk, no network. Needs root, for this machine's own kernel."""
import argparse
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PYTHON = "/usr/bin/python3"
OWN = "own"
FILES = ["tests/kernels/guest.py", "tests/live/truth.py", "tests/lib/__init__.py", "tests/lib/wait.py", "tests/targets/chains.py"]
# Of the standard library only what takes much room.
LEFT_OUT = {"test", "tests", "idlelib", "tkinter", "turtledemo", "lib2to3", "distutils", "ensurepip", "pydoc_data",
            "dist-packages", "site-packages", "config-3.11-x86_64-linux-gnu"}
MINUTES = 15
COMPLAINT = re.compile(r"Oops:|Kernel panic|BUG: ")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def build(folder, version):
    """A folder with cprofd and load_programs, whose BPF is of that clang ("system": of the one on the path)."""
    compiler = "clang" if version == "system" else os.path.join(folder, "clang-" + version, "clang")
    name = re.search(r"version (\d+)", output(compiler, "--version"))[1]
    made, to = os.path.join(folder, "with-" + name), os.path.join(folder, "builds", "clang-" + name)
    subprocess.run(["make", "--no-print-directory", "-C", ROOT, "B=" + os.path.relpath(made, ROOT), "CLANG=" + compiler,
                    "-j%d" % os.cpu_count(), *(os.path.join(os.path.relpath(made, ROOT), p)
                                               for p in ("cprofd", "tests/tools/load_programs"))],
                   check=True, stdout=subprocess.DEVNULL)
    os.makedirs(to, exist_ok=True)
    for program in ("cprofd", "tests/tools/load_programs"):
        shutil.copy(os.path.join(made, program), to)
    return to


def libraries(files):
    found = set()
    for file in files:
        text = subprocess.run(["ldd", file], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        found |= set(re.findall(r"(/\S+) \(0x", text))
    return found


def guest_root(folder, builds, seconds):
    """The guest's files, as a compressed cpio archive."""
    root, archive = os.path.join(folder, "root"), os.path.join(folder, "root.cpio.gz")
    shutil.rmtree(root, ignore_errors=True)
    for name in ("bin", "proc", "sys", "dev", "tmp", "tree"):
        os.makedirs(os.path.join(root, name))
    shutil.copy(shutil.which("busybox"), os.path.join(root, "bin/busybox"))
    shutil.copy(os.path.join(HERE, "init"), os.path.join(root, "init"))
    for file in FILES:
        os.makedirs(os.path.dirname(os.path.join(root, "tree", file)), exist_ok=True)
        shutil.copy(os.path.join(ROOT, file), os.path.join(root, "tree", file))
    programs = []
    for path in builds:
        shutil.copytree(path, os.path.join(root, "tree/builds", os.path.basename(path)))
        programs += [os.path.join(path, name) for name in os.listdir(path)]
    with open(os.path.join(root, "tree/arguments"), "w") as file:
        print(seconds, *("builds/" + os.path.basename(path) for path in builds), file=file)
    stdlib = output(PYTHON, "-c", "import os; print(os.path.dirname(os.__file__))").strip()
    shutil.copytree(stdlib, root + stdlib, ignore=lambda _, names: LEFT_OUT & set(names))
    extensions = [os.path.join(stdlib, "lib-dynload", name) for name in os.listdir(os.path.join(stdlib, "lib-dynload"))]
    for file in libraries([PYTHON, *programs, *extensions]):
        os.makedirs(os.path.dirname(root + file), exist_ok=True)
        shutil.copy(file, root + file)
    os.makedirs(root + "/usr/bin", exist_ok=True)
    shutil.copy(os.path.realpath(PYTHON), root + PYTHON)
    for name in ("init", "bin/busybox"):
        os.chmod(os.path.join(root, name), stat.S_IRWXU)
    # A console before devtmpfs is there.
    os.mknod(os.path.join(root, "dev/console"), stat.S_IFCHR | 0o600, os.makedev(5, 1))
    subprocess.run("find . | cpio -o -H newc --quiet | gzip -1 > " + archive, shell=True, check=True, cwd=root)
    shutil.rmtree(root)
    return archive


def impossible(text):
    """Did the guest's kernel fail with flags that no CPU has? qemu 7.2 loses count of them now and then, and what the
    guest does then (a copy goes backwards, an iret is refused) tells nothing of it. Or at a breakpoint that the kernel had taken
    away again: it patches its own code so, and the other emulated CPU went on with what it had translated. The first failure decides."""
    complaint = COMPLAINT.search(text)
    if complaint and text.startswith("Oops: int3", complaint.start()):
        return True
    flags = complaint and re.compile("EFLAGS: ([0-9a-f]{8})").search(text, complaint.start())
    return bool(flags) and int(flags[1], 16) >> 22 != 0


def boot_once(kernel, archive, log):
    """What the guest said on its console; None if the emulated machine broke."""
    with open(log, "w") as file:
        # With the newest CPU impossible() was true of a third of the boots of 6.12, with this one rarely. Without cmpxchg16b: the
        # lists of free memory that 6.12 changes by it, with timers' interrupts between, were broken in every other boot.
        guest = subprocess.Popen(["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "Nehalem,-cx16", "-smp", "2", "-m", "2048", "-nodefaults",
                                  "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot", "-kernel", kernel,
                                  "-initrd", archive, "-append", "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check nowatchdog"],
                                 stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
    end = time.monotonic() + MINUTES * 60
    try:
        while True:
            try:
                guest.wait(2)
            except subprocess.TimeoutExpired:
                pass
            text = open(log, errors="replace").read()
            if impossible(text):
                return None
            if guest.returncode is not None:
                return text
            if time.monotonic() > end:
                return text + "\nFAILED the guest did not end within %d minutes\n" % MINUTES
    finally:
        guest.kill()
        guest.wait()


def boot(folder, version, archive, log):
    boot = os.path.join(folder, "linux-" + version, "boot")
    kernel = next(os.path.join(boot, name) for name in os.listdir(boot) if name.startswith("vmlinuz"))
    for _ in range(4):
        text = boot_once(kernel, archive, log)
        if text is not None:
            return text
        print("    %s: the emulator broke its guest: again" % version, flush=True)
    return open(log, errors="replace").read()


def own(builds, seconds, log):
    with open(log, "w") as file:
        subprocess.run([PYTHON, os.path.join(HERE, "guest.py"), str(seconds), *builds], stdin=subprocess.DEVNULL, stdout=file,
                       stderr=subprocess.STDOUT, timeout=MINUTES * 60)
    return open(log, errors="replace").read()


def table(counts):
    """counts[kernel, compiler][native/children program] = instructions, as a table of docs/sampler.md."""
    columns = [("sample, native off", "off/0 sample"), ("leaf", "leaf/0 sample"), ("full", "full/0 sample"),
               ("on_fork", "off/0 on_fork"), ("-s", "off/1 on_fork"), ("on_exec", "off/0 on_exec"), ("on_exit", "off/0 on_exit"),
               ("on_switch", "full/wall on_switch")]
    print("\n| kernel | clang | " + " | ".join(title for title, _ in columns) + " |")
    print("|---|---|" + "---|" * len(columns))
    for (kernel, compiler), found in counts.items():
        print("| %s | %s | " % (kernel, compiler) + " | ".join("{:,}".format(found[key]) if key in found else "refused"
                                                               for _, key in columns) + " |")
    print()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--kernels", default="6.1,6.12," + OWN)
    parser.add_argument("--compilers", default="system,19,22")
    parser.add_argument("--seconds", type=float, default=3)
    args = parser.parse_args()
    folder = os.path.abspath(args.folder)
    subprocess.run([os.path.join(HERE, "fetch.sh"), folder], check=True)
    builds = [build(folder, version) for version in args.compilers.split(",")]
    archive = guest_root(folder, builds, args.seconds)
    passed = failed = 0
    counts = {}
    for kernel in args.kernels.split(","):
        log = os.path.join(folder, kernel + ".log")
        text = own(builds, args.seconds, log) if kernel == OWN else boot(folder, kernel, archive, log)
        release = (re.search(r"^kernel (\S+)", text, re.M) or ["", platform.release() if kernel == OWN else kernel])[1]
        for name, session, program, number in re.findall(r"^insns clang-(\S+) (\S+) (\S+) (\d+)", text, re.M):
            counts.setdefault((release, name), {})[session + " " + program] = int(number)
        for path in builds:
            counts.setdefault((release, os.path.basename(path)[6:]), {})
        end = re.search(r"^(\d+) passed, (\d+) failed, 0 skipped", text, re.M)
        # Those of a guest that came to no end are unknown.
        bad = int(end[2]) if end else 1 + len(re.findall("^FAILED", text, re.M))
        good = int(end[1]) if end else len(re.findall("^ok ", text, re.M))
        if kernel != OWN and COMPLAINT.search(text):
            bad, text = bad + 1, text + "\nFAILED the guest's kernel complained\n"
        passed, failed = passed + good, failed + bad
        print("%s kernel %s: %d passed, %d failed%s" % ("FAILED" if bad else "ok", release, good, bad,
                                                        "" if end else ", and it came to no end"), flush=True)
        if bad:
            lines = re.findall(r"^FAILED.*(?:\n    .*)*", text, re.M)
            print("\n".join(lines) or text[-3000:], "    all of it: " + os.path.relpath(log, ROOT), sep="\n")
    table(counts)
    print("%d passed, %d failed, 0 skipped" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
