"""Targets, tables and picture of the suite lmdb, from measurements."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from horovod_lab.io.ladder.job import combine
from horovod_lab.io.strategies import RUNGS
from horovod_lab.io.suites.lmdb.pictures import section
from horovod_lab.io.suites.lmdb.results import TARGETS, summary, verdicts
from horovod_lab.io.suites.suite_benchmark import order_jobs
from horovod_lab.io.testbeds.testbed import Counters

NOTHING = {"requests": None, "bytes": None, "inversions": None}


def result(series: str, number: int = 0, testbed: dict | None = None, **more) -> dict:
    return {"round": number, "ranks": 8, "series": series, "samples_per_second": 1000.0,
            "requests": 100, "bytes": 1 << 20, "seeking_bytes": 0, "inversions": 50,
            "cpu_seconds": 1.0, "voluntary_switches": 5, "involuntary_switches": 6,
            "open_seconds": 0.1, "read_seconds": 0.5, "skew_seconds": 0.2,
            "stand": {**NOTHING, **(testbed or {})}, **more}


def document(*measurements: dict, nodes: int = 4) -> dict:
    return {"measurements": list(measurements), "settings": {"nodes": nodes, "stand": "warm"}}


def verdict_of(series: str, *measurements: dict):
    verdict, = (verdict for _, verdict in verdicts(document(*measurements))
                if verdict.target.series == series)
    return verdict


@pytest.mark.parametrize("series, seeking, met", [
    ("lmm", 4096, True), ("lmm", 0, False), ("prov", 0, True), ("prov", 4096, False)])
def test_bytes_of_seeking(series, seeking, met):
    assert verdict_of(series, result(series, seeking_bytes=seeking)).met is met


@pytest.mark.parametrize("requests, met", [(5, True), (6, False)])
def test_coal_beside_prov(requests, met):
    assert verdict_of("coal", result("coal", requests=requests), result("prov")).met is met


@pytest.mark.parametrize("inversions, met", [(0, True), (5, True), (6, False)])
def test_stag_beside_coal(inversions, met):
    assert verdict_of("stag", result("stag", inversions=inversions), result("coal")).met is met


def test_what_reaches_the_storage_counts_where_it_is_known():
    verdict = verdict_of("coal", result("coal", requests=1, testbed={"requests": 40}),
                         result("prov", requests=1000, testbed={"requests": 200}))
    assert verdict.value.median == 0.2 and verdict.met is False


def test_none_in_place_of_none_is_no_less_but_as_little_as_can_be():
    nothing = result("coal", inversions=0)
    assert verdict_of("stag", result("stag", inversions=0), nothing).met is True
    assert verdict_of("stag", result("stag", inversions=1), nothing).met is False


def test_what_failed_or_was_not_run():
    failure = {"round": 0, "ranks": 8, "series": "prov", "failed": "ended with exit code 1"}
    assert verdict_of("coal", result("coal"), failure).words() == "no: prov failed"
    assert verdict_of("coal", result("coal")).words() == "prov not measured"
    assert verdict_of("prov", failure).met is False


def test_one_node_has_no_targets():
    assert not list(verdicts(document(result("lmm"), nodes=1)))


def test_tables_have_a_row_for_each_strategy_and_a_column_for_each_number():
    testbed = {"requests": 7, "bytes": 3 << 20, "inversions": 2}
    failure = {"round": 0, "ranks": 8, "series": "dm", "failed": "ended with exit code 1"}
    shown_section = section(document(*(result(name, testbed=testbed)
                                       for name in RUNGS if name != "dm"), failure), targets=True)
    request_grid, cost_grid, target_grid = shown_section.grids
    for grid in shown_section.grids:
        assert {len(row) for row in grid.rows} == {len(grid.columns)}
    rows = {row[0]: row for row in request_grid.rows}
    assert list(rows) == [rung.label for rung in RUNGS.values()]
    assert rows["LMDB"][1:] == ("100", "1", "0.00", "50", "7", "3", "2")
    assert rows["DM"][1] == "failed" and rows["hio"][1:] == ("", "", "", "", "7", "3", "2")
    assert {row[0]: row[-1] for row in cost_grid.rows}["DM"] == "1 failed"
    assert len(target_grid.rows) == len(TARGETS)


def test_the_picture_has_a_bar_for_each_strategy_that_was_measured():
    picture, = section(document(result("lmdb"), result("prov"), result("hio")), False).pictures
    assert [len(axis.patches) for axis in picture.figure.axes] == [3, 3, 3]
    failure = {"round": 0, "ranks": 8, "series": "dm", "failed": "ended with exit code 1"}
    assert not section(document(failure), targets=False).pictures


def test_the_summary_for_machines():
    line, = (result for result in summary(document(result("prov"))) if result["series"] == "prov")
    assert (line["of"], line["target"], line["met"]) == ("seeking_bytes", "≤ 0 bytes", True)


def test_every_strategy_runs_once_a_round_and_none_is_always_first():
    jobs = order_jobs(RUNGS, list(RUNGS), [8], 2)
    assert [job.series.name for job in jobs[:len(RUNGS)]] == list(RUNGS)
    assert jobs[len(RUNGS)].series.name == "lmm"
    assert len({str(job) for job in jobs}) == 2 * len(RUNGS)


def test_what_the_ranks_found_becomes_one_measurement():
    place = {"batch": 2, "iterations": 10}
    ranks = [{"place": place, "seconds": seconds, "requests": 3, "bytes": 30, "seeking_bytes": 1,
              "cpu_seconds": 0.5, "voluntary_switches": 2, "involuntary_switches": 1,
              "open_seconds": 0.0, "read_seconds": seconds / 2, "skew_seconds": 0.1}
             for seconds in (1.0, 2.0)]
    logs = [np.array([[1, 4], [10, 0], [5, 5]]), np.array([[2, 3], [20, 15], [5, 5]])]
    total = combine(ranks, logs, Counters(requests=9))
    assert (total["samples"], total["seconds"], total["samples_per_second"]) == (40, 2.0, 20.0)
    assert (total["requests"], total["inversions"], total["read_seconds"]) == (6, 2, 0.75)
    assert (total["exchanged_bytes"], total["stand"]["requests"]) == (0, 9)
