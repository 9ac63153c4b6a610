"""The jobs of the suite training: which there are, what they are told, what is read of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from horovod_lab.bench.training import jobs, run_job
from horovod_lab.bench.training.hosts import Hosts
from horovod_lab.bench.training.jobs import Cell, Job
from horovod_lab.bench.worker_job import LIMIT, Series
from horovod_lab.measuring import launch

CELL = Cell("ResNet18", "tensorflow", "synthetic", 2, 4, 96)


def cell(**changed: object) -> Cell:
    return Cell(**{**vars(CELL), **changed})


def order(*modes: str, cells: tuple[Cell, ...] = (CELL,), rounds: int = 1, cores: int = 2,
          peers: bool = False) -> list[Job]:
    series = [Series(LIMIT, communicates=False), *(Series(mode, mode) for mode in modes)]
    return jobs.order(cells, series, rounds, cores, peers)


def test_an_interrupted_benchmark_has_measured_every_series_equally_often():
    queue = order("off", "topo", cells=(CELL, cell(ranks=4)), rounds=3)
    assert [job.round for job in queue] == [0] * 6 + [1] * 6 + [2] * 6
    assert {job.series.name for job in queue[:6] if job.cell == CELL} == {LIMIT, "off", "topo"}
    first = [job.series.name for job in queue if job.cell == CELL][::3]
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


def setup(**changed: object) -> run_job.Setup:
    return run_job.Setup(**{"seconds": 1.0, "threads": 1, "timeout": 60.0, "images": Path("/i"),
                            **changed})


def test_a_measurement_is_what_rank_0_prints(executed):
    result = run_job.measure(Job(0, CELL, Series("topo", "topo")), setup())
    assert result["images_per_second"] == 20.0 and result["memory_mib"] == 600.0
    assert result["stats"] is None
    assert result["breakdown"] == pytest.approx(
        {"computation": 0.25, "waiting": 0.05, "negotiation": 0.1, "data": 0.2})
    [[command]] = executed
    assert command[1:3] == ["-np", "2"] and "--rendezvous" in command


def test_ranks_on_several_hosts_share_no_folder(executed):
    run_job.measure(Job(0, CELL, Series("topo", "topo")), setup(hosts=Hosts((("a", 1), ("b", 1)))))
    [[command]] = executed
    assert command[1:5] == ["-np", "2", "-H", "a:1,b:1"] and "--rendezvous" not in command


def test_without_communication_one_host_stands_for_all(executed):
    result = run_job.measure(Job(0, cell(ranks=4), Series(LIMIT, communicates=False)),
                             setup(hosts=Hosts((("a", 2), ("b", 2)))))
    [commands] = executed
    assert len(commands) == 2 and result["images_per_second"] == 40.0


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
    result = run_job.measure(Job(0, cell(framework=jobs.TF_CNN, model="AlexNet"), Series("off")),
                             setup(tf_cnn_benchmarks=script))
    assert result["images_per_second"] == 12.0
    [[command]] = executed
    assert str(script) in command and "--model=alexnet" in command
    assert "--variable_update=horovod" in command


def test_tf_cnn_benchmarks_alone_prints_each_ranks_own(executed):
    executed.answer = "total images/sec: 11.0\ntotal images/sec: 13.0\n"
    limit = Series(LIMIT, communicates=False)
    result = run_job.measure(Job(0, cell(framework=jobs.TF_CNN, model="AlexNet"), limit),
                             setup(tf_cnn_benchmarks=Path("x")))
    assert result["images_per_second"] == 24.0
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
