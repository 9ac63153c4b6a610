"""The order of files: the longest first, or at random."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import durations
import pytest

TESTS = {"test_a.py": "def test_1(): pass\ndef test_2(): pass\n",
         "test_b.py": "import time\ndef test_3(): time.sleep(0.4)\ndef test_4(): pass\n",
         "test_c.py": "def test_5(): pass\n"}


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The order in which they ran."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    session = tmp_path / "session"
    session.mkdir()
    (session / "durations.py").write_text(open(durations.__file__).read())
    for name, text in TESTS.items():
        (tmp_path / name).write_text(text)

    def run(*arguments: str, seconds: dict[str, float] | None = None) -> list[str]:
        if seconds:
            (session / "durations.json").write_text(json.dumps(seconds))
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-v", "-p", "durations", "-p", "no:cacheprovider",
             "-p", "no:xdist", *arguments], cwd=tmp_path, text=True, stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(session)}, check=True)
        return re.findall(r"::(test_\d) PASSED", ended.stdout)

    return run


def test_the_longest_file_is_first(run):
    assert run(seconds={"test_c.py::test_5": 2.0, "test_a.py::test_2": 1.0, "test_b.py::gone": 9.0,
                        "test_a.py::test_1": 1.5}) == [
        "test_1", "test_2", "test_5", "test_3", "test_4"]


def test_without_a_record_it_is_the_order_of_names(run):
    assert run() == ["test_1", "test_2", "test_3", "test_4", "test_5"]


def test_what_is_recorded(run, tmp_path):
    """What took more than a moment, and what did not run this time."""
    run("--record-durations", seconds={"test_b.py::test_4": 7.0, "elsewhere.py::test": 3.0})
    listed = json.loads((tmp_path / "session" / "durations.json").read_text())
    assert listed.pop("test_b.py::test_3") >= 0.4
    assert listed == {"elsewhere.py::test": 3.0}


def test_a_random_order_is_that_of_its_seed(run):
    orders = {seed: run("--shuffle", seed) for seed in "1234"}
    assert len({*map(tuple, orders.values())}) > 1
    for seed, order in orders.items():
        assert sorted(order) == ["test_1", "test_2", "test_3", "test_4", "test_5"]
        assert order == run("--shuffle", seed)
        # The tests of a file stay together: workers take files.
        files = ["aabbc"[int(name[-1]) - 1] for name in order]
        assert [name for name, before in zip(files, ["", *files]) if name != before] == sorted(
            {*files}, key=files.index)
