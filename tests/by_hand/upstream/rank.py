"""Runs pytest in one rank and writes each outcome down as it comes.

    python rank.py FOLDER PYTEST_ARGUMENT...

Tests that FOLDER/done.json lists are left out.

pytest writes its junit XML at the end, so a rank that hangs would leave none. This one leaves in
FOLDER, for rank N, rank-N.jsonl: a line for each test that begins, each outcome, and the end; also
rank-N.txt, what it printed, and rank-N.xml.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

SUBTESTS = getattr(pytest, "SubtestReport", ())  # pytest 9 or later
RANK_VARIABLES = ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


class Diary:
    """A pytest plugin: lines `{"test": name}` and `{"test": name, "outcome": ..., "why": ...}`.

    With `"subtest": true`, the outcome is that of a part of the test, and more will follow.
    """

    def __init__(self, path: Path, done: set[str]) -> None:
        self._file = path.open("w", buffering=1)
        self._done = done

    def write(self, **line: object) -> None:
        self._file.write(json.dumps(line) + "\n")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [item for item in items if _name(item.nodeid) not in self._done]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.write(test=_name(nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or not report.passed:
            part = {"subtest": True} if isinstance(report, SUBTESTS) else {}
            self.write(test=_name(report.nodeid), outcome=report.outcome, why=_why(report), **part)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if not report.passed:
            self.write(test="(collection)", outcome=report.outcome, why=_why(report))


def _name(nodeid: str) -> str:
    """Without the file, which is the same for the whole suite."""
    return nodeid.split("::", 1)[-1]


def _why(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The first line of what went wrong, or why a test was skipped."""
    if isinstance(report.longrepr, tuple):  # file, line, reason of a skipped test
        return report.longrepr[2]
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash else report.longreprtext).strip().splitlines() or [""]
    if not crash:
        return lines[-1]  # of a traceback
    if lines[0].endswith("in user code:"):  # TensorFlow's; a traceback follows
        return f"{lines[0]} {lines[-1].strip()}"
    return lines[0]


def main() -> int:
    folder, arguments = Path(sys.argv[1]), sys.argv[2:]
    rank = next((os.environ[name] for name in RANK_VARIABLES if name in os.environ), "0")
    with (folder / f"rank-{rank}.txt").open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.path.pop(0)  # this folder, whose modules the suites must not find
    done = set(json.loads((folder / "done.json").read_text()))
    diary = Diary(folder / f"rank-{rank}.jsonl", done)
    code = pytest.main([f"--junitxml={folder / f'rank-{rank}.xml'}", *arguments], plugins=[diary])
    diary.write(end=int(code))
    # A rank with a failed test would otherwise end the others, which may still be at work.
    well = [pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED]
    if done:
        well.append(pytest.ExitCode.NO_TESTS_COLLECTED)
    return 0 if code in well else int(code)


if __name__ == "__main__":
    sys.exit(main())
