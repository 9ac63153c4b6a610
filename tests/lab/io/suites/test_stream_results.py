"""What the suite stream makes of measurements: ratios, targets, tables and the picture."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from horovod_lab.io.suites.stream.pictures import section
from horovod_lab.io.suites.stream.results import Kind, cells, summary, verdicts
from horovod_lab.io.suites.stream.suite import LABELS, order
from horovod_lab.measuring.comparison import Spread

KIND = Kind("without", 64, 0)


def run(threads: int, speed: float, pixels: int | None = None, prefetch: int = 0,
        wait_seconds: float = 5.0, **counted: float) -> dict:
    return {"threads": threads, "batch": 64, "prefetch": prefetch, "pixels": pixels,
            "images_per_second": speed, "seconds": 10.0, "waited_seconds": wait_seconds,
            "cpu_ms_per_image": 2.0, **counted}


def job(number: int, series: str, *runs: dict) -> dict:
    return {"round": number, "series": series, "runs": list(runs)}


def failure(number: int, series: str) -> dict:
    return {"round": number, "series": series, "failed": "ended with exit code 1"}


def document(*measurements: dict, **more) -> dict:
    settings = {"stand": "warm", "files": 64, "file_bytes": 1000, "step_seconds": 0.0,
                "threads": [1, 8], "batch": [64], "prefetch": [0],
                "preprocessing": ["without", "with"], **more}
    return {"settings": settings, "measurements": list(measurements)}


def test_the_first_round_is_dropped():
    by_kind = cells(document(job(0, "tf-data", run(1, 1.0)), job(1, "tf-data", run(1, 10.0)),
                             job(2, "tf-data", run(1, 20.0)), job(3, "tf-data", run(1, 40.0))))
    assert by_kind[KIND][1].spread("tf-data", "images_per_second") == Spread(20, 10, 40, 3)
    assert not cells(document(job(0, "tf-data", run(1, 1.0))))


def test_threads_are_compared_in_pairs_of_a_round():
    by_kind = cells(document(job(1, "hio", run(1, 10.0), run(8, 30.0)),
                             job(2, "hio", run(1, 20.0), run(8, 40.0))))[KIND]
    assert by_kind[8].over("hio", by_kind[1]) == Spread(2.5, 2, 3, 2)


def test_kinds_are_kept_apart():
    by_kind = cells(document(job(1, "hio", run(1, 10.0), run(1, 5.0, pixels=224),
                                 run(1, 7.0, prefetch=1)), prefetch=[0, 1]))
    speeds = {kind: by_threads[1].values("hio", "images_per_second")
              for kind, by_threads in by_kind.items()}
    assert speeds == {KIND: {1: 10.0}, Kind("with", 64, 0): {1: 5.0},
                      Kind("without", 64, 1): {1: 7.0}, Kind("with", 64, 1): {}}


@pytest.mark.parametrize("speed, met", [(96.0, True), (94.0, False)])
def test_hio_is_judged_beside_tf_data_with_each_number_of_threads(speed, met):
    results = document(job(1, "hio", run(8, speed), run(1, 500.0)),
                       job(1, "tf-data", run(8, 100.0), run(1, 100.0)), preprocessing=["without"])
    assert {cell.threads: result.met for cell, result in verdicts(results)} == {1: True, 8: met}
    line = summary(results)[1]
    assert (line["threads"], line["preprocessing"], line["target"], line["met"]) == (
        8, "without", "≥ 0.95 x tf-data", met)


def test_what_failed_or_was_not_run_has_no_verdict_or_a_bad_one():
    def words(*measured: dict) -> set[str]:
        return {result.words() for _, result in verdicts(document(*measured))}

    hio = job(1, "hio", *(run(threads, 10.0, pixels) for threads in (1, 8)
                          for pixels in (None, 224)))
    assert words(hio, failure(1, "tf-data")) == {"no: tf-data failed"}
    assert words(hio) == {"tf-data not measured"}


def test_tables_have_the_sources_numbers_and_what_the_storage_counted():
    results = document(job(1, "tf-data", run(1, 10.0, bytes=3 << 20, requests=7), run(8, 20.0)),
                       failure(1, "hio"), preprocessing=["without"], stand="disk")
    table, target_grid = section(results, targets=True).grids
    assert table.title.endswith("stand disk: without preprocessing, batch 64, prefetch 0")
    rows = {row[:2]: row for row in table.rows}
    assert rows["tf.data", "1"][2:] == ("10.0", "1.00", "", "", "", "2.00", "50", "3", "7", "")
    assert rows["tf.data", "8"][2:6] == ("20.0", "2.00", "2.3", "up to 7.8")
    assert rows["hio", "8"][2] == "failed" and rows["hio", "8"][-1] == "1 failed"
    assert target_grid.rows[0][-1] == "no: hio failed"
    for grid in (table, target_grid):
        assert {len(row) for row in grid.rows} == {len(grid.columns)}


def test_the_table_of_a_training_has_no_numbers_of_threads():
    results = document(job(1, "tf-data", run(8, 10.0, 224)), threads=[8], step_seconds=0.5,
                       preprocessing=["with"])
    shown_section = section(results, targets=False)
    (row,), = (grid.rows for grid in shown_section.grids)
    assert row == ("tf.data", "8", "10.0", "", "", "2.00", "50", "", "", "")
    picture, = shown_section.pictures
    assert picture.name == "io-stream-steps"
    assert picture.figure.axes[1].get_ylabel() == "time in which steps wait, %"


def test_the_picture_has_a_line_for_each_pipeline_and_kind_and_the_sources_points():
    speeds = [run(threads, 10.0 * threads, pixels, prefetch) for threads in (1, 8)
              for pixels in (None, 224) for prefetch in (0, 1)]
    results = document(*(job(1, name, *speeds) for name in LABELS), prefetch=[0, 1],
                       stand="parallel")
    picture, = section(results, targets=False).pictures
    assert picture.name == "io-stream-parallel"
    axes = picture.figure.axes
    assert [len(axis.containers) for axis in axes] == [4] * 4
    assert [axis.get_title() for axis in axes[:2]] == ["without preprocessing",
                                                       "with preprocessing"]
    source = {line.get_label(): list(line.get_ydata()) for line in axes[3].lines
              if str(line.get_label()).startswith("source")}
    assert source == {"source, HDD": [1.65, 1.95, 2.3], "source, Lustre": [7.8]}
    assert not section(document(failure(1, "hio")), targets=False).pictures


def test_every_pipeline_runs_once_a_round_and_none_is_always_first():
    jobs = order(list(LABELS), 2)
    assert [(result.round, result.series) for result in jobs] == [
        (0, "tf-data"), (0, "hio"), (1, "hio"), (1, "tf-data")]
    assert len({str(result) for result in jobs}) == 4
    shapes = [{"threads": threads} for threads in (1, 2, 4)]
    assert jobs[0].rotate(shapes) == shapes
    assert jobs[2].rotate(shapes) == [*shapes[1:], shapes[0]]
