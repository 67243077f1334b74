# SPDX-License-Identifier: MIT
"""pytest --cprofd: what was compiled in a test run, for how long, and by which test.

    pytest --cprofd                      # the longest compiles below the report
    pytest --cprofd --cprofd-out out     # keeps the recording in out/, for `cprofd report`, `cprofd convert`

    @pytest.mark.compile_budget(seconds=2)     # fails if compiles in this test take longer
    def test_solver(): ..."""
from __future__ import annotations

import bisect
import os
import time
from typing import Any, Generator

import pytest

from .client import Error
from .recording import Compile, Recording
from .session import Profile

TOP = 10
BUDGET = "compile_budget"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cprofd", "compile times, by cprofd")
    group.addoption("--cprofd", action="store_true", help="record this run through cprofd's daemon, and say what was compiled, by which test")
    group.addoption("--cprofd-out", metavar="DIR", help="keep the recording there (implies --cprofd)")
    group.addoption("--cprofd-rate", metavar="HZ", type=int, default=199, help="samples a second (default: %(default)s)")
    group.addoption("--cprofd-socket", metavar="PATH", help="the daemon's socket")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "%s(seconds): with --cprofd, the test fails if compiles in it take longer" % BUDGET)
    if config.getoption("cprofd") or config.getoption("cprofd_out"):
        config.pluginmanager.register(Plugin(config), "cprofd-plugin")


def seconds_of(compiles: list[Compile]) -> float:
    return sum(compile.seconds for compile in compiles)


class Plugin:
    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.out: str | None = config.getoption("cprofd_out")
        self.how = {"rate": config.getoption("cprofd_rate"), "socket": config.getoption("cprofd_socket")}
        self.profile: Profile | None = None
        self.trouble = ""
        self.over: dict[str, str] = {}  # tests whose budget is passed: why
        self.tests: list[tuple[float, float, str]] = []  # begin, end, node id: in the order of time

    def path(self) -> str | None:
        if not self.out:
            return None
        os.makedirs(self.out, exist_ok=True)
        worker = os.environ.get("PYTEST_XDIST_WORKER")
        return os.path.join(self.out, "pytest-%s.cprof" % worker if worker else "pytest.cprof")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        try:
            profile = Profile(self.path(), **self.how)
            profile.start()
            self.profile = profile
        except (Error, OSError) as error:
            raise pytest.UsageError("--cprofd: %s" % error) from None

    def pytest_sessionfinish(self) -> None:
        if not self.profile:
            return
        try:
            self.profile.stop()
        except (Error, OSError) as error:
            self.trouble, self.profile = str(error), None

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, None]:
        begin = time.monotonic()
        yield
        self.tests.append((begin, time.monotonic(), item.nodeid))

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, None]:
        """A test with a budget has a recording of its own, so that it is judged at once."""
        marker = item.get_closest_marker(BUDGET)
        if not marker:
            yield
            return
        budget = float(marker.kwargs.get("seconds", marker.args[0] if marker.args else 0))
        with Profile(**{**self.how, "rate": 999}) as profile:
            yield
        self.over[item.nodeid] = over_budget(profile, budget)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
        outcome = yield
        report: pytest.TestReport = outcome.get_result()
        over = self.over.pop(item.nodeid, "") if call.when == "call" else ""
        if over and report.passed:
            report.outcome = "failed"
            report.longrepr = over

    def test_of(self, compile: Compile, recording: Recording) -> str:
        begin = recording.begin + compile.begin
        at = bisect.bisect_right(self.tests, (begin, float("inf"), "")) - 1
        return self.tests[at][2] if at >= 0 and begin <= self.tests[at][1] else "(outside of tests)"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self.profile:
            if self.trouble:
                terminalreporter.section("cprofd")
                terminalreporter.line("no recording: " + self.trouble)
            return
        recording = self.profile
        compiles = recording.outermost
        terminalreporter.section("cprofd: compiles")
        terminalreporter.line("%d compiles took %.2f s of this run's %.2f s" % (
            len(compiles), seconds_of(compiles), recording.about["span_ns"] / 1e9))
        for compile in sorted(compiles, key=lambda compile: -compile.seconds)[:TOP]:
            terminalreporter.line("%8.3f s  %s  %s" % (compile.seconds, compile, self.test_of(compile, recording)))
        if len(compiles) > TOP:
            terminalreporter.line("            and %d more" % (len(compiles) - TOP))
        if self.out:
            terminalreporter.line("recorded in %s: cprofd report %s" % (self.profile.path, self.profile.path))


def over_budget(recording: Recording, budget: float) -> str:
    """Why the test fails; "": it does not."""
    compiles = recording.outermost
    if seconds_of(compiles) <= budget:
        return ""
    longest = sorted(compiles, key=lambda compile: -compile.seconds)[:TOP]
    return "compiles took %.3f s, the budget is %g s:\n" % (seconds_of(compiles), budget) + "\n".join(
        "%8.3f s  %s" % (compile.seconds, compile) for compile in longest)
