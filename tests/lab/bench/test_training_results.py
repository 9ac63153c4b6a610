"""What the measurements of the suite training amount to, and how they are shown."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

pytest.importorskip("matplotlib")

from horovod_lab.bench.training.jobs import Cell
from horovod_lab.bench.training.results import rows
from horovod_lab.bench.training.scaling_pictures import section
from horovod_lab.bench.worker_job import BASE, LIMIT
from horovod_lab.measuring import documents
from horovod_lab.measuring.comparison import ConfidenceInterval, Noise
from horovod_lab.measuring.present import rich_table, save_pictures

CELL = Cell("ResNet18", "tensorflow", "synthetic", 2, 4, 96)


def cell(**changed: object) -> Cell:
    return Cell(**{**vars(CELL), **changed})


def entry(series: str, number: int, images: float, **changed: object) -> dict:
    stats = {"background_user_seconds": 1.0, "background_system_seconds": 0.5,
             "elapsed_seconds": 3.0, "process_involuntary_switches": 60}
    return {"round": number, **vars(CELL), "series": series, "images_per_second": images,
            "step_seconds": 8 / images, "steps": 30, "breakdown": None,
            "stats": None if series == LIMIT else [stats, stats], **changed}


PARTS = {"computation": 0.3, "waiting": 0.05, "negotiation": 0.1, "data": 0.05}
MEASUREMENTS = [
    entry("topo", 0, 15.0), entry(BASE, 0, 10.0), entry(LIMIT, 0, 20.0),
    entry("topo", 1, 30.0), entry(BASE, 1, 20.0), entry(LIMIT, 1, 40.0),
    {"round": 2, **vars(CELL), "series": "topo", "failed": "killed"},
    {"round": 0, **vars(CELL), "series": "gs", "failed": "killed"},
    entry("topo", 0, 16.0, separate=True, breakdown=PARTS),
    entry("topo", 0, 25.0, ranks=4),
]


def row(series: str, **changed: object):
    [result] = [row for row in rows(MEASUREMENTS) if (row.cell, row.series) == (
        cell(**changed), series)]
    return result


def test_gain_and_efficiency_are_of_pairs_of_a_round():
    # The machine became twice as fast in round 1: each pair says the same nevertheless.
    topo = row("topo")
    assert topo.gain == ConfidenceInterval(0.5, 0.5, 0.5, 2)
    assert topo.efficiency == ConfidenceInterval(0.75, 0.75, 0.75, 2)
    assert topo.failed == 1
    assert (topo.background, topo.switches) == (0.5, 2.0)


def test_noise_is_pooled_over_samples():
    # Relative variances 0.5 and 0.02, of one and two degrees of freedom.
    noise = Noise.of([[1.0, 3.0], [9.0, 10.0, 11.0], [5.0], []])
    assert noise.freedom == 3
    assert noise.relative == pytest.approx(((0.5 + 2 * 0.01) / 3) ** 0.5)
    assert Noise.of([[1.0], []]) is None


def test_confidence_interval_is_students():
    interval = row("topo").images_per_second  # of 15 and 30, the others of 10, 20 and of 20, 40
    assert interval.mean == 22.5 and interval.n == 2
    # Each of the three has the relative standard deviation 0.4714; t(0.975, 3) = 3.1824.
    half = 3.18245 * 0.471405 * 22.5 / 2**0.5
    assert interval.high - interval.mean == pytest.approx(half, rel=1e-5)
    assert interval.mean - interval.low == pytest.approx(half, rel=1e-5)


def test_one_value_has_no_interval():
    assert row("topo", ranks=4).images_per_second == ConfidenceInterval(25.0, None, None, 1)


def test_what_is_missing_is_none():
    assert row("gs").images_per_second is None and row("gs").failed == 1
    assert row("topo", ranks=4).gain is None
    assert row(LIMIT).background is None and row(LIMIT).efficiency is None


def document(measurements: list[dict]) -> dict:
    return {**documents.new("bench", ["horovod-opt"]), "settings": {"scaling": "weak"},
            "measurements": measurements}


def test_tables_and_pictures_come_from_the_file_alone(tmp_path):
    page = section(json.loads(json.dumps(document(MEASUREMENTS))))
    assert "50 %: topo" in page.summary
    text = io.StringIO()
    for grid in page.grids:
        Console(file=text, width=240).print(rich_table(grid))
    for part in ("22.5 (-1.37 to 46.4)", "2 of 3", "failed", "0 of 1", "+50.0", "75.0",
                 "computation", "300"):
        assert part in text.getvalue(), part
    files = save_pictures(page.pictures, tmp_path)
    assert [file.name for file in files] == [
        "bench-weak-scaling-tensorflow-synthetic-input-batch-4.png",
        "bench-breakdown-tensorflow-synthetic-input-batch-4.png", "bench-contention.png"]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)


@pytest.mark.parametrize(("models", "columns"), [(1, 1), (4, 4), (5, 3), (9, 3)])
def test_many_networks_do_not_stand_in_one_line(models, columns):
    names = [f"Network{index}" for index in range(models)]
    scaling, _ = section(document(
        [entry(series, 0, 10.0, model=name) for name in names for series in (BASE, "topo")])
    ).pictures
    axes = [axis for axis in scaling.figure.axes if axis.axison]
    assert [axis.get_title() for axis in axes if axis.get_title()] == [
        f"{name}, 96 pixels" for name in names]
    assert len(axes) == 2 * models
    assert len({axis.get_position().x0 for axis in axes}) == columns
    off, topo = (axis.lines[0].get_xdata().item() for axis in axes[0].containers)
    assert off < 2 < topo  # ranks: neither hides the other
    labels = [axis.get_ylabel() for axis in axes]
    assert labels.count("images/s") == labels.count("% over off") == -(-models // columns)


def test_the_interval_of_gs_has_a_picture_where_several_were_measured():
    every = [entry("off", 0, 10.0), entry("gs", 0, 12.0), entry("gs, every 5", 0, 11.0)]
    names = [picture.name for picture in section(document(every)).pictures]
    assert "bench-gs-interval-tensorflow, synthetic input, batch 4" in names
    names = [picture.name for picture in section(document(every[:2])).pictures]
    assert not [name for name in names if "interval" in name]


def test_nothing_but_failures_can_be_shown():
    failed = [job for job in MEASUREMENTS if "failed" in job]
    page = section(document(failed))
    assert not page.pictures and page.grids[0].rows[0][3] == "failed"
    assert page.summary == "No mode was measured beside off."
