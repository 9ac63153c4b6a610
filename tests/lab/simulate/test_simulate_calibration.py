"""`horovod-opt simulate` with a profile and with a benchmark: calibration and validation."""

from __future__ import annotations

import json
import math

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("numpy")

from horovod_lab.measuring import documents, present
from horovod_lab.simulate import calibrate, model, summit, tables, validate
from horovod_lab.simulate.parameters import ParameterError
from horovod_lab.simulate.simulation_pictures import section
from horovod_opt import cli

QUICK = ["--ranks", "6,12", "--steps", "2"]
CLASS = {"threads": 1, "voluntary_switches": 0, "involuntary_switches": 0, "run_delay_seconds": 0}


def cpu(user: float, system: float = 0.0, threads: int = 1) -> dict:
    return {**CLASS, "threads": threads, "user_seconds": user, "system_seconds": system}


def profile(cpus=((0, 1), (0, 1)), stats: dict | None = None, **changes) -> dict:
    """Two ranks that computed for 8 of 10 s, in steps of 0.1 s."""
    counters = {"size": 2, "elapsed_seconds": 20.0, "steps": 200, "planned_iterations": 0,
                "data_bytes": 200 * 4_000_000, "planned_bytes": 0, "data_seconds": 4.0}
    document = documents.new("profile", ["horovod-opt"])
    document["machine"] |= {"cpus": 2, "cores": 2}
    document["ranks"] = [{
        "rank": rank, "cpus": list(mask), "seconds": 10.0, "mode": "off",
        "classes": {"background thread": cpu(9.0), "graph scheduling": cpu(7.0),
                    "Python main": cpu(0.5, 0.5), "input pipeline": cpu(2.0, threads=4)},
        "stats": counters if stats is None else stats or None,
    } for rank, mask in enumerate(cpus)]
    document["cycles"] = {"cycle_time_seconds": 0.001,
                          "oversleeps_seconds": {"0": [0.001, 0.003], "1": [0.002]}}
    return document | changes


def bench(p, ranks=(2, 3), modes=("off", "gs", "topo"), noise=1.0) -> dict:
    """What a machine measures that behaves as the model says."""
    document = documents.new("bench", ["horovod-opt"])
    document["machine"] |= {"cpus": 2, "cores": 2}
    document |= {"settings": {"scaling": "weak", "threads": 1, "hosts": []}, "measurements": []}
    for count in ranks:
        rates = {"no communication": 2 / max(1, count / 2) * count / 2 / p.compute_seconds * 4}
        for mode in modes:
            node = summit_like(p, ranks_per_node=count)
            steps = model.simulate(node, mode, count, 8, seed=5).steps
            rates[mode] = count * 4 / (sum(steps) / len(steps)) * (noise if mode == "topo" else 1)
        document["measurements"] += [{
            "round": 0, "model": "ResNet50", "framework": "tensorflow", "input": "synthetic",
            "ranks": count, "batch": 4, "pixels": 96, "separate": False, "series": series,
            "mode": None if series == "no communication" else series, "images_per_second": rate,
        } for series, rate in rates.items()]
    return document


def summit_like(p, **values):
    return calibrate.Setup("test", p, {}).changed("test", **values).parameters


@pytest.fixture
def machine():
    """A node of two cores that its ranks share."""
    return calibrate.Setup.of("test", {
        **calibrate.COMMON, **{name: (value, "") for name, value in {
            "batch": 4, "ranks_per_node": 2, "cores": 2, "shared_cores": 1, "compute_seconds": 0.05,
            "compute_threads": 1, "input_threads": 0, "input_duty": 0, "run_delay_seconds": 0.0015,
            "cycle_seconds": 0.001, "gradient_bytes": 102.4e6,
            "data_cpu_seconds_per_byte": 1e-10,
            "message_cpu_seconds_per_byte": 1e-10}.items()}}).parameters


@pytest.fixture(autouse=True)
def _few_steps_and_no_files(monkeypatch):
    """Pictures take longer to write than anything else here."""
    monkeypatch.setattr(validate, "STEPS", 8)
    monkeypatch.setattr(summit, "NETWORKS_RANKS", 12)
    monkeypatch.setattr(summit, "NETWORKS_STEPS", 2)
    monkeypatch.setattr(calibrate, "CALIBRATION_STEPS", 10)
    monkeypatch.setattr(present, "show", lambda section, folder: None)


def run(tmp_path, *arguments: str) -> int:
    return cli.main(["simulate", "--output", str(tmp_path / "out"), *arguments])


def result(tmp_path) -> dict:
    return documents.load(tmp_path / "out" / "simulation.json", "simulation")


