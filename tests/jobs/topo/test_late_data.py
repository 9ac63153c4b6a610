"""A tensor is read when its ready event says that its data is there, on whichever path."""

from __future__ import annotations

import csv

import pytest
from against_horovod import HERE, compile_library

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


@pytest.mark.parametrize("controller", SETTINGS)
def test_data_is_waited_for(job, need, tmp_path, controller):
    need("torch")
    library = compile_library(HERE / "late_data.cc", tmp_path / "late_data.so", "torch")
    log = tmp_path / "autotune.csv"
    reports = job("late_data", library, SETTINGS[controller], controller=controller,
                  HOROVOD_AUTOTUNE_LOG=str(log), **SHORT).succeeded().of_each(2)
    for rank, report in enumerate(reports):
        assert list(report) == list(SETTINGS[controller])
        for name, seen in report.items():
            assert seen["state"] == "active", (rank, name)
            assert seen["planned_iterations"] >= seen["steps"] - 3, (rank, name)
            assert seen["wrong"] == {}, (rank, name)
            # The thread that hands them over waits for none of them.
            assert seen["early"] >= seen["steps"] / 2, (rank, name)
    with log.open() as file:
        tries = list(csv.DictReader(file))
    assert len({tried["tensor_fusion_threshold"] for tried in tries}) > 1
