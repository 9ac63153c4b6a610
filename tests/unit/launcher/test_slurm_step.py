"""What a task reads of its Slurm step. The values are those of Slurm 22.05."""

from __future__ import annotations

import pytest

from horovod_opt.launcher import slurm_step

STEP = {"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_TASKS_PER_NODE": "3,1", "SLURM_NODEID": "0",
        "SLURM_PROCID": "0"}


@pytest.mark.parametrize("text, counts", [
    ("4", [4]), ("2(x3),1", [2, 2, 2, 1]), ("1,2(x2)", [1, 2, 2]),
])
def test_tasks_by_node(text, counts):
    assert slurm_step.tasks_by_node(text) == counts


@pytest.mark.parametrize("text", ["", "2(x3", "two", "2,,1"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError):
        slurm_step.tasks_by_node(text)


def test_local_tasks():
    assert slurm_step.local_tasks({}) == 1
    assert slurm_step.local_tasks(STEP) == 3
    assert slurm_step.local_tasks({**STEP, "SLURM_NODEID": "1"}) == 1
    assert slurm_step.local_tasks({**STEP, "SLURM_NODEID": "2"}) == 1


def test_tasks_that_know_nothing_of_each_other():
    text = slurm_step.alone(1, STEP)
    assert "srun has started 4 tasks" in text and "srun --mpi=pmix" in text


@pytest.mark.parametrize("size, changes", [
    (4, {}),  # they have met
    (1, {"SLURM_PROCID": "1"}),  # the first one says it
    (1, {"SLURM_STEP_NUM_TASKS": "1"}),
    (1, {"OMPI_COMM_WORLD_SIZE": "1"}),  # mpirun's daemons are such tasks
    (1, {"HOROVOD_SIZE": "1"}),
])
def test_nothing_is_said_of_other_jobs(size, changes):
    assert slurm_step.alone(size, {**STEP, **changes}) == ""


def test_nothing_is_said_outside_of_a_step():
    assert slurm_step.alone(1, {"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}) == ""
