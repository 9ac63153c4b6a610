"""The scaling benchmark's own machinery. No job of these tests uses Horovod."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("matplotlib")

from horovod_opt import cli
from horovod_opt.bench.training import hosts, jobs, run_job, training_suite
from horovod_opt.bench.training.hosts import Hosts, HostsError
from horovod_opt.bench.training.jobs import Cell, Job
from horovod_opt.bench.training.results import rows
from horovod_opt.bench.training.scaling_pictures import section
from horovod_opt.bench.worker_job import BASE, LIMIT, Series
from horovod_opt.measuring import documents, launch
from horovod_opt.measuring.comparison import Interval, Noise
from horovod_opt.measuring.present import rich_table, save_pictures

CELL = Cell("ResNet18", "tensorflow", "synthetic", 2, 4, 96)


def cell(**changed: object) -> Cell:
    return Cell(**{**vars(CELL), **changed})


# Which jobs


def order(*modes: str, cells: tuple[Cell, ...] = (CELL,), rounds: int = 1, cores: int = 2,
          peers: bool = False) -> list[Job]:
    series = [Series(LIMIT, communicates=False), *(Series(mode, mode) for mode in modes)]
    return jobs.order(cells, series, rounds, cores, peers)


def test_an_interrupted_benchmark_has_measured_every_series_equally_often():
    planned = order("off", "topo", cells=(CELL, cell(ranks=4)), rounds=3)
    assert [job.round for job in planned] == [0] * 6 + [1] * 6 + [2] * 6
    assert {job.series.name for job in planned[:6] if job.cell == CELL} == {LIMIT, "off", "topo"}
    first = [job.series.name for job in planned if job.cell == CELL][::3]
    assert first == [LIMIT, "off", "topo"]


def test_scp_runs_where_every_rank_has_two_cores():
    cells = (CELL, cell(ranks=4))
    assert not [job for job in order("off", "topo+scp", cells=cells, cores=2)
                if "scp" in job.series.name]
    assert {job.cell.ranks for job in order("scp", cells=cells, cores=4)
            if job.series.name == "scp"} == {2}


def test_parts_of_a_step_are_those_of_horovod():
    names = {job.series.name for job in order("off", "topo", cells=(cell(separate=True),),
                                              peers=True)}
    assert names == {"off", "topo"}


@pytest.mark.parametrize("framework, peers", [
    ("tensorflow", {"MultiWorkerMirroredStrategy"}), ("torch", {"DDP", "DDP, static graph"}),
    ("tf_cnn_benchmarks", set())])
def test_peers_belong_to_their_framework(framework, peers):
    names = {job.series.name for job in order("off", cells=(cell(framework=framework),),
                                              peers=True)}
    assert names == {LIMIT, "off"} | peers


# Where


def test_hosts_are_passed_to_horovodrun():
    assert Hosts().options() == []
    assert hosts.from_option("node1:4,node2").options() == ["-H", "node1:4,node2:1"]
    assert hosts.from_option("node1:4,node2:4").on_first(6) == 4
    assert Hosts().on_first(6) == 6


@pytest.mark.parametrize("text", ["", "a:0", "a:x", "a:1,,b:1", "a b"])
def test_what_is_no_list_of_hosts(text):
    with pytest.raises(HostsError, match="is no host; write NAME:SLOTS"):
        hosts.from_option(text)


def test_host_file(tmp_path):
    file = tmp_path / "hosts"
    file.write_text("# two\nnode1 slots=4\n\nnode2   slots=2 # the small one\nnode3\n")
    assert hosts.from_file(file).slots == (("node1", 4), ("node2", 2), ("node3", 1))


@pytest.mark.parametrize("text, message", [
    ("", "names no host"), ("node1 slots=x\n", "line 1: 'node1 slots=x' is not NAME slots=N"),
    ("a\nb 4\n", "line 2: 'b 4' is not")])
def test_what_is_no_host_file(tmp_path, text, message):
    (tmp_path / "hosts").write_text(text)
    with pytest.raises(HostsError, match=message):
        hosts.from_file(tmp_path / "hosts")


def test_no_host_file(tmp_path):
    with pytest.raises(HostsError, match="cannot be read"):
        hosts.from_file(tmp_path / "none")


@pytest.fixture
def scontrol(tmp_path, monkeypatch):
    """A command that answers as Slurm's, with three names."""
    script = tmp_path / "scontrol"
    script.write_text('#!/bin/sh\n[ "$*" = "show hostnames n[1-3]" ] && printf "n1\\nn2\\nn3\\n"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.parametrize("tasks, slots", [("6(x3)", (6, 6, 6)), ("6(x2),1", (6, 6, 1)),
                                          ("1,2,3", (1, 2, 3))])
