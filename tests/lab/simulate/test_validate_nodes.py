"""`horovod-opt simulate --validate` with nodes.json of `horovod-opt bench nodes`."""

from __future__ import annotations

import copy
import statistics

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("numpy")

from horovod_lab.bench.nodes.rows import (
    CELLS,
    LAYOUTS,
    OFF_GLOO,
    ONE_NODE,
    PAIR,
    SIZE_LARGE,
    TOPO,
    TOPO_BF16,
    TOPO_GLOO,
    Layout,
)
from horovod_lab.bench.worker_job import LIMIT, YIELDING
from horovod_lab.measuring import documents, present
from horovod_lab.simulate import calibrate, calibrate_nodes, model, study, tables, validate_nodes
from horovod_lab.simulate.parameters import ParameterError, Setup
from horovod_lab.simulate.simulation_pictures import section
from horovod_opt import cli

STEP_BYTES = 25_557_032 * 4
# What the machine is like: seconds, seconds a byte.
MACHINE = {"compute_seconds": 0.15, "data_cpu_seconds_per_byte": 6e-11, "hop_inter_seconds": 1e-4,
           "message_cpu_seconds": 1e-5, "message_cpu_seconds_per_byte": 4e-10}
OTHERS_PER_CALL = 50e-6  # CPU seconds of the framework's threads


def machine() -> Setup:
    return calibrate_nodes.in_layout(Setup.of("test", {
        **calibrate.COMMON, **{name: (value, "") for name, value in {
            **MACHINE, "batch": 4, "ranks_per_node": 1, "cores": 2, "shared_cores": 1,
            "compute_threads": 1, "input_threads": 0, "input_duty": 0, "tcp_messages": 1,
            "run_delay_seconds": calibrate.slice_seconds(2), "cycle_seconds": 1e-3,
            "gradient_bytes": STEP_BYTES, "tensors": 161}.items()}}), PAIR)


def stats(calls: float, horovod: float, framework: float = 0.0) -> dict:
    """Counters of a rank that made so many calls, from the CPU seconds of one."""
    return {"planned_buckets": calls, "planned_iterations": calls,
            "background_user_seconds": calls * horovod / 4,
            "background_system_seconds": calls * horovod * 3 / 4,
            "process_user_seconds": calls * (horovod / 4 + framework),
            "process_system_seconds": calls * horovod * 3 / 4}


def measure(workload: str, layout: Layout, series: str) -> dict:
    """What a machine measures that behaves as the model says; something, where nobody predicts."""
    p = calibrate_nodes.in_layout(machine(), layout).parameters
    ranks = layout.ranks
    job = {"workload": workload, "layout": layout.name, "series": series,
           "stats": None}

    def simulated(size: float, **values: float) -> model.Result:
        set_up = Setup("test", p, {}).changed("test", gradient_bytes=size, **values)
        return model.simulate(set_up.parameters, "topo", ranks, 10, seed=5)

    if workload == "resnet50":
        buckets = 32
        if series == LIMIT:
            rate = study.ideal_images_per_second(p, ranks, 5)
        elif series in (TOPO, TOPO_GLOO, TOPO_BF16):
            job["step_bytes"] = STEP_BYTES / (2 if series == TOPO_BF16 else 1)
            result = simulated(job["step_bytes"], bucket_bytes=job["step_bytes"] / buckets)
            step = statistics.fmean(result.steps)
            job["stats"] = [{**stats(50, result.background_cpu * step),
                             "planned_buckets": 50 * buckets}] * ranks
            rate = ranks * 4 / step
        else:
            rate = 10.0
        return {**job, "images_per_second": rate, "step_seconds": ranks * 4 / rate}
    if workload == "small":
        cpu = 2 * MACHINE["message_cpu_seconds"]
        return {**job, "microseconds": 1e6 * (MACHINE["hop_inter_seconds"] + OTHERS_PER_CALL),
                "stats": [stats(2000, cpu, OTHERS_PER_CALL)] * ranks}
    if workload == "large" and series in (TOPO, TOPO_GLOO):
        result = simulated(SIZE_LARGE, compute_seconds=1e-6, bucket_bytes=SIZE_LARGE,
                           tensors=1)
        step = statistics.fmean(result.steps)
        work = model.build(p, "topo", ranks, 1, 0).work(SIZE_LARGE) if layout == ONE_NODE else (
            result.background_cpu * step)
        return {**job, "microseconds": 1e6 * step, "step_bytes": SIZE_LARGE,
                "stats": [stats(20, work, 1e-3)] * ranks}
    return {**job, "microseconds": 1e5, "background_percent": 0.1}


