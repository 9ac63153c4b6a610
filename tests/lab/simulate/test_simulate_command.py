"""`horovod-opt simulate` with the preset: its files, its pictures, and what it refuses."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("numpy")

from horovod_lab.measuring import documents, present
from horovod_lab.simulate import model, simulation_pictures, summit, tables
from horovod_opt import cli

QUICK = ["--ranks", "6,12", "--steps", "2"]


@pytest.fixture(autouse=True)
def _few_steps_and_no_files(monkeypatch, request):
    """Pictures take longer to write than anything else here."""
    monkeypatch.setattr(summit, "NETWORKS_RANKS", 12)
    monkeypatch.setattr(summit, "NETWORKS_STEPS", 2)
    if "pictures" not in request.node.name:
        monkeypatch.setattr(present, "show", lambda section, folder: None)


def run(tmp_path, *arguments: str) -> int:
    return cli.main(["simulate", "--output", str(tmp_path / "out"), *arguments])


def result(tmp_path) -> dict:
    return documents.load(tmp_path / "out" / "simulation.json", "simulation")


def test_the_preset_gives_results_pictures_and_a_table(tmp_path, capsys):
    assert run(tmp_path, *QUICK) == 0
    document = result(tmp_path)
    assert [(row["ranks"], row["mode"]) for row in document["results"]] == [
        (ranks, mode) for ranks in (6, 12)
        for mode in ("off", "gs", "nbcs", "scp", "topo", "topo+scp")]
    for row in document["results"]:
        parts = row["breakdown"]
        assert (parts["compute"] + parts["data"] + parts["overhead"]
                == pytest.approx(row["step_seconds"]["mean"]))
        assert 0 < row["efficiency"] <= 1.1 and 0 <= row["background_cpu"] <= 1
        assert (row["improvement_over_off"] == 0) == (row["mode"] == "off")
    assert document["source"] == []  # not at these numbers of ranks
    assert document["cost"]["peak_mib"] > 1
    pictures = {path.name for path in (tmp_path / "out").glob("*.png")}
    assert {"simulated-scaling.png", "simulated-timelines.png"} <= pictures
    printed = capsys.readouterr().out
    assert "Simulated training" in printed and "FITTED" in printed


def test_the_same_seed_writes_the_same_results(tmp_path):
    prints = []
    for seed in ("4", "4", "5"):
        assert run(tmp_path, *QUICK, "--modes", "off", "--set", "batch=16", "--seed", seed) == 0
        prints.append(result(tmp_path)["results"])
    assert prints[0] == prints[1] != prints[2]


def test_a_set_parameter_is_used_and_written_down(tmp_path):
    assert run(tmp_path, *QUICK, "--modes", "topo", "--set", "compute_seconds=0.5") == 0
    document = result(tmp_path)
    assert document["parameters"]["compute_seconds"]["value"] == 0.5
    assert document["parameters"]["compute_seconds"]["origin"] == "set"
    assert document["results"][0]["step_seconds"]["mean"] > 0.5
    assert document["results"][0]["improvement_over_off"] is None
    assert "source" not in document  # it is another machine now


def test_an_interruption_keeps_what_was_simulated(tmp_path, monkeypatch, capsys):
    simulate = model.simulate

    def interrupted(p, mode, ranks, *arguments, **options):
        if (mode, ranks) == ("gs", 12):
            raise KeyboardInterrupt
        return simulate(p, mode, ranks, *arguments, **options)

    monkeypatch.setattr(model, "simulate", interrupted)
    assert run(tmp_path, *QUICK, "--modes", "off,gs") == 130
    assert len(result(tmp_path)["results"]) == 3
    assert "Interrupted" in capsys.readouterr().err


@pytest.mark.parametrize("arguments, message", [
    (["--modes", "off,fast"], "'fast' is no mode that is simulated; there are off, gs"),
    (["--ranks", "6,many"], "'many' is not a whole number"),
    (["--ranks", "0"], "'0' is not a whole number from 1"),
    (["--set", "input_duty=7"], "input_duty=7 is not a number from 0 to 1"),
    (["--set", "cores=2.5"], "cores=2.5 is not a whole number from 1 to 4096"),
    (["--set", "corse=2"], "'corse' is no parameter; there are batch"),
    (["--set", "cores"], "'cores' is no parameter"),
    (["--set", "step_seconds=1"], "'step_seconds' is no parameter"),
    (["--seed", "-1"], "--seed -1"),
    (["--from", "none.json"], "none.json cannot be read"),
    (["--validate", "none.json"], "none.json cannot be read"),
])
def test_bad_values_are_refused_with_what_is_allowed(tmp_path, capsys, arguments, message):
    assert run(tmp_path, *arguments) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "simulation.json").exists()


def test_scp_is_left_out_where_a_rank_has_one_core(tmp_path, capsys):
    assert run(tmp_path, "--ranks", "6", "--steps", "2", "--modes", "scp,off",
               "--set", "cores=1") == 0
    assert [row["mode"] for row in result(tmp_path)["results"]] == ["off"]
    assert "Left out: scp" in capsys.readouterr().err


def test_hits_and_misses_beside_the_source_are_told():
    step = {"mean": 1.0}
    rows = [{"mode": "off", "ranks": summit.LARGEST, "efficiency": 0.303, "background_cpu": 0.95,
             "improvement_over_off": 0.0, "step_seconds": step,
             "breakdown": {"compute": 0.3, "overhead": 0.46, "data": 0.24}},
            {"mode": "gs", "ranks": summit.LARGEST, "efficiency": 0.35, "background_cpu": 0.4,
             "improvement_over_off": 0.02, "step_seconds": step,
             "breakdown": {"compute": 0.3, "overhead": 0.46, "data": 0.24}}]
    answers = {row["figure"]: row["met"] for row in summit.compare(rows)}
    assert answers == {"weak-scaling efficiency, off": True, "allreduce in a step, off": True,
                       "of it idle GPU, off": False, "background overhead in a step, off": True,
                       "improvement, gs": False, "background thread's CPU, off": False}
    fits = [row["figure"] for row in summit.compare(rows) if row["fitted"]]
    assert fits == ["weak-scaling efficiency, off", "improvement, gs"]


@pytest.mark.parametrize("value, low, high, is_met", [
    (0.86, 1.0, 1.0, True), (0.84, 1.0, 1.0, False), (1.14, 1.0, 1.0, True),
    (0.60, 0.6, 0.9, True), (0.90, 0.6, 0.9, True), (0.59, 0.6, 0.9, False),
    (0.91, 0.6, 0.9, False)])
def test_a_figure_is_met_nearby_and_a_range_inside(value, low, high, is_met):
    assert summit.is_met(value, low, high) == is_met


def test_fitted_and_predicted_figures_are_counted_apart():
    rows = [{"source": [0.1, 0.1], "fitted": is_fitted, "met": is_met}
            for is_fitted, is_met in ((True, True), (True, False), (False, True), (False, False),
                                      (False, False))]
    text = summit.counts([*rows, {"source": None, "fitted": False, "met": None}])
    assert text == ("Of 3 figures that were not used for fitting, 1 are met; of 2 that were, 1.")
    document = {"source": [{"figure": "a", "section": "6", "simulated": 0.1, **row}
                           for row in rows]}
    grid, = tables.source(document)
    assert [(row[-2], row[-1]) for row in grid.rows] == [
        ("fitted", "yes"), ("fitted", "no"), ("predicted", "yes"), ("predicted", "no"),
        ("predicted", "no")]
    assert text in grid.note


def test_topo_is_predicted_for_other_messages_between_nodes(tmp_path, monkeypatch):
    monkeypatch.setattr(summit, "LARGEST", 12)
    assert run(tmp_path, *QUICK, "--modes", "off,topo") == 0
    document = result(tmp_path)
    ways = {row["messages"]: row["simulated"] for row in document["ways"]}
    assert set(ways) == {text for text, _ in summit.MESSAGE_WAYS}
    topo = next(row for row in document["results"] if (row["mode"], row["ranks"]) == ("topo", 12))
    assert ways["by MPI, tested with naps"] == pytest.approx(topo["improvement_over_off"])
    assert ways["over TCP, 20 us a message"] >= ways["over TCP, 50 us a message"] > 0
    grid = next(grid for grid in simulation_pictures.section(document).grids
                if grid.title.startswith("topo by the way of messages"))
    assert [row[-1] for row in grid.rows] == ["predicted"] * len(ways)
    assert summit.message_ways(document["results"][:1], 2, 0) == []  # of six ranks alone


def test_files_that_do_not_say_what_was_fitted_are_read():
    results = [{"mode": mode, "ranks": summit.LARGEST, "efficiency": 0.3, "background_cpu": 0.9,
                "improvement_over_off": gain, "step_seconds": {"mean": 1.0},
                "breakdown": {"compute": 0.3, "overhead": 0.46, "data": 0.24}}
               for mode, gain in (("off", 0.0), ("gs", 0.1), ("scp", 0.1))]
    source, networks = summit.compare(results), summit.networks(seed=0)
    document = {"source": source, "networks": networks}
    older = {key: [{name: value for name, value in row.items() if name not in ("fitted", "met")}
                   for row in rows] for key, rows in document.items()}
    for key, rows in document.items():
        assert summit.complete(older[key]) == rows and rows, key
    assert summit.complete(None) == []
    fits = {row["figure"] for row in summit.complete(older["source"]) if row["fitted"]}
    assert fits == {"weak-scaling efficiency, off", "improvement, gs"}


def test_an_older_file_makes_the_same_tables_and_pictures(tmp_path):
    assert run(tmp_path, *QUICK, "--modes", "off,topo") == 0
    document = result(tmp_path)
    for row in document["networks"]:
        del row["fitted"], row["met"]
    page = simulation_pictures.section(document)
    assert "simulated-networks" in {picture.name for picture in page.pictures}
    assert [grid.rows for grid in page.grids] == [
        grid.rows for grid in simulation_pictures.section(result(tmp_path)).grids]


def test_the_network_that_was_used_for_fitting_is_marked():
    rows = {row["network"]: row for row in summit.networks(seed=0)}
    assert [name for name, row in rows.items() if row["fitted"]] == ["ResNet50"]
    assert {name for name, row in rows.items() if row["met"] is not None} == {
        "ResNet50", "GoogLeNet", "Inception-v3", "VGG16"}
    axis = simulation_pictures.networks({"networks": list(rows.values())}).figure.axes[0]
    hollow = [line for line in axis.lines if line.get_marker() == "s" and len(line.get_xdata())]
    assert [line.get_xdata()[0] for line in hollow] == [48]


def test_in_the_picture_what_was_used_for_fitting_is_hollow():
    results = [{"ranks": ranks, "mode": mode, "improvement_over_off": 0.1}
               for ranks in (6, summit.LARGEST) for mode in ("gs", "scp")]
    source = [{"figure": f"improvement, {mode}", "source": [0.1, 0.1], "fitted": mode == "gs"}
              for mode in ("gs", "scp")]
    axis = simulation_pictures.improvement({"results": results, "source": source}).figure.axes[0]
    marks = [line for line in axis.lines if line.get_marker() == "<" and len(line.get_xdata())]
    assert [line.get_markerfacecolor() == "white" for line in marks] == [True, False]
    labels = [text.get_text() for text in axis.get_legend().get_texts()]
    assert labels == ["gs", "scp", "source, fitted to", "source, not used"]