def test_slurms_allocation(scontrol, tasks, slots):
    found = hosts.from_slurm({"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_TASKS_PER_NODE": tasks})
    assert found.slots == tuple(zip(("n1", "n2", "n3"), slots))


def test_slurm_without_tasks(scontrol):
    with pytest.raises(HostsError, match="3 hosts, but tasks for 2.*remedy: name them"):
        hosts.from_slurm({"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_TASKS_PER_NODE": "6(x2)"})


def test_slurm_that_does_not_answer(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostsError, match="scontrol failed"):
        hosts.from_slurm({"SLURM_JOB_NODELIST": "n[1-3]", "SLURM_TASKS_PER_NODE": "6(x3)"})
    assert hosts.from_slurm({}) == Hosts()


# One job


def setup(**changed: object) -> run_job.Setup:
    return run_job.Setup(**{"seconds": 1.0, "threads": 1, "timeout": 60.0, "images": Path("/i"),
                        **changed})


def result(images: float = 20.0, **metrics: object) -> str:
    return json.dumps({
        "workload": "train", "metrics": {"images_per_second": images, "step_seconds": 8 / images,
                                         "steps": 30, **metrics},
        "mpi": "Open MPI", "per_rank": {
            "counters": [None, None], "memory_mib": [500.0, 600.0],
            "parts": [{"computation": 0.3, "waiting": 0.0, "negotiation": 0.1, "data": 0.2},
                      {"computation": 0.2, "waiting": 0.1, "negotiation": 0.1, "data": 0.2}]}})


@pytest.fixture
def executed(monkeypatch):
    """Commands that were to be executed; `answer` is what they print."""
    class Executed(list):
        answer: str | Exception = result()

    seen = Executed()

    def execute(commands, environ, timeout):
        seen.append(commands)
        if isinstance(seen.answer, BaseException):
            raise seen.answer
        return seen.answer

    monkeypatch.setattr(launch, "execute", execute)
    return seen


def test_a_measurement_is_what_rank_0_prints(executed):
    measured = run_job.measure(Job(0, CELL, Series("topo", "topo")), setup())
    assert measured["images_per_second"] == 20.0 and measured["memory_mib"] == 600.0
    assert measured["stats"] is None
    assert measured["breakdown"] == pytest.approx(
        {"computation": 0.25, "waiting": 0.05, "negotiation": 0.1, "data": 0.2})
    [[started]] = executed
    assert started[1:3] == ["-np", "2"] and "--rendezvous" in started


def test_ranks_on_several_hosts_share_no_folder(executed):
    run_job.measure(Job(0, CELL, Series("topo", "topo")), setup(hosts=Hosts((("a", 1), ("b", 1)))))
    [[started]] = executed
    assert started[1:5] == ["-np", "2", "-H", "a:1,b:1"] and "--rendezvous" not in started


def test_without_communication_one_host_stands_for_all(executed):
    measured = run_job.measure(Job(0, cell(ranks=4), Series(LIMIT, communicates=False)),
                           setup(hosts=Hosts((("a", 2), ("b", 2)))))
    [commands] = executed
    assert len(commands) == 2 and measured["images_per_second"] == 40.0


