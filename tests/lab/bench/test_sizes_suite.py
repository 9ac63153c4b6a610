"""The suite sizes: its jobs, the options that name another Horovod, tables and the picture."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from horovod_lab.bench.sizes.sizes_pictures import bytes_text, curves, section
from horovod_lab.bench.sizes.sizes_suite import order
from horovod_lab.bench.worker_job import BASE, LIMIT, Series, of_modes
from horovod_lab.measuring import documents, launch
from horovod_lab.measuring.comparison import Spread
from horovod_opt import cli

QUICK = ("--modes", "topo", "--ranks", 2, "--rounds", 1, "--seconds", 0.5, "--bytes", 1024, 4096)


def sizes(*arguments: object) -> int:
    return cli.main(["bench", "sizes", *map(str, arguments)])


def result(*microseconds: float) -> dict:
    """Of the sizes of QUICK."""
    return {"metrics": {"microseconds": dict(zip(("1024", "4096"), microseconds))},
            "mpi": "Open MPI", "per_rank": {}}


def test_series_are_interleaved_and_scp_needs_two_cores_a_rank():
    series = [Series(BASE), *of_modes("topo,scp")]
    ordered = [(job.round, job.ranks, job.series.name) for job in order(series, [1, 2], 2, 2)]
    assert ordered == [(0, 1, "off"), (0, 1, "topo"), (0, 1, "scp"), (0, 2, "off"), (0, 2, "topo"),
                       (1, 1, "topo"), (1, 1, "scp"), (1, 1, "off"), (1, 2, "topo"), (1, 2, "off")]


def test_every_size_is_measured_in_each_job_shown_and_kept(answers, tmp_path, capsys):
    answers += [result(1.0, 2.0), result(90.0, 110.0), result(40.0, 44.0)]
    assert sizes(*QUICK, "--output", tmp_path) == 0
    assert [(series.name, program, ranks) for series, program, ranks, _ in answers.runs] == [
        (name, ["allreduces.py", "sizes", "--seconds", "0.5", "--bytes", "1024", "4096"], 2)
        for name in (LIMIT, BASE, "topo")]
    saved = documents.load(tmp_path / "sizes.json", "sizes")
    assert [job["microseconds"] for job in saved["measurements"]] == [
        {"1024": 1.0, "4096": 2.0}, {"1024": 90.0, "4096": 110.0}, {"1024": 40.0, "4096": 44.0}]
    captured = capsys.readouterr()
    assert "40.0 us  44.0 us" in captured.err and "1 KiB" in captured.out
    assert (tmp_path / "sizes.png").stat().st_size > 0
    assert sizes(*QUICK, "--output", tmp_path) == 0  # nothing is left to measure
    assert "kept: 3 of 3" in capsys.readouterr().err


def test_what_was_measured_for_other_sizes_is_not_added_to(answers, tmp_path, capsys):
    answers += [result(1.0)] * 3
    assert sizes(*QUICK[:-1], "--output", tmp_path) == 0
    assert sizes(*QUICK, "--output", tmp_path) == 2
    assert "measured with other bytes" in capsys.readouterr().err


def test_the_report_takes_its_file(answers, tmp_path):
    pytest.importorskip("jinja2")
    answers += [result(1.0, 2.0)] * 3
    assert sizes(*QUICK, "--output", tmp_path) == 0
    page = tmp_path / "report.html"
    assert cli.main(["report", str(tmp_path), "--output", str(page)]) == 0
    assert "One allreduce by its size" in page.read_text(encoding="utf-8")


MEASUREMENTS = json.loads(json.dumps([
    {"round": 0, "ranks": 2, "series": "topo", "microseconds": {1024: 40.0, 102_400_000: 8000.0}},
    {"round": 0, "ranks": 2, "series": BASE, "microseconds": {1024: 90.0, 102_400_000: 25000.0}},
    {"round": 0, "ranks": 2, "series": LIMIT, "microseconds": {1024: 1.0, 102_400_000: 1.0}},
    {"round": 1, "ranks": 2, "series": "topo", "microseconds": {1024: 60.0, 102_400_000: 9000.0}},
    {"round": 1, "ranks": 2, "series": BASE, "failed": "killed"},
    {"round": 0, "ranks": 4, "series": BASE, "failed": "killed"},
]))


def test_a_curve_has_the_spread_of_each_size():
    by_series = {(curve.ranks, curve.series): curve for curve in curves(MEASUREMENTS)}
    assert list(by_series) == [(2, LIMIT), (2, BASE), (2, "topo"), (4, BASE)]
    assert by_series[2, "topo"].microseconds == {1024: Spread(50.0, 40.0, 60.0, 2),
                                                 102_400_000: Spread(8500.0, 8000.0, 9000.0, 2)}
    assert (by_series[2, BASE].failed, by_series[4, BASE].failed) == (1, 1)
    assert by_series[4, BASE].microseconds == {}


def test_the_summary_names_the_fastest_at_both_ends_which_is_not_the_limit():
    page = section({"measurements": MEASUREMENTS})
    assert page.summary == ("1 KiB take 50 us at best (topo, 2 ranks); 102.4 MB take 8,500 us at "
                            "best (topo, 2 ranks).")
    assert len(page.pictures) == 1
    assert page.grids[0].rows[-1] == ("4", BASE, "failed", "")


def test_nothing_but_failures_can_be_shown():
    page = section({"measurements": MEASUREMENTS[-1:]})
    assert not page.pictures and page.summary == "No allreduce was measured."


def test_sizes_in_words():
    assert [bytes_text(size) for size in (4, 1024, 1 << 20, 3 << 20, 102_400_000, 1500)] == [
        "4 B", "1 KiB", "1 MiB", "3 MiB", "102.4 MB", "1500 B"]


@pytest.fixture
def environment(tmp_path) -> Path:
    """A Python with a horovodrun beside it, as far as one can see."""
    (tmp_path / "bin").mkdir()
    for name in ("python", "horovodrun"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def test_oneccl_is_another_environments_and_lies_where_its_wheels_put_it(
        answers, environment, tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/before")
    answers += [result(1.0, 2.0)] * 5
    python = environment / "bin" / "python"
    assert sizes(*QUICK, "--oneccl", python, "--plain", python, "--output", tmp_path / "out") == 0
    oneccl, plain = (series for series, *_ in answers.runs[-2:])
    environ = oneccl.environ()
    assert (oneccl.name, oneccl.python, oneccl.mode) == ("off, oneCCL", str(python), BASE)
    assert environ["HOROVOD_CPU_OPERATIONS"] == "CCL"
    assert environ["LD_LIBRARY_PATH"] == f"{environment / 'lib'}{os.pathsep}/before"
    assert environ["I_MPI_ROOT"] == environ["CCL_ROOT"] == str(environment)
    assert (plain.name, plain.mode) == ("plain upstream", None)


def test_a_job_that_fails_is_kept_as_such(answers, tmp_path, capsys):
    answers += [result(1.0, 2.0), launch.JobFailed("killed"), result(1.0, 2.0)]
    assert sizes(*QUICK, "--output", tmp_path) == 2
    assert "1 of 3 jobs failed" in capsys.readouterr().err


@pytest.mark.parametrize("arguments, message", [
    (("--bytes", "1022"), "1022 bytes are no whole number of float32"),
    (("--bytes", "0"), "'0' is not a whole number of at least 1"),
    (("--oneccl", "/no/python"), "/no/python is no Python with a horovodrun beside it"),
    (("--plain", "/no/python"), "/no/python is no Python with a horovodrun beside it"),
    (("--ranks", "none"), "'none' is not a whole number of at least 1"),
])
def test_bad_option(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit:
        sizes(*arguments)
    assert exit.value.code == 2 and message in capsys.readouterr().err
