"""Jobs of the suites: what they ask of Horovod is what they say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from jobs import HANG_SECONDS

from horovod_lab.bench import worker_job
from horovod_lab.bench.steps import kinds, steps_suite
from horovod_lab.bench.training.jobs import Cell, Job
from horovod_lab.bench.training.run_job import Setup, measure
from horovod_lab.bench.worker_job import WORKERS, Series
from horovod_lab.measuring.launch import JobFailed

SETUP = Setup(seconds=0.2, threads=1, timeout=HANG_SECONDS, images=Path())
PARAMETERS = 11_689_512  # of ResNet18


def cell(framework: str, **changed: object) -> Cell:
    return Cell(**{"model": "ResNet18", "framework": framework, "input": "synthetic", "ranks": 2,
                   "batch": 2, "pixels": 32, **changed})


def test_pytorch():
    pytest.importorskip("torch")
    measurement = measure(Job(0, cell("torch"), Series("topo", "topo")), SETUP)
    assert measurement["images_per_second"] == pytest.approx(4 / measurement["step_seconds"])
    for stats in measurement["stats"]:
        assert stats["planned_iterations"] == stats["steps"] == measurement["steps"]
        assert stats["data_bytes"] == 4 * PARAMETERS * measurement["steps"]


def test_pytorchs_own():
    pytest.importorskip("torch")
    ddp = Series("DDP", communicates=False, arguments=("--ddp",))
    measurement = measure(Job(0, cell("torch"), ddp), SETUP)
    assert measurement["images_per_second"] > 0 and measurement["stats"] is None


@pytest.mark.slow
def test_parts_of_a_step_with_real_input(tmp_path):
    pytest.importorskip("tensorflow")
    pytest.importorskip("sklearn")
    subprocess.run(
        [sys.executable, "-c", "import images, pathlib; images.FILES = images.IMAGES_PER_FILE = 4; "
         f"images.make(pathlib.Path({str(tmp_path / 'images')!r}))"], cwd=WORKERS, check=True)
    separate = cell("tensorflow", input="real", separate=True)
    setup = Setup(**{**vars(SETUP), "images": tmp_path / "images"})
    measurement = measure(Job(0, separate, Series("off")), setup)
    parts = measurement["breakdown"]
    assert sum(parts.values()) >= 0.999 * measurement["step_seconds"]
    assert min(parts.values()) >= 0 and parts["computation"] > 0 and parts["data"] > 0
    assert [stats["steps"] for stats in measurement["stats"]] == 2 * [measurement["steps"]]


def test_a_model_that_does_not_fit():
    pytest.importorskip("tensorflow")
    with pytest.raises(JobFailed, match="^ResNet18 does not fit the memory of .* 2 ranks need"):
        measure(Job(0, cell("tensorflow", batch=10**7), Series("off")), SETUP)


def step(name: str, series: Series) -> dict:
    """What one job of the suite steps has measured, with two ranks."""
    return steps_suite.measure(kinds.Job(0, kinds.KINDS[name], 2, series), 0.2, HANG_SECONDS)


DENSE = 24 * (256 * 256 + 256)  # parameters of steps.DENSE_WIDTHS


def test_groups_of_gradients_are_planned_and_steps_do_not_negotiate():
    pytest.importorskip("torch")
    measurement = step("groups_torch", Series("topo", "topo"))
    assert measurement["steps_per_second"] == pytest.approx(1 / measurement["step_seconds"])
    assert len(measurement["stats"]) == 2
    for stats in measurement["stats"]:
        # A vote that is late is a round, after which they are counted anew.
        assert stats["steady_rounds"] <= 0
        assert stats["planned_iterations"] == measurement["steps"]
        assert stats["data_bytes"] == 4 * DENSE * measurement["steps"]


def test_a_model_over_process_sets_reduces_all_its_gradients():
    pytest.importorskip("torch")
    measurement = step("process_sets_torch", Series("off"))
    assert measurement["rounds"] == 0 and measurement["mpi"]
    for stats in measurement["stats"]:
        assert stats["data_bytes"] == 4 * DENSE * measurement["steps"]


def test_one_allreduce_of_each_size_is_planned():
    pytest.importorskip("tensorflow")
    result = worker_job.run(
        Series("topo", "topo"), ["allreduces.py", "sizes", "--seconds", "0.2", "--bytes", "1024",
                                 "400000"], 2, HANG_SECONDS)
    assert set(result["metrics"]["microseconds"]) == {"1024", "400000"}
    assert min(result["metrics"]["microseconds"].values()) > 0
    for timings in result["per_rank"]["counters"]:
        assert sum(stats["planned_iterations"] for stats in timings) == result["metrics"]["steps"]
        assert [stats["data_bytes"] / stats["planned_iterations"]
                for stats in timings] == [1024, 400000]