def test_a_model_that_does_not_fit_is_said_in_one_line(executed):
    executed.answer = launch.JobFailed(
        "ended with exit code 1\n    WARNING: x\n    [1,0]<stderr>: VGG16 does not fit the memory "
        "of node: 2 ranks need 9 GiB\n    prterun noticed")
    with pytest.raises(launch.JobFailed) as failure:
        run_job.measure(Job(0, CELL, Series("off")), setup())
    assert str(failure.value) == "VGG16 does not fit the memory of node: 2 ranks need 9 GiB"


def test_other_failures_keep_their_reason(executed):
    executed.answer = launch.JobFailed("ended with exit code 9\n    the end")
    with pytest.raises(launch.JobFailed, match="exit code 9\n    the end"):
        run_job.measure(Job(0, CELL, Series("off")), setup())


@pytest.mark.parametrize("extra, expected", [
    ({"separate": True}, "--separate"), ({"input": "real"}, "--images"),
    ({"framework": "torch"}, "train_torch.py")])
def test_what_the_worker_is_told(extra, expected):
    assert expected in run_job.worker(cell(**extra), setup())
    assert expected not in run_job.worker(CELL, setup())


def test_tf_cnn_benchmarks_with_horovod_prints_the_total_on_each_rank(executed):
    line = "[1,{}]<stdout>: total images/sec: {}\n"
    executed.answer = line.format(0, "11.00") + "noise\n" + line.format(1, "13.00")
    script = Path("/checkout/tf_cnn_benchmarks.py")
    measured = run_job.measure(Job(0, cell(framework=jobs.TF_CNN, model="AlexNet"), Series("off")),
                           setup(tf_cnn_benchmarks=script))
    assert measured["images_per_second"] == 12.0
    [[started]] = executed
    assert str(script) in started and "--model=alexnet" in started
    assert "--variable_update=horovod" in started


def test_tf_cnn_benchmarks_alone_prints_each_ranks_own(executed):
    executed.answer = "total images/sec: 11.0\ntotal images/sec: 13.0\n"
    limit = Series(LIMIT, communicates=False)
    measured = run_job.measure(Job(0, cell(framework=jobs.TF_CNN, model="AlexNet"), limit),
                           setup(tf_cnn_benchmarks=Path("x")))
    assert measured["images_per_second"] == 24.0
    assert len(executed[0]) == 2


def test_tf_cnn_benchmarks_without_a_result():
    with pytest.raises(launch.JobFailed, match="1 lines .* for 2 ranks.*bye"):
        run_job.total_images_per_second("total images/sec: 3\nbye\n", 2, shared=True)


def test_tf_cnn_benchmarks_is_found_in_a_checkout_its_folder_or_by_name(tmp_path):
    script = tmp_path / "scripts" / "tf_cnn_benchmarks" / "tf_cnn_benchmarks.py"
    script.parent.mkdir(parents=True)
    script.touch()
    for path in (tmp_path, script.parent, script):
        assert run_job.find_tf_cnn_benchmarks(path) == script
    with pytest.raises(ValueError, match="there is no tf_cnn_benchmarks.py in"):
        run_job.find_tf_cnn_benchmarks(tmp_path / "scripts")


# Results


def measured(series: str, number: int, images: float, **changed: object) -> dict:
    stats = {"background_user_seconds": 1.0, "background_system_seconds": 0.5,
             "elapsed_seconds": 3.0, "process_involuntary_switches": 60}
    return {"round": number, **vars(CELL), "series": series, "images_per_second": images,
            "step_seconds": 8 / images, "steps": 30, "breakdown": None,
            "stats": None if series == LIMIT else [stats, stats], **changed}


PARTS = {"computation": 0.3, "waiting": 0.05, "negotiation": 0.1, "data": 0.05}
MEASUREMENTS = [
    measured("topo", 0, 15.0), measured(BASE, 0, 10.0), measured(LIMIT, 0, 20.0),
    measured("topo", 1, 30.0), measured(BASE, 1, 20.0), measured(LIMIT, 1, 40.0),
    {"round": 2, **vars(CELL), "series": "topo", "failed": "killed"},
    {"round": 0, **vars(CELL), "series": "gs", "failed": "killed"},
    measured("topo", 0, 16.0, separate=True, breakdown=PARTS),
    measured("topo", 0, 25.0, ranks=4),
]


