# SPDX-License-Identifier: MIT
"""Shared by live tests: `result` (checks and their count), `calls` (programs that are profiled), `recording` (events and their tables), `client`
(the socket), `command` (the command line), `wait` (for conditions, never for a time). tests/README.md says how to write a test with them."""
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
LIVE = os.path.join(ROOT, "tests", "live")
CPROFD = os.path.abspath(os.environ.get("CPROFD", os.path.join(ROOT, "build", "cprofd")))
