"""Files in order of time, the longest first, so that no worker is left with a long one at the end.

`durations.json` has the seconds of each test that took more than a moment when it was recorded,
with what its file or session sets up for it: a job that several tests look at is the first one's.
    pytest --record-durations     writes it anew, for the tests that ran
    pytest --shuffle 7            files, and the tests of each, in a random order of that seed
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path

import pytest

FILE = Path(__file__).with_name("durations.json")
MOMENT = 0.3  # seconds, from which a test is listed


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true",
                     help=f"write the seconds of the tests that ran to {FILE.name}")
    parser.addoption("--shuffle", metavar="SEED",
                     help="files, and the tests of each, in random order")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--record-durations") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record())


def recorded() -> dict[str, float]:
    """Seconds, by test."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    files = defaultdict(list)
    for item in items:
        files[item.nodeid.partition("::")[0]].append(item)
    seed = config.getoption("--shuffle")
    if seed is None:
        seconds = recorded()
        order = sorted(files, key=lambda name: -sum(
            seconds.get(item.nodeid, 0.0) for item in files[name]))
    else:
        shuffle = random.Random(seed).shuffle
        order = list(files)
        for tests in (order, *files.values()):
            shuffle(tests)
    items[:] = [item for name in order for item in files[name]]


class Record:
    """Of the tests that ran; what is listed of others stays."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        seconds = {**recorded(), **self._seconds}
        listed = {name: round(value, 1) for name, value in sorted(seconds.items())
                  if value >= MOMENT}
        FILE.write_text(json.dumps(listed, indent=0) + "\n")