def row(series: str, **changed: object):
    [found] = [one for one in rows(MEASUREMENTS) if (one.cell, one.series) == (
        cell(**changed), series)]
    return found


def test_gain_and_efficiency_are_of_pairs_of_a_round():
    # The machine became twice as fast in round 1: each pair says the same nevertheless.
    topo = row("topo")
    assert topo.gain == Interval(0.5, 0.5, 0.5, 2)
    assert topo.efficiency == Interval(0.75, 0.75, 0.75, 2)
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
    assert row("topo", ranks=4).images_per_second == Interval(25.0, None, None, 1)


def test_what_is_missing_is_none():
    assert row("gs").images_per_second is None and row("gs").failed == 1
    assert row("topo", ranks=4).gain is None
    assert row(LIMIT).background is None and row(LIMIT).efficiency is None


def document(measurements: list[dict]) -> dict:
    return {**documents.new("bench", ["horovod-opt"]), "settings": {"scaling": "weak"},
            "measurements": measurements}


def test_tables_and_pictures_come_from_the_file_alone(tmp_path):
    shown = section(json.loads(json.dumps(document(MEASUREMENTS))))
    assert "50 %: topo" in shown.summary
    text = io.StringIO()
    for grid in shown.grids:
        Console(file=text, width=240).print(rich_table(grid))
    for part in ("22.5 (-1.37 to 46.4)", "2 of 3", "failed", "0 of 1", "+50.0", "75.0",
                 "computation", "300"):
        assert part in text.getvalue(), part
    files = save_pictures(shown.pictures, tmp_path)
    assert [file.name for file in files] == [
        "bench-weak-scaling-tensorflow-synthetic-input-batch-4.png",
        "bench-breakdown-tensorflow-synthetic-input-batch-4.png", "bench-contention.png"]
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in files)


def test_nothing_but_failures_can_be_shown():
    failed = [one for one in MEASUREMENTS if "failed" in one]
    shown = section(document(failed))
    assert not shown.pictures and shown.grids[0].rows[0][3] == "failed"
    assert shown.summary == "No mode was measured beside off."


# The command


def bench(*arguments: object) -> int:
    return cli.main(["bench", *map(str, arguments)])