@pytest.fixture(scope="module")
def measurements() -> dict:
    document = documents.new("nodes", ["horovod-opt"])
    document["machine"] |= {"cpus": 2, "cores": 2}
    return document | {"settings": {"seconds": 6.0}, "measurements": [
        {"round": number, **job} for (workload, layout), names in CELLS.items()
        for series in names for job in [measure(workload, layout, series)] for number in (0, 1)]}


@pytest.fixture
def bench(measurements) -> dict:
    return copy.deepcopy(measurements)


@pytest.fixture(autouse=True)
def _few_steps_and_no_files(monkeypatch):
    monkeypatch.setattr(validate_nodes, "STEPS", 10)
    monkeypatch.setattr(present, "show", lambda section, folder: None)


def without(document: dict, workload: str, layout: str, series: str) -> dict:
    document["measurements"] = [
        job for job in document["measurements"]
        if (job["workload"], job["layout"], job["series"]) != (workload, layout, series)]
    return document


# Calibration


def test_four_cells_tell_what_the_machine_is_like(bench):
    setup = calibrate_nodes.from_nodes(bench)
    for name, value in MACHINE.items():
        assert getattr(setup.parameters, name) == pytest.approx(value, rel=0.02), name
        assert setup.origins[name].startswith("calibrated: "), name
    assert setup.parameters.batch == 4
    assert sorted(name for name, origin in setup.origins.items()
                  if origin.startswith("calibrated")) == sorted(MACHINE)


@pytest.mark.parametrize("name, megabits", [
    ("2x1", None), ("2x1@1000", 1000), ("4x2", None)])
def test_a_layout_says_who_shares_what(name, megabits):
    p = calibrate_nodes.in_layout(machine(), LAYOUTS[name]).parameters
    assert p.ranks_per_domain == LAYOUTS[name].ranks
    assert p.ranks_per_node == LAYOUTS[name].per_host
    expected = 1e15 if megabits is None else 125e6 * 1448 / 1514
    assert p.link_bandwidth == pytest.approx(expected)


@pytest.mark.parametrize("cell, remedy", [
    (("resnet50", "2x1", LIMIT), "--only resnet50 --layouts 2x1"),
    (("large", "1x2", TOPO), "--only large --layouts 1x2"),
    (("large", "2x1", TOPO), "--only large --layouts 2x1"),
    (("small", "2x1", TOPO), "--only small --layouts 2x1")])
