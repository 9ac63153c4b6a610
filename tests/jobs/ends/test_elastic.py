"""Elastic training: it goes on after a failure of Horovod's, and with other ranks."""

from __future__ import annotations

import pytest
from jobs import elastic, mode_settings, run_job
from selection import rest_by_hand

NODES = "topo@1"  # as if each rank had a node of its own


@pytest.mark.parametrize("mode", rest_by_hand(
    ("off", "gs", "nbcs", "gs+nbcs", "topo", NODES), lambda mode: mode in ("topo", NODES)))
def test_a_worker_dies_and_others_come(need, tmp_path, mode):
    """One that replaces it, and later a third: each time all go on from the last commit."""
    need("torch", "gloo")
    # Names of this host: Horovod does not use one again where a worker died.
    options = elastic(tmp_path, "localhost:1\n127.0.0.1:1\n", most=3)
    run_job(tmp_path, "fault_elastic", options=options, **mode_settings(mode)).expect_success()
    notes = [path.read_text().splitlines() for path in tmp_path.glob("notes.*")]
    died, joined, replaced, lived = sorted(notes, key=len)
    commits = dict(line.split()[2:] for line in lived if line.startswith("commits"))
    grown = next(step for step in joined[0].split() if step.rstrip(",").isdigit())

    def start(step: str, ranks: int) -> str:
        return f"starts at step {step} with {ranks} ranks, {commits[f'{step},']}"

    assert died == [lived[0]]
    assert lived[0].startswith("starts at step 0 with 2 ranks")
    assert joined[:-1] == [start(grown, 3)]
    assert replaced[:-1] == [start("6", 2), start(grown, 3)]
    assert [line for line in lived[1:-1] if line.startswith("starts")] == replaced[:-1]
    states = ["active"] if "topo" in mode else []
    assert lived[-1].startswith(f"ends with {states}, ")
    assert joined[-1] == replaced[-1] == lived[-1]


def test_each_error(job):
    """hvd.elastic.run of TensorFlow swallows none but Horovod's."""
    result = job("tensorflow_elastic", "errors", framework="tensorflow", ranks=1,
                 controller="gloo").expect_success()
    assert result.reports()[0]["errors"] == {
        "shut down": "HorovodInternalError",
        "peer": "HorovodInternalError",
        "planned": "HorovodInternalError",
        "other": "UnknownError",
        "of the script": "KeyError",
    }


@pytest.mark.parametrize("controller, mode", [("mpi", "off"), ("gloo", "topo")])
def test_a_state_of_variables(job, controller, mode):
    """hvd.elastic.TensorFlowState meets the other ranks in sync(), and not when it is made."""
    result = job("tensorflow_elastic", "state", framework="tensorflow", controller=controller,
                 HOROVOD_OPT_MODE=mode).expect_success()
    for rank, report in enumerate(result.of_ranks(2)):
        assert report == {"made": [rank + 1.0], "synced": [1.0], "restored": [1.0], "batch": 0,
                          "losses": [0], "seen": [0]}