def test_half_a_file_and_another_kind_of_file_are_refused(tmp_path, capsys):
    path = tmp_path / "profile.json"
    documents.save(path, profile())
    whole = path.read_text()
    path.write_text(whole[:200])
    assert run(tmp_path, "--from", str(path)) == 2
    assert "is not JSON, or only a part of it" in capsys.readouterr().err
    path.write_text(whole)
    assert run(tmp_path, "--validate", str(path)) == 2
    assert "is no bench or nodes of horovod-opt" in capsys.readouterr().err


@pytest.mark.parametrize("option, document, lost", [
    ("--from", lambda: profile(), ("ranks", 0, "cpus")),
    ("--from", lambda: profile(), ("ranks", 0, "stats", "data_seconds")),
    ("--validate", lambda: {**documents.new("bench", []), "measurements": []}, ()),
])
def test_a_file_that_lacks_something_is_refused_before_anything_runs(
        tmp_path, capsys, option, document, lost):
    whole = document()
    part = whole
    for key in lost[:-1]:
        part = part[key]
    if lost:
        del part[lost[-1]]
    documents.save(tmp_path / "file.json", whole)
    assert run(tmp_path, option, str(tmp_path / "file.json")) == 2
    assert "file.json lacks " + repr(lost[-1] if lost else "settings") in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_ranks_that_fill_no_node_are_refused_before_anything_runs(tmp_path, capsys):
    documents.save(tmp_path / "profile.json", profile())
    assert run(tmp_path, "--from", str(tmp_path / "profile.json"), "--ranks", "2,7") == 2
    assert "7 ranks do not fill nodes of 2" in capsys.readouterr().err
    assert not (tmp_path / "out" / "simulation.json").exists()


# Calibration

def test_a_profile_calibrates():
    p = calibrate.from_profile(profile(), {}).parameters
    assert (p.ranks_per_node, p.cores, p.shared_cores) == (2, 2, 1)
    assert p.compute_seconds == pytest.approx(0.08)  # 0.8 cores, steps of 0.1 s
    assert (p.input_threads, p.input_duty) == (4, pytest.approx(0.05))
    assert p.run_delay_seconds == pytest.approx(0.002)
    assert p.gradient_bytes == pytest.approx(4e6)
    # 20 ms a step, at 2 cores for 4 threads; two ranks go through it 4.5 times.
    assert p.data_cpu_seconds_per_byte == pytest.approx(0.02 * 0.5 / 4e6 / 4.5)
    assert p.cycle_seconds == 0.001
    assert p.message_cpu_seconds_per_byte == p.data_cpu_seconds_per_byte  # assumed, between nodes


def test_the_steady_part_of_a_profile_counts_if_it_tells_it():
    document = profile()
    for rank in document["ranks"]:
        rank["steady"] = {"seconds": 2.0, "classes": {"graph scheduling": cpu(1.0)}}
    assert calibrate.from_profile(document, {}).parameters.compute_seconds == pytest.approx(0.05)


def test_ranks_with_cores_of_their_own_do_not_share():
    document = profile(cpus=((0, 1), (2, 3)))
    document["machine"] |= {"cpus": 4, "cores": 4}
    p = calibrate.from_profile(document, {}).parameters
    assert (p.cores, p.shared_cores) == (2, 0)


def test_planned_iterations_count_as_steps():
    stats = {**profile()["ranks"][0]["stats"], "steps": 0, "planned_iterations": 100}
    p = calibrate.from_profile(profile(stats=stats), {}).parameters
    assert p.compute_seconds == pytest.approx(0.16)


@pytest.mark.parametrize("document, settings, message", [
    (lambda: profile(ranks=[]), {}, "no rank"),
    (lambda: profile(stats={}), {}, "--set step_seconds="),
    (lambda: profile(stats={}), {"step_seconds": 0.1}, "--set gradient_bytes=..."),
    (lambda: profile(stats={**profile()["ranks"][0]["stats"], "planned_bytes": 1}), {},
     "profile mode off, or --set gradient_bytes=..."),
    (lambda: profile(), {"step_seconds": 0.0}, "step_seconds=0 is not"),
    (lambda: profile(), {"step_seconds": math.nan}, "step_seconds=nan is not"),
    (lambda: profile(), {"step_seconds": math.inf}, "step_seconds=inf is not"),
])
def test_a_profile_that_lacks_something_is_refused_with_the_remedy(document, settings, message):
    with pytest.raises(ParameterError) as caught:
        calibrate.from_profile(document(), settings)
    assert message in str(caught.value)


