#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""The steps of deploy/Dockerfile, without Docker: a stage is a folder of Debian 12 that mmdebstrap makes, and RUN is chroot. Then what was made runs as
deploy/kubernetes.yaml says: in the host's PID namespace, its files read-only, the daemon with the capabilities that are named there and no others; a `push`
of another uid delivers the samples of that user's Python. Needs root, mmdebstrap and the network: some 15 minutes.

    image.py [FOLDER]      the folder is kept, and stages in it that are complete are not made again"""
import glob
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "..", "live")]
import otlp  # noqa: E402
from lib import ROOT  # noqa: E402
from lib.command import BUSY, environment, expect, folder, target  # noqa: E402
from lib.result import check_figures, finish, skip  # noqa: E402
from lib.wait import until  # noqa: E402

DEPLOY = os.path.join(ROOT, "deploy")
USER = 1000


def steps():
    """Words of the Dockerfile: (FROM, "debian:12-slim AS build") ..."""
    with open(os.path.join(DEPLOY, "Dockerfile")) as file:
        text = re.sub(r"\\\n", " ", "".join(line for line in file if not line.startswith("#")))
    return [line.split(None, 1) for line in text.splitlines() if line.strip()]


def inside(root, command, workdir="/"):
    mounts = "mount --rbind /proc %s/proc && mount --rbind /dev %s/dev && " % (root, root)
    run = subprocess.run(["unshare", "-m", "sh", "-c", mounts + "exec chroot %s sh -c %s" % (root, shlex.quote("cd %s && %s" % (workdir, command)))],
                         env={"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", "DEBIAN_FRONTEND": "noninteractive"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    expect(run.returncode == 0, command, run.stdout)


def copy(words, root, workdir, stages):
    *sources, to = [word for word in words.split() if not word.startswith("--")]
    to = os.path.join(root, os.path.join(workdir, to).lstrip("/"))
    os.makedirs(to, exist_ok=True)
    stage = re.match(r"--from=(\S+)", words)
    if not stage:
        expect(sources == ["."], "the whole tree", words)
        files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        subprocess.run(["xargs", "-0", "cp", "-a", "--parents", "-t", to], cwd=ROOT, input=files, check=True)
        return
    for source in sources:
        found = glob.glob(stages[stage[1]] + source)
        expect(found, "what is copied", source)
        for path in found:
            shutil.copy(path, to)


def image(home):
    """The last stage's folder."""
    stages, root, workdir = {}, None, "/"
    for word, rest in steps():
        if word == "FROM":
            name, workdir = (rest.split(" AS ") + ["last"])[1], "/"
            root = stages[name] = os.path.join(home, name)
            done = os.path.exists(root + ".done")
            if not done:
                expect(rest.startswith("debian:12-slim"), "Debian 12", rest)
                if not os.path.isdir(root):
                    subprocess.run(["mmdebstrap", "-q", "--variant=minbase", "bookworm", root], check=True)
        elif word == "WORKDIR":
            workdir = rest
        elif word == "COPY" and not done:
            copy(rest, root, workdir, stages)
        elif word == "RUN" and not done:
            inside(root, rest, workdir)
            open(root + ".done", "w").close()
    return root


def capabilities():
    with open(os.path.join(DEPLOY, "kubernetes.yaml")) as file:
        return re.findall(r"^ +- ([A-Z_]+) +#", file.read(), re.M)


def container(root, shared, command, more=()):
    """As the manifest has them: files read-only, but for three folders."""
    script = """mount --bind {0} {0} && mount --rbind /proc {0}/proc && mount --rbind /sys {0}/sys && mount --rbind /dev {0}/dev &&
        mount -o remount,bind,ro {0} && mount -t tmpfs tmpfs {0}/tmp && mount -t tmpfs tmpfs {0}/run && mkdir {0}/run/cprofd && mount --bind {1} {0}/run/cprofd &&
        mount -t tmpfs tmpfs {0}/var/cache && mkdir {0}/var/cache/cprofd && exec chroot {0} {2}""".format(root, shared, " ".join(map(shlex.quote, [*more, *command])))
    return subprocess.Popen(["unshare", "-m", "sh", "-c", script], stderr=subprocess.PIPE, env=environment())


def runs(root):
    named = capabilities()
    rights = ["setpriv", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all," + ",".join("+" + name.lower() for name in named)]
    with folder() as shared, otlp.Receiver() as receiver, target(BUSY + "busy(60)", uid=USER) as process, target(BUSY + "busy(60)"):
        daemon = container(root, shared, ["cprofd", "serve", "--allow=own", "--socket", "/run/cprofd/cprofd.sock"], rights)
        line = daemon.stderr.readline().decode()
        expect("listens at" in line, "the daemon", line)
        client = container(root, shared, ["cprofd", "push", "--all", "--otlp", receiver.url, "--every", "1", "--socket", "/run/cprofd/cprofd.sock"],
                           ["setpriv", "--no-new-privs", "--reuid=%d" % USER, "--regid=%d" % USER, "--clear-groups", "--bounding-set=-all"])
        try:
            expect(until(lambda: receiver.told.samples["cpu"] > 500), "samples", receiver.told.samples, receiver.failed)
            with open("/proc/%d/status" % daemon.pid) as status:
                has = int(re.search(r"CapBnd:\s*(\w+)", status.read())[1], 16)
            check_figures(bin(has).count("1") == len(named) == 8, "the daemon has these capabilities alone:", *named)
        finally:
            for one in (client, daemon):
                one.send_signal(signal.SIGINT)
                one.err = one.communicate(timeout=60)[1].decode()
        check_figures({r["process.pid"] for r in receiver.told.resources} == {process.pid}, "push sends that user's Python alone")
        check_figures("delivered {:,} samples".format(receiver.told.samples["cpu"]) in client.err, "all arrive:", client.err.strip())


def main():
    if os.geteuid() or not shutil.which("mmdebstrap") or not otlp.classes():
        skip("needs root, mmdebstrap and opentelemetry-proto")
        return finish()
    with folder() as work:
        runs(image(sys.argv[1] if sys.argv[1:] else work))
    return finish()


if __name__ == "__main__":
    sys.exit(main())
