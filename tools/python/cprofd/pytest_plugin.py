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
from typing import Any, Generator, Tuple

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
    config.addinivalue_line("markers", "%s(seconds): with --cprofd, the test fails if compiles while it runs (not its fixtures) take longer" % BUDGET)
    if config.getoption("cprofd") or config.getoption("cprofd_out"):
        config.pluginmanager.register(Plugin(config), "cprofd-plugin")


Row = Tuple[float, str, str]  # seconds, the compile, the test


class Plugin:
    """One process: of pytest-xdist each worker records itself, and hands its rows to the controller, which records nothing."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.out: str | None = config.getoption("cprofd_out")
        self.how = {"rate": config.getoption("cprofd_rate"), "socket": config.getoption("cprofd_socket")}
        self.controls = not hasattr(config, "workerinput") and config.getoption("dist", "no") != "no"
        self.profile: Profile | None = None
        self.trouble: list[str] = []
        self.rows: list[Row] = []
        self.files: list[str] = []
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
        if self.controls:
            return
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
            self.rows = [(compile.seconds, str(compile), self.test_of(compile, self.profile)) for compile in self.profile.outermost]
            self.files = [self.profile.path] if self.out else []
        except (Error, OSError) as error:
            self.trouble.append(str(error))
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["cprofd"] = [self.rows, self.files, self.trouble]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        rows, files, trouble = getattr(node, "workeroutput", {}).get("cprofd", [[], [], ["a worker ended without its recording"]])
        self.rows += [(seconds, what, test) for seconds, what, test in rows]
        self.files += files
        self.trouble += trouble

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, None]:
        begin = time.monotonic()
        yield
        self.tests.append((begin, time.monotonic(), item.nodeid))

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            budget_of(item)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, None]:
        """A test with a budget has a recording of its own, so that it is judged at once."""
        budget = budget_of(item)
        if budget is None:
            yield
            return
        with Profile(socket=self.how["socket"]) as profile:
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
        """By its middle: its begin is known to a period of the sampler, and may seem to lie in the test before."""
        middle = recording.begin + (compile.begin + compile.end) / 2
        at = bisect.bisect_right(self.tests, (middle, float("inf"), "")) - 1
        return self.tests[at][2] if at >= 0 and middle <= self.tests[at][1] else "(outside of tests)"

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("cprofd: compiles")
        for text in self.trouble:
            terminalreporter.line("no recording: " + text)
        terminalreporter.line("%d compiles took %.2f s" % (len(self.rows), sum(seconds for seconds, _, _ in self.rows)))
        for seconds, compile, test in sorted(self.rows, reverse=True)[:TOP]:
            terminalreporter.line("%8.3f s  %s  %s" % (seconds, compile, test))
        if len(self.rows) > TOP:
            terminalreporter.line("            and %d more" % (len(self.rows) - TOP))
        for path in self.files:
            terminalreporter.line("recorded in %s: cprofd report %s" % (path, path))


def budget_of(item: pytest.Item) -> float | None:
    """Seconds; None: it has none."""
    marker = item.get_closest_marker(BUDGET)
    if not marker:
        return None
    try:
        return float(marker.kwargs["seconds"] if "seconds" in marker.kwargs else marker.args[0])
    except (IndexError, TypeError, ValueError):
        raise pytest.UsageError("%s: %s wants a number, as in %s(seconds=2)" % (item.nodeid, BUDGET, BUDGET)) from None


def over_budget(recording: Recording, budget: float) -> str:
    """Why the test fails; "": it does not."""
    compiles = recording.outermost
    took = sum(compile.seconds for compile in compiles)
    if took <= budget:
        return ""
    longest = sorted(compiles, key=lambda compile: -compile.seconds)[:TOP]
    return "compiles took %.3f s, the budget is %g s:\n" % (took, budget) + "\n".join("%8.3f s  %s" % (compile.seconds, compile) for compile in longest)
