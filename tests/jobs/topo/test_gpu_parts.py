"""The parts of tests/by_hand/gpu that go without a GPU, shorter: tensors in main memory, and events
in the place of CUDA's."""

from __future__ import annotations

import time
from pathlib import Path

import part_delayed
import part_mixed
import part_nccl
import pytest
from against_horovod import HERE, compile_library
from by_hand import by_hand
from gpu_builds import PLAIN
from gpu_table import PASSED
from jobs import HANG_SECONDS
from part_setup import Setup

STEPS = 40  # of part 1


@pytest.fixture(scope="session")
def late_library(need, tmp_path_factory) -> Path:
    need("torch")
    return compile_library(HERE / "late_data.cc", tmp_path_factory.mktemp("late") / "late_data.so",
                           "torch")


@pytest.mark.parametrize("part", [part_delayed, by_hand(part_nccl), by_hand(part_mixed)])
def test_without_a_gpu(part, need, late_library, tmp_path):
    need("mpi", "gloo")
    setup = Setup(PLAIN, tmp_path, gpus=0, cores=2, steps=STEPS, seconds=1.0, rounds=1, batch=4,
                  until=time.monotonic() + HANG_SECONDS, library=str(late_library))
    rows = list(part.rows(setup))
    assert len(rows) >= 3
    assert [row for row in rows if row.outcome != PASSED] == []
