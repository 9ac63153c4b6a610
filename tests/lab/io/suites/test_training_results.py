"""Targets and tables of the suite training, and what its command refuses."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from horovod_lab.io.suites.training.jobs import SOURCES, order
from horovod_lab.io.suites.training.pictures import section
from horovod_lab.io.suites.training.results import TrainingCell, summary, verdicts
from horovod_opt import cli


def result(series: str, speed: float = 20.0, number: int = 0, cpu: float = 100.0,
           alone: float = 5.0, ranks: int = 2) -> dict:
    return {"round": number, "ranks": ranks, "series": series, "images_per_second": speed,
            "cpu_ms_per_image": cpu, "input_cpu_ms_per_image": alone}


def document(*measurements: dict) -> dict:
    return {"measurements": list(measurements)}


def verdict_of(series: str, *measurements: dict):
    verdict, = (verdict for _, verdict in verdicts(document(*measurements))
                if verdict.target.series == series)
    return verdict


@pytest.mark.parametrize("series, reference", [("hio", "memory"), ("hio-raw", "synthetic")])
@pytest.mark.parametrize("speed, met", [(97.1, True), (96.9, False)])
def test_images_a_second_are_judged_in_pairs_of_a_round(series, reference, speed, met):
    verdict = verdict_of(series, result(series, speed), result(reference, 100),
                         result(series, 2 * speed, 1), result(reference, 200, 1))
    assert verdict.met is met and verdict.value.n == 2


def test_what_failed_or_was_not_run_has_no_verdict_or_a_bad_one():
    failure = {"round": 0, "ranks": 2, "series": "memory", "failed": "ended with exit code 1"}
    assert verdict_of("hio", result("hio", 100), failure).words() == "no: memory failed"
    assert verdict_of("hio", result("hio", 100)).words() == "memory not measured"


def test_the_processor_time_of_an_input_is_more_than_its_references():
    cell, = TrainingCell.by_ranks(document(result("hio", 90, cpu=103.5),
                                           result("memory", 100, cpu=100)))
    assert cell.input_cpu("hio").median == 3.5
    assert cell.input_cpu("memory") is None


def test_tables_and_the_summary_for_machines():
    results = document(result("hio", 98), result("memory", 100), result("tf-data", 90))
    table, target_grid = section(results, targets=True).grids
    rows = {row[0]: row for row in table.rows}
    assert list(rows) == ["JPEGs in memory", "JPEGs, hio", "JPEGs, tf.data"]
    assert rows["JPEGs, hio"][1:4] == ("98.0", "0.980", "+0.00")
    assert {len(row) for row in table.rows} == {len(table.columns)}
    assert target_grid.rows[0][-1] == "yes"
    line = summary(results)[0]
    assert (line["series"], line["target"], line["met"]) == ("hio", "≥ 0.97 x memory", True)


def test_the_picture_has_a_bar_for_each_source_and_number_of_ranks():
    results = document(*(result(name, ranks=ranks) for name in SOURCES for ranks in (2, 4)))
    picture, = section(results, targets=False).pictures
    assert [len(axis.patches) for axis in picture.figure.axes] == [2 * len(SOURCES)] * 2
    failure = {"round": 0, "ranks": 2, "series": "hio", "failed": "ended with exit code 1"}
    assert not section(document(failure), targets=False).pictures


def test_every_source_runs_once_a_round_and_none_is_always_first():
    jobs = order(list(SOURCES), [2], 2)
    assert [job.source.name for job in jobs[:6]] == list(SOURCES)
    assert jobs[6].source.name == list(SOURCES)[1] and len({str(job) for job in jobs}) == 12


def test_a_source_of_another_suite_is_refused(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["io", "bench", "--suite", "training", "--only", "hio,py-lmdb"]) == 2
    assert "suite training has no py-lmdb; remedy: some of memory, hio" in capsys.readouterr().err
