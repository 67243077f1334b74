# SPDX-License-Identifier: MIT
"""What live tests share: `result` (what was checked), `calls` (programs that are profiled), `recording` (events and their tables), `client`
(the socket), `command` (the command line), `wait` (conditions, never times). tests/README.md says how a test is made of them."""
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
LIVE = os.path.join(ROOT, "tests", "live")
CPROFD = os.environ.get("CPROFD", os.path.join(ROOT, "build", "cprofd"))
