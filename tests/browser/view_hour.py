#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`cprofd view` of a Numba loop for an hour (or SECONDS): frames a second, the page's heap, CPU of the engine and of the page's
server. A measurement, so nothing else should run.

view_hour.py [SECONDS] [EVERY]"""
import os
import pathlib
import subprocess
import sys
import time

from devtools import Page
from view_test import ROOT, View

# Lengths in ms of the next 240 frames.
FRAMES = """new Promise(done => { const at = [];
  const frame = now => { if (at.push(now) < 241) requestAnimationFrame(frame); else done(at.slice(1).map((t, i) => t - at[i])); };
  requestAnimationFrame(frame); })"""


def tree(pid):
    """A process and those below it."""
    yield pid
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from tree(int(child))


def cpu(pid):
    """CPU seconds of it by name."""
    seconds = {}
    for one in tree(pid):
        name, rest = pathlib.Path(f"/proc/{one}/stat").read_text().split("(", 1)[1].rsplit(")", 1)
        user, system = rest.split()[11:13]
        seconds[name] = seconds.get(name, 0) + (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return seconds


def heap(page):
    """MB that live after a collection."""
    page.call("HeapProfiler.collectGarbage")
    return page.run("performance.memory.usedJSHeapSize") / 1e6


def main():
    seconds, every = (float(a) for a in (sys.argv[1:] + [3600, 60][len(sys.argv) - 1:]))
    target = subprocess.Popen([sys.executable, str(ROOT / "tests/targets/numba_loop.py")], stdout=subprocess.DEVNULL)
    time.sleep(3)
    view, page = View(target.pid), Page(size=(1280, 900))
    try:
        page.open(view.address)
        page.wait("window.cprofd && cprofd.model.session && cprofd.model.units.count > 50")
        print("   s    units  frames/s  90 %% ms  most ms  heap MB  CPU s", flush=True)
        begin = time.monotonic()
        while time.monotonic() < begin + seconds:
            frames = sorted(page.run(FRAMES))
            print("%5d %7d %9.1f %8.1f %8.1f %8.1f " % (time.monotonic() - begin, page.run("cprofd.model.units.count"), 1000 * len(frames) / sum(frames),
                                                        frames[len(frames) * 9 // 10], frames[-1], heap(page)),
                  ", ".join(f"{name} {used:.1f}" for name, used in cpu(view.process.pid).items()), flush=True)
            time.sleep(every)
    finally:
        target.kill()
        view.process.kill()
        page.close()


if __name__ == "__main__":
    main()
