"""HOROVOD_OPT_DETERMINISTIC: three groups of one rank, trained again with other delays."""

from __future__ import annotations

import json

import pytest
from by_hand import by_hand

RANKS = 3
SAME = {"HOROVOD_OPT_DETERMINISTIC": "1"}
NODES = {"HOROVOD_OPT_NODE_RANKS": "1"}
RUNS = {
    "topo": ["topo", {**SAME, **NODES}, 1],
    "topo again": ["topo", {**SAME, **NODES}, 2],
    "topo on one node": ["topo", SAME, 3],
    "off": ["off", SAME, 4],
    "unfused": ["off", {"HOROVOD_FUSION_THRESHOLD": "0"}, 5],
}


@pytest.mark.parametrize("controller", ["mpi", by_hand("gloo")])
def test_runs_with_other_delays_are_equal_bit_for_bit(job, controller):
    reports = job("deterministic", json.dumps(RUNS), controller=controller,
                  ranks=RANKS).succeeded().of_each(RANKS)
    digests = {run: {report[run]["digest"] for report in reports} for run in RUNS}
    (expected,) = digests["unfused"]
    assert digests == dict.fromkeys(RUNS, {expected})
    for report in reports:
        for run in ("topo", "topo again", "topo on one node"):
            (iterations,) = report[run]["planned_iterations"]
            assert iterations > 30, "planned"
