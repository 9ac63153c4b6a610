"""A tensor is read when its ready event says that its data is there, on whichever path; and so are
those of the parts of tests/by_hand/gpu that go without a GPU, shorter."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import part_devices
import part_gradients
import part_nccl
import pytest
from against_horovod import HERE, compile_library
from gpu_builds import PLAIN
from gpu_table import PASSED
from jobs import HANG_SECONDS
from part_setup import Setup
from selection import by_hand

# By controller, the settings of mode topo that the worker goes through, by name.
OPERATIONS = {
    "HOROVOD_OPT_SHARED_MEMORY": "0",
    "HOROVOD_HIERARCHICAL_ALLREDUCE": "1",
    "HOROVOD_TORUS_ALLREDUCE": "1",
    "HOROVOD_AUTOTUNE": "1",
}
SETTINGS = {
    "mpi": {"shared": {}, "operations": OPERATIONS},
    "gloo": {"alone": {"HOROVOD_OPT_NODE_RANKS": "1"}, "operations": OPERATIONS},
}
# The least that tunes. Read when Horovod is loaded.
SHORT = {
    "HOROVOD_AUTOTUNE_WARMUP_SAMPLES": "0",
    "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE": "1",
    "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES": "3",
}
STEPS = 40  # of part 1


@pytest.fixture(scope="session")
def library(need, tmp_path_factory) -> Path:
    """Events in the place of CUDA's, for tensors in main memory."""
    need("torch")
    return compile_library(HERE / "late_data.cc", tmp_path_factory.mktemp("late") / "late_data.so",
                           "torch")


@pytest.mark.parametrize("controller", SETTINGS)
def test_data_is_waited_for(job, library, tmp_path, controller):
    log = tmp_path / "autotune.csv"
    reports = job("late_data", library, SETTINGS[controller], controller=controller,
                  HOROVOD_AUTOTUNE_LOG=str(log), **SHORT).expect_success().of_ranks(2)
    for rank, report in enumerate(reports):
        assert list(report) == list(SETTINGS[controller])
        for name, sums in report.items():
            assert sums["state"] == "active", (rank, name)
            assert sums["planned_iterations"] >= sums["steps"] - 3, (rank, name)
            assert sums["wrong"] == {}, (rank, name)
            # The thread that hands them over waits for none of them.
            assert sums["early"] == sums["steps"], (rank, name)
    with log.open() as file:
        tries = list(csv.DictReader(file))
    assert len({tried["tensor_fusion_threshold"] for tried in tries}) > 1


@pytest.mark.parametrize("part", [part_gradients, by_hand(part_nccl), by_hand(part_devices)])
def test_without_a_gpu(part, need, library, tmp_path):
    need("mpi", "gloo")
    setup = Setup(PLAIN, tmp_path, gpus=0, cores=2, steps=STEPS, seconds=1.0, rounds=1, batch=4,
                  until=time.monotonic() + HANG_SECONDS, library=str(library))
    rows = list(part.rows(setup))
    assert len(rows) >= 3
    assert [row for row in rows if row.outcome != PASSED] == []