def test_what_a_profile_lacks_can_be_set(tmp_path, capsys):
    path = tmp_path / "profile.json"
    documents.save(path, profile(stats={}))
    assert run(tmp_path, "--from", str(path), "--steps", "2", "--ranks", "2,8", "--modes", "off,gs",
               *(word for text in ("step_seconds=0.1", "gradient_bytes=4e6", "batch=8",
                                   "data_cpu_seconds_per_byte=1e-9") for word in ("--set", text)),
               ) == 0
    document = result(tmp_path)
    assert document["preset"] == "profile" and "source" not in document
    assert document["parameters"]["batch"]["origin"] == "set"
    assert document["parameters"]["compute_seconds"]["value"] == pytest.approx(0.08)
    assert document["profiled"] == {
        "file": str(path), "mode": "off", "ranks": 2, "step_seconds": 0.1}
    assert "took 100.0 ms a step; simulated are " in capsys.readouterr().out


def test_the_root_of_a_growing_function_is_found():
    for exponent in (1, 2, 3):
        root = calibrate.root(lambda x: x**exponent - 0.2, 0.0, 1.0, 25)
        assert root == pytest.approx(0.2 ** (1 / exponent), abs=1e-6)
    assert calibrate.root(lambda x: x + 1, 0.0, 1.0, 5) == 0


# Validation

def test_a_machine_that_behaves_as_the_model_says_is_predicted(machine):
    validation = validate.validate(bench(machine), None, 0, lambda text: None)
    assert validation["calibrated_on"] == "no communication and gs at 2 ranks"
    errors = {(point["series"], point["ranks"]): point["error"] for point in validation["points"]}
    assert set(errors) == {(series, ranks) for ranks in (2, 3)
                           for series in ("no communication", "off", "gs", "topo")}
    assert max(map(abs, errors.values())) < 0.1
    points = validation["points"]
    assert [(point["series"], point["ranks"]) for point in points if point["calibrated"]] == [
        ("gs", 2), ("no communication", 2)]


def test_a_machine_that_behaves_otherwise_is_not(machine):
    document = bench(machine, ranks=(2,), noise=0.5)
    validation = validate.validate(document, None, 0, lambda text: None)
    error = next(point["error"] for point in validation["points"] if point["series"] == "topo")
    assert error == pytest.approx(1.0, abs=0.1)
    grid = tables.validation({"validation": validation})[0]
    row = next(row for row in grid.rows if row[2] == "topo")
    assert row[-1] == "no"


def test_failed_jobs_other_series_and_other_ways_of_training_are_left_out(machine):
    document = bench(machine, ranks=(2,))
    first = document["measurements"][1]
    document["measurements"] += [
        {**first, "failed": "hung"}, {**first, "separate": True}, {**first, "ranks": 1},
        {**first, "series": "DDP", "mode": None},
        {**first, "series": "off, yielding", "mode": "off"}]
    (_, steps), = validate.cells(document)
    assert {series: len(times) for series, times in steps.items()} == {
        (series, 2): 1 for series in ("no communication", "off", "gs", "topo")}
    document["settings"]["scaling"] = "strong"
    assert not list(validate.cells(document))


def test_hosts_with_fewer_slots_than_ranks_are_nodes(machine):
    document = bench(machine, ranks=(2,), modes=("gs",))
    for job in document["measurements"]:
        job["ranks"] = 4
    document["settings"]["hosts"] = [["first", 2], ["second", 2]]
    validation = validate.validate(document, None, 0, lambda text: None)
    assert validation["parameters"].popitem()[1]["ranks_per_node"]["value"] == 2


def test_a_benchmark_without_anything_to_calibrate_on_is_refused(machine):
    document = bench(machine, ranks=(2,))
    document["measurements"] = [job for job in document["measurements"] if job["mode"]]
    with pytest.raises(ParameterError, match="no communication"):
        validate.check(document, calibrated=False)
    validate.check(document, calibrated=True)


def test_a_section_is_made_of_the_json_alone(tmp_path, machine):
    path = tmp_path / "bench.json"
    documents.save(path, bench(machine, ranks=(2,)))
    assert run(tmp_path, *QUICK, "--modes", "off,topo", "--validate", str(path)) == 0
    document = json.loads((tmp_path / "out" / "simulation.json").read_text())
    document["results"].append({**document["results"][0], "ranks": summit.LARGEST})
    document["source"] = summit.compare(document["results"])
    page = section(document)
    assert {picture.name for picture in page.pictures} == {
        f"simulated-{name}" for name in ("scaling", "background", "improvement", "breakdown",
                                         "timelines", "networks", "validation")}
    assert [grid.title.split(",")[0] for grid in page.grids] == [
        "Simulated training", "Beside the source", "Improvement of topo on other networks (6.4.2)",
        "Predicted and measured", "Fitted to these measurements", "Parameters"]
    assert "measured points that were not used for calibration" in page.summary
