"""The series of a benchmark: what --modes names, how it runs and how it is drawn."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("matplotlib")
from matplotlib.colors import to_rgba

from horovod_lab.bench.worker_job import LIMIT, MODES, MPI_YIELD, YIELDING, gs_interval, of_modes
from horovod_lab.style import OTHER_SERIES, series_colour, series_line
from horovod_opt import cli


def test_each_mode_is_a_series_but_off_which_is_always_there():
    assert [(series.name, series.mode) for series in of_modes("gs,off,topo+scp,gs")] == [
        ("gs", "gs"), ("topo+scp", "topo+scp")]


@pytest.mark.parametrize("text, name, mode, value", [
    ("off+yield", "off, yielding", "off", "1"),
    ("gs-yield", "gs, not yielding", "gs", "0"),
    ("gs+nbcs-yield", "gs+nbcs, not yielding", "gs+nbcs", "0"),
    ("gs/5-yield", "gs, every 5, not yielding", "gs", "0"),
])
def test_how_mpi_waits_is_part_of_a_series(monkeypatch, text, name, mode, value):
    monkeypatch.setenv(MPI_YIELD, "another")
    (series,) = of_modes(text)
    assert (series.name, series.mode) == (name, mode)
    assert series.environ()[MPI_YIELD] == value and series.environ()["HOROVOD_OPT_MODE"] == mode


def test_how_often_gs_agrees_is_part_of_a_series(monkeypatch):
    monkeypatch.setenv("HOROVOD_OPT_GS_INTERVAL", "7")
    intervals = {series.name: series.environ()["HOROVOD_OPT_GS_INTERVAL"]
                 for series in of_modes("gs,gs/5,gs/50,gs+nbcs/2")}
    assert intervals == {"gs": "7", "gs, every 5": "5", "gs, every 50": "50",
                         "gs+nbcs, every 2": "2"}
    assert [gs_interval(name) for name in intervals] == [1, 5, 50, None]


def test_who_does_not_say_how_mpi_waits_has_what_the_environment_says(monkeypatch):
    monkeypatch.delenv(MPI_YIELD, raising=False)
    assert all(MPI_YIELD not in series.environ() for series in of_modes("gs,nbcs,topo"))


def test_a_mode_and_how_mpi_waits_keep_apart_in_a_picture():
    names = [LIMIT, "off", *(series.name for series in of_modes(MODES))]
    looks = {name: (to_rgba(series_colour(name)), series_line(name)) for name in names}
    for first, second in itertools.combinations(names, 2):
        assert looks[first] != looks[second], (first, second)
    assert YIELDING.name in names and series_line("gs") == "-" != series_line("gs, not yielding")
    assert all(to_rgba(colour) for colour in OTHER_SERIES.values())


@pytest.mark.parametrize("suite", ["training", "steps", "overhead"])
@pytest.mark.parametrize("modes, problem", [
    ("gs,fast", "'fast' is not a mode"),
    ("gs+yield-yield", "'yield' is not a mode"),
    ("+yield", "a mode is missing"),
    ("gs/0", "HOROVOD_OPT_GS_INTERVAL='0'"),
    ("gs/", "a slash and a number of cycles follow gs only"),
    ("topo/5", "a slash and a number of cycles follow gs only"),
])
def test_what_is_no_mode_is_refused(suite, modes, problem, capsys):
    with pytest.raises(SystemExit) as exit:
        cli.main(["bench", suite, "--modes", modes])
    assert exit.value.code == 2 and problem in capsys.readouterr().err
