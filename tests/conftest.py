"""With --skips FILE, every skip fails the run that the file does not list with its reason.

A line of the file is the test as pytest names it, a tab, and the reason; # begins a comment. A
listed test that is no longer skipped fails the run, too.
"""

from __future__ import annotations

import importlib.util
import sys
from contextlib import suppress
from pathlib import Path

import pytest

with suppress(ImportError):  # not where only jobs are tried
    from hypothesis import HealthCheck, settings

    # How long an example takes, or its choice, is the machine's.
    settings.register_profile("any machine", settings.default, deadline=None,
                              suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--skips", metavar="FILE", type=Path,
                     help="fail on every skip that FILE does not list")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--skips")
    if path and not hasattr(config, "workerinput"):  # all reports reach the main process
        config.pluginmanager.register(Skips(read_skips(path)))


def read_skips(path: Path) -> set[tuple[str, str]]:
    """Test and reason. Raises UsageError for a line that has not both."""
    skips = set()
    for line in path.read_text().splitlines():
        if line and not line.startswith("#"):
            test, tab, reason = line.partition("\t")
            if not (test and tab and reason):
                raise pytest.UsageError(f"{path}: no test, tab and reason in {line!r}")
            skips.add((test, reason))
    return skips


class Skips:
    """Compares what was skipped with what is listed."""

    def __init__(self, listed: set[tuple[str, str]]):
        self._listed = listed
        self._skipped: set[tuple[str, str]] = set()
        self._passed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._see(report)
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._see(report)

    def _see(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            self._skipped.add((report.nodeid, reason.removeprefix("Skipped: ")))

    def _wrong(self) -> list[str]:
        unlisted = sorted(self._skipped - self._listed)
        stale = sorted(self._listed - self._skipped)
        return [*(f"skipped, but not listed: {test}: {reason}" for test, reason in unlisted),
                *(f"listed, but not skipped: {test}: {reason}" for test, reason in stale
                  if test in self._passed)]

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._wrong() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        wrong = self._wrong()
        if wrong:
            terminalreporter.section("--skips")
            for line in wrong:
                terminalreporter.write_line(line, red=True)


@pytest.fixture(scope="session")
def parts() -> set[str]:
    """What the installed Horovod was built with."""
    from horovod_opt.launcher import built

    horovodrun = Path(sys.executable).with_name("horovodrun")
    if importlib.util.find_spec("horovod") is None or not horovodrun.exists():
        pytest.skip(f"horovod-opt is not installed for {sys.executable}")
    return {*built.notes()["frameworks"], *built.controllers()}


PARTS = {"mpi": "MPI", "gloo": "Gloo", "torch": "PyTorch", "tensorflow": "TensorFlow"}


@pytest.fixture(scope="session")
def need(parts):
    """Skips the test if Horovod was built without one of the named parts."""

    def need(*names: str) -> None:
        for name in names:
            if PARTS[name] not in parts:
                pytest.skip(f"this Horovod was built without {PARTS[name]}")

    return need