def test_without_what_calibrates_it_says_what_to_measure(bench, cell, remedy, tmp_path, capsys):
    documents.save(tmp_path / "nodes.json", without(bench, *cell))
    assert cli.main(["simulate", "--validate", str(tmp_path / "nodes.json"),
                     "--output", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert f"lacks what calibrates: {cell[0]} {cell[1]} {cell[2]}; remedy: " in error
    assert remedy in error
    assert not (tmp_path / "out").exists()


def test_failed_jobs_and_jobs_without_counters_calibrate_nothing(bench):
    for job in bench["measurements"]:
        if (job["workload"], job["layout"]) == ("large", "1x2"):
            job["stats"] = None
        if (job["workload"], job["series"]) == ("small", TOPO):
            job["failed"] = "killed"
    with pytest.raises(ParameterError, match="calibrates: large 1x2 topo, small 2x1 topo; remedy"):
        validate_nodes.check(bench, calibrated=False)


def test_a_profile_beside_it_is_refused(bench):
    with pytest.raises(ParameterError, match="leave --from out"):
        validate_nodes.check(bench, calibrated=True)


# Validation


def points(validation: dict) -> dict[tuple[str, str], dict]:
    return {(point["cell"], point["series"]): point for point in validation["points"]}


def test_a_machine_that_behaves_as_the_model_says_is_predicted_in_every_layout(bench):
    validation = validate_nodes.validate(bench, 0, lambda text: None)
    by_cell = points(validation)
    assert set(by_cell) == {
        *(("ResNet50, 2 nodes of 1", series) for series in (LIMIT, TOPO, TOPO_GLOO)),
        *(("ResNet50, 2 nodes of 1, 1000 Mbit/s", series) for series in (LIMIT, TOPO, TOPO_BF16)),
        *((f"ResNet50, {layout}", TOPO) for layout in ("4 nodes of 1", "2 nodes of 2",
                                                       "4 nodes of 2")),
        *(("allreduce of 102 MB, 2 nodes of 1", series) for series in (TOPO, TOPO_GLOO)),
        ("allreduce of 102 MB, 1 node of 2", TOPO)}
    for place, point in by_cell.items():
        assert abs(point["error"]) < 0.05, place
        assert point["n"] == 2 and point["low"] <= point["measured"] <= point["high"]
    assert [place for place, point in by_cell.items() if point["calibrated"]] == [
        ("ResNet50, 2 nodes of 1", LIMIT)]
    slow, half = (by_cell["ResNet50, 2 nodes of 1, 1000 Mbit/s", series]["predicted"]
                  for series in (TOPO, TOPO_BF16))
    assert half > 1.5 * slow  # half of the bytes
    assert by_cell["allreduce of 102 MB, 2 nodes of 1", TOPO]["unit"] == "us"
    spent = {(point["cell"], point["series"]): point for point in validation["cpu"]}
    assert set(spent) == {place for place in by_cell if place[1] != LIMIT}
    assert [point["error"] for point in spent.values()] == pytest.approx([0] * len(spent), abs=0.05)
    assert [place for place, point in spent.items() if point["calibrated"]] == [
        ("allreduce of 102 MB, 2 nodes of 1", TOPO), ("allreduce of 102 MB, 1 node of 2", TOPO)]


def test_a_machine_that_behaves_otherwise_is_not(bench):
    for job in bench["measurements"]:
        if (job["workload"], job["layout"], job["series"]) == ("resnet50", "4x2", TOPO):
            job["images_per_second"] /= 2
    validation = validate_nodes.validate(bench, 0, lambda text: None)
    point = points(validation)["ResNet50, 4 nodes of 2", TOPO]
    assert point["error"] == pytest.approx(1.0, abs=0.1)
    grid = tables.validation({"validation": validation})[0]
    verdicts = {(row[0], row[2]): row[-1] for row in grid.rows}
    assert verdicts["ResNet50, 4 nodes of 2", TOPO] == "no"
    assert list(verdicts.values()).count("no") == 1


def test_only_topo_is_predicted(bench):
    validation = validate_nodes.validate(bench, 0, lambda text: None)
    assert {point["series"] for point in validation["points"]
            } == {LIMIT, TOPO, TOPO_GLOO, TOPO_BF16}
    assert {YIELDING.name, OFF_GLOO} <= {job["series"] for job in bench["measurements"]}


def test_the_command_prints_measured_simulated_error_and_what_was_fitted(bench, tmp_path, capsys):
    documents.save(tmp_path / "nodes.json", bench)
    assert cli.main(["simulate", "--ranks", "6", "--modes", "topo", "--steps", "2", "--validate",
                     str(tmp_path / "nodes.json"), "--output", str(tmp_path / "out")]) == 0
    assert ("Of 11 measured points that were not used for calibration, 11 are predicted within 15 %"
            in capsys.readouterr().out)
    document = documents.load(tmp_path / "out" / "simulation.json", "simulation")
    page = section(document)
    titles = {grid.title: grid for grid in page.grids}
    assert len(titles["CPU time of Horovod's threads, predicted and measured"].rows) == 10
    rows = titles["Predicted and measured"].rows
    assert len(rows) == 12 and all(row[-1] == "yes" for row in rows)
    fits = {row[1] for row in titles["Fitted to these measurements"].rows}
    assert fits == set(MACHINE)
    assert "simulated-validation" in {picture.name for picture in page.pictures}
