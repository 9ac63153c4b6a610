"""How many ranks start: of `horovodrun` without -np, with more or fewer than there are slots; and
as tasks of srun whose MPI does not know of the others."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from jobs import HANG_SECONDS
from launched import Job


@pytest.fixture
def job(tmp_path) -> Job:
    return Job(tmp_path)


@pytest.fixture
def three_gpus(tmp_path) -> dict[str, str]:
    """An environment with an nvidia-smi that lists them."""
    command = tmp_path / "gpus" / "nvidia-smi"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\nfor i in 0 1 2; do echo GPU $i: NVIDIA H100; done\n")
    command.chmod(0o755)
    return {"PATH": os.pathsep.join([str(command.parent), os.environ["PATH"]])}


@pytest.mark.usefixtures("one_core")
def test_ranks_for_the_cpus(job, controller):
    assert len(job.report(controller)) == 1
    assert "horovodrun: 1 rank: no GPU, and 1 CPU; -np sets another number" in job.output


def test_ranks_for_the_gpus(job, controller, three_gpus):
    job.environment = three_gpus
    assert len(job.report(controller)) == 3
    assert "horovodrun: 3 ranks: one for each GPU" in job.output


def test_ranks_for_the_gpus_that_are_visible(job, controller, three_gpus):
    job.environment = {**three_gpus, "CUDA_VISIBLE_DEVICES": "0,2"}
    assert len(job.report(controller)) == 2


def test_ranks_for_the_slots_of_the_hosts(job, controller, three_gpus):
    job.environment = three_gpus
    assert len(job.report(controller, "-H", "localhost:2")) == 2
    assert "horovodrun: 2 ranks: the slots of the hosts localhost:2" in job.output


def test_ranks_for_the_slots_of_a_host_file(job, controller):
    file = job.folder / "hosts"
    file.write_text("localhost slots=3\n")
    assert len(job.report(controller, "--hostfile", file)) == 3


def test_ranks_for_the_tasks_of_slurm(job, need, three_gpus):
    need("gloo")
    job.environment = {**three_gpus, "SLURM_JOB_NODELIST": "localhost",
                       "SLURM_TASKS_PER_NODE": "2"}
    assert len(job.report("--gloo")) == 2
    assert "horovodrun: 2 ranks: the tasks of Slurm's allocation, localhost:2" in job.output


def test_no_command(job):
    job.run()
    assert job.code == 2
    assert "no command to run" in job.output


def test_options_without_a_command_can_be_parsed(parts, monkeypatch):
    """As by programs that start jobs themselves, and by upstream's tests."""
    from horovod.runner.launch import parse_args
    monkeypatch.setattr(sys, "argv", ["horovodrun", "-np", "2", "--autotune"])
    args = parse_args()
    assert (args.num_proc, args.autotune, args.command) == (2, True, [])


@pytest.mark.usefixtures("one_core")
def test_more_ranks_than_cores(job, controller):
    assert len(job.report(controller, "-np", 4)) == 4


@pytest.mark.usefixtures("one_core", "mpi")
def test_fewer_ranks_than_slots(job):
    assert len(job.report("--mpi", "-np", 3, "-H", "localhost:4")) == 3


def test_more_ranks_than_slots_of_open_mpi(job, mpi):
    if "HYDRA" in mpi:
        pytest.skip("Hydra fills the host beyond its slots")
    job.run("--mpi", "-np", 3, "-H", "localhost:2", "true")
    assert job.code != 0
    assert "not enough slots" in job.output


INIT = "import horovod.torch as hvd; hvd.init({}); print(hvd.size())"
# What srun gives to the first of four tasks.
FIRST_TASK = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}


@pytest.mark.parametrize("ranks, environment, says", [
    ("", FIRST_TASK, True),
    ("[0]", FIRST_TASK, False),  # the script wants it so
    ("", {**FIRST_TASK, "SLURM_PROCID": "1"}, False),
    ("", {}, False),
])
def test_it_is_said_once(need, ranks, environment, says):
    """hvd.init() says that they train apart."""
    need("torch", "mpi")
    inherited = {name: text for name, text in os.environ.items() if "SLURM" not in name}
    result = subprocess.run([sys.executable, "-c", INIT.format(ranks)], capture_output=True,
                            text=True, env={**inherited, **environment}, timeout=HANG_SECONDS)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "1\n"
    assert ("srun has started 4 tasks, but Horovod has 1 rank" in result.stderr) == says
