"""What tests/native/run.py builds, and reads out of ctest's report."""

from __future__ import annotations

import subprocess

import pytest
import run

REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="(empty)" tests="3" failures="0" disabled="0" skipped="2" time="1">
  <testcase name="Affinity.Pin" time="0.1" status="notrun">
    <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
    <system-out>[ RUN      ] Affinity.Pin
../affinity_test.cc:35: Skipped
needs 2 CPUs, this process has 1
[  SKIPPED ] Affinity.Pin (0 ms)
</system-out>
  </testcase>
  <testcase name="Cores.Read" time="0.1" status="notrun">
    <skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
    <system-out>[  SKIPPED ] Cores.Read (0 ms)
</system-out>
  </testcase>
  <testcase name="Plan.Ends" time="0.1" status="run"><system-out>fine</system-out></testcase>
</testsuite>
"""


def test_skips_have_reasons(tmp_path, monkeypatch: pytest.MonkeyPatch):
    def ctest(command: list[str]) -> subprocess.CompletedProcess:
        (tmp_path / "ctest.xml").write_text(REPORT)
        return subprocess.CompletedProcess(command, 0, "")

    monkeypatch.setattr(run, "call", ctest)
    monkeypatch.setattr(run, "launcher", lambda build: [])
    summary, _ = run.test("ctest", tmp_path)
    assert (summary.tests, summary.failed) == (3, 0)
    assert summary.skipped == {"Affinity.Pin": "needs 2 CPUs, this process has 1",
                               "Cores.Read": "no reason given"}


def test_each_test_is_once_under_the_sanitizer_that_finds_more():
    thread, address = map(run.files_of, ("thread", "address"))
    files = {str(file.relative_to(run.REPOSITORY))
             for file in (run.REPOSITORY / run.TESTS).rglob("*.cc")}
    assert len(thread) + len(address) == len(files) and {*thread, *address} == files
    for file in ("plan/plan_table_threads_test.cc",  # starts threads
                 "shared_memory/node_barrier_test.cc",  # so does its header
                 "io/peer_watch_test.cc"):  # or what it tests
        assert f"{run.TESTS}/{file}" in thread
    assert f"{run.TESTS}/plan/simulation/plan_simulation.cc" in address
    assert f"{run.TESTS}/plan/simulation/plan_simulation_test.cc" in address


@pytest.mark.parametrize("arguments", [["--once", "plain"], ["memory"]])
def test_other_builds_are_refused(arguments: list[str], capsys: pytest.CaptureFixture):
    with pytest.raises(SystemExit):
        run.main(arguments)
    assert arguments[-1] in capsys.readouterr().err