@pytest.mark.parametrize("arguments, message", [
    (("--models", "ResNet51"), "'ResNet51' is not one of ResNet18"),
    (("--models", "VGG16", "--framework", "torch"), "'VGG16' is not one of"),
    (("--modes", "off,fast"), "'fast' is not a mode"),
    (("--input", "jpeg"), "'jpeg' is neither synthetic nor real"),
    (("--input", "real", "--framework", "torch"), "is read by tf.data"),
    (("--pixels", 40, "--models", "AlexNet"), "AlexNet needs at least 67, not 40"),
    (("--global-batch", 9, "--ranks", 2), "9 images are not the same number for each of 2 ranks"),
    (("--global-batch", 8, "--batch", 4), "give one of them"),
    (("--breakdown", "--framework", "torch"), "measured with TensorFlow only"),
    (("--tf-cnn-benchmarks", "/nowhere"), "there is no tf_cnn_benchmarks.py in /nowhere"),
    (("--plain", "/nowhere/python"), "no horovodrun beside /nowhere/python"),
    (("--hosts", "a:1,b:1", "--ranks", 4), "4 ranks, but the hosts have 2 slots"),
    (("--output", "/proc/1/x"), "/proc/1/x cannot be made"),
])
def test_what_cannot_be_measured_is_refused_before_anything_runs(
        executed, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert bench(*arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("horovod-opt bench: ") and message in error
    assert not executed


QUICK = ("--models", "ResNet18", "--modes", "topo", "--ranks", 2, "--rounds", 1)


def test_a_benchmark_is_measured_shown_and_kept(executed, tmp_path, capsys):
    assert bench(*QUICK, "--output", tmp_path) == 0
    saved = documents.load(tmp_path / "bench.json", "bench")
    assert [(one["series"], one["mode"], one["images_per_second"])
            for one in saved["measurements"]] == [(LIMIT, None, 20.0), ("off", "off", 20.0),
                                                  ("topo", "topo", 20.0)]
    captured = capsys.readouterr()
    assert "20.0" in captured.out and "bench.json" in captured.err


def test_an_interrupted_benchmark_goes_on(executed, tmp_path, monkeypatch, capsys):
    answers = iter([result(1.0), KeyboardInterrupt()])
    monkeypatch.setattr(run_job.launch, "execute", lambda *_: _next(answers))
    assert bench(*QUICK, "--output", tmp_path) == 130
    assert "The same command goes on from here" in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setattr(run_job.launch, "execute", lambda *_: result(2.0))
    assert bench(*QUICK, "--output", tmp_path) == 0
    saved = documents.load(tmp_path / "bench.json", "bench")
    assert [one["images_per_second"] for one in saved["measurements"]] == [1.0, 2.0, 2.0]
    assert "Measured before, and kept: 1 of 3 jobs" in capsys.readouterr().err


def _next(answers):
    answer = next(answers)
    if isinstance(answer, BaseException):
        raise answer
    return answer


def test_failed_jobs_are_tried_again_and_end_with_2(executed, tmp_path, monkeypatch, capsys):
    answers = iter([result(1.0), launch.JobFailed("killed: not finished after 9 s"), result(3.0)])
    monkeypatch.setattr(run_job.launch, "execute", lambda *_: _next(answers))
    assert bench(*QUICK, "--output", tmp_path) == 2
    assert "1 of 3 jobs failed; the others are kept" in capsys.readouterr().err
    monkeypatch.setattr(run_job.launch, "execute", lambda *_: result(2.0))
    assert bench(*QUICK, "--output", tmp_path) == 0
    saved = documents.load(tmp_path / "bench.json", "bench")
    assert {one["series"]: one["images_per_second"] for one in saved["measurements"]} == {
        LIMIT: 1.0, "off": 2.0, "topo": 3.0}


def test_measurements_with_other_settings_are_not_mixed(executed, tmp_path, capsys):
    assert bench(*QUICK, "--output", tmp_path) == 0
    before = (tmp_path / "bench.json").read_text()
    assert bench(*QUICK, "--seconds", 9, "--output", tmp_path) == 2
    assert "was measured with other seconds; remedy: another --output" in capsys.readouterr().err
    assert (tmp_path / "bench.json").read_text() == before


def test_half_a_file_is_not_overwritten(executed, tmp_path, capsys):
    (tmp_path / "bench.json").write_text('{"kind": "ben')
    assert bench(*QUICK, "--output", tmp_path) == 2
    assert "is not JSON, or only a part of it" in capsys.readouterr().err
    assert (tmp_path / "bench.json").read_text() == '{"kind": "ben'


def test_help_is_quick_and_loads_no_library_for_plots():
    code = ("import sys; from horovod_opt import cli\n"
            "try: cli.main(['bench', '--help'])\nexcept SystemExit: pass\n"
            "assert not {'matplotlib', 'numpy', 'tensorflow'} & set(sys.modules)")
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_prepared_cells_have_their_batch(executed):
    parser = training_suite.argparse.ArgumentParser()
    training_suite.add(parser.add_subparsers())
    options = parser.parse_args(["bench", "--global-batch", "8", "--ranks", "2", "4", "--input",
                                 "synthetic,real", "--breakdown", "--models", "VGG16,AlexNet"])
    cells, series, prepared = training_suite.prepare(options)
    assert {(one.ranks, one.batch) for one in cells} == {(2, 4), (4, 2)}
    assert len(cells) == 2 * 2 * 2 * 2 and len(set(cells)) == len(cells)
    assert {(one.model, one.pixels) for one in cells} == {("VGG16", 224), ("AlexNet", 227)}
    assert [one.name for one in series][:2] == [LIMIT, BASE]
    assert prepared.images.name == "images"
