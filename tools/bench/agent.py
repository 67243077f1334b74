#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `cprofd agent` costs: CPU time of all its processes, their PSS and the memory of their maps, with so many Pythons on the machine.

    agent.py [--tree TREE] [--pythons N] [--busy MS] [--rate HZ] [--seconds S]

Each Python works for --busy ms of CPU time, then sleeps for half a second. The first minute's listing (docs/agent.md) is within the time that is
measured if that is long enough. Bars: 1 % of a CPU and 100 MB for 200 Pythons at 49 Hz. Needs root."""
import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time

import bench

TARGET = """
import time, os
time.sleep(os.getpid() %% 100 / 100)
while True:
    end = time.process_time() + %f
    while time.process_time() < end:
        sum(range(1000))
    time.sleep(0.5)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tree", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    parser.add_argument("--pythons", type=int, default=200)
    parser.add_argument("--busy", type=float, default=2)
    parser.add_argument("--rate", type=int, default=49)
    parser.add_argument("--seconds", type=float, default=60)
    args = parser.parse_args()
    pythons = [subprocess.Popen([sys.executable, "-S", "-E", "-c", TARGET % (args.busy / 1000)]) for _ in range(args.pythons)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            agent = subprocess.Popen([os.path.join(args.tree, "build", "cprofd"), "agent", folder, "-r", str(args.rate)], stderr=subprocess.DEVNULL)
            time.sleep(10)
            pids = bench.tree(agent.pid)
            cpu, worked = bench.cpu_of(pids), bench.cpu_of([python.pid for python in pythons])
            time.sleep(args.seconds)
            cpu, worked = bench.cpu_of(pids) - cpu, bench.cpu_of([python.pid for python in pythons]) - worked
            pss, maps = bench.pss_of(pids) / 1e6, bench.memlock_of(pids) / 1e6
            agent.send_signal(signal.SIGTERM)
            agent.wait()
            print("%d Pythons, %.0f %% of a CPU, %d Hz: %.2f %% of a CPU (bar 1), %.1f MB: PSS %.1f, maps %.1f (bar 100)" % (
                args.pythons, worked / args.seconds * 100, args.rate, cpu / args.seconds * 100, pss + maps, pss, maps))
    finally:
        for python in pythons:
            python.kill()
            python.wait()


if __name__ == "__main__":
    main()
