"""The list of tests that may be skipped: --skips."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SESSION = Path(__file__).parents[2] / "session"
TESTS = """
import pytest
def test_passes(): pass
@pytest.mark.parametrize("x", ["a b", 2])
def test_skipped(x): pytest.skip("no GPU")
@pytest.mark.xfail
def test_fails_as_expected(): assert False
def test_parts(subtests):
    for part in "one", "two":
        with subtests.test(part):
            if part == "two": pytest.skip("no part two")
"""
MODULE = "import pytest\npytest.importorskip('no_such_module')\ndef test(): pass\n"
LISTED = ("test_one.py::test_skipped[a b]\tno GPU\ntest_one.py::test_skipped[2]\tno GPU\n"
          "test_one.py::test_parts\tno part two\n"
          "test_two.py\tcould not import 'no_such_module': No module named 'no_such_module'\n")


@pytest.fixture(params=[(), ("-n", "2")], ids=["one process", "several"])
def run(request, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    (tmp_path / "test_one.py").write_text(TESTS)
    (tmp_path / "test_two.py").write_text(MODULE)

    def run(*arguments: str, skips: str | None = None) -> subprocess.CompletedProcess:
        if skips is not None:
            (tmp_path / "skips.txt").write_text(skips)
            arguments = ("--skips", "skips.txt", *arguments)
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "skips", "-p", "no:cacheprovider",
             *request.param, *arguments],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(SESSION)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    return run


def test_without_a_list_a_skip_is_fine(run):
    assert run().returncode == 0


def test_all_that_is_skipped_is_listed(run):
    ended = run(skips="# comment\n\n" + LISTED)
    assert ended.returncode == 0, ended.stdout


def test_what_is_not_listed_fails(run):
    ended = run(skips="test_one.py::test_skipped[a b]\tno GPU\n"
                      "test_one.py::test_skipped[2]\tanother reason\n")
    assert ended.returncode == 1
    for line in ("test_one.py::test_skipped[2]: no GPU", "test_one.py::test_parts: no part two",
                 "test_two.py: could not import 'no_such_module'"):
        assert f"skipped, but not listed: {line}" in ended.stdout
    assert "test_skipped[a b]: no GPU" not in ended.stdout
    assert "test_fails_as_expected" not in ended.stdout


def test_what_is_no_longer_skipped_fails(run):
    ended = run(skips=LISTED + "test_one.py::test_passes\tno time\n")
    assert ended.returncode == 1
    assert "listed, but not skipped: test_one.py::test_passes: no time" in ended.stdout


def test_a_listed_test_that_did_not_run_is_fine(run):
    ended = run("test_one.py", skips=LISTED)
    assert ended.returncode == 0, ended.stdout


def test_a_line_without_a_reason_is_an_error(run):
    ended = run(skips="test_one.py::test_parts\n")
    assert ended.returncode != 0
    assert "no test, tab and reason in 'test_one.py::test_parts'" in ended.stdout
