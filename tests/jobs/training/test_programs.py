"""Weights that are equal bit for bit: in topo, programs that train as users do end with those that
they have in off; with HOROVOD_OPT_DETERMINISTIC, all runs end with the same.

Two ranks, unless it says so: two numbers have one sum in any order.
"""

from __future__ import annotations

import json

import jobs
import pytest
from selection import by_hand

# Worker, program, iterations that are planned at least: of twelve steps the first two are
# negotiated, and those until the ranks have agreed.
PROGRAMS = [
    ("tensorflow", "functions_in_threads", 3 * 7),
    ("tensorflow", "text", 7),
    ("torch", "gan", 2 * 7),
    ("torch", "compiled", 7),
]


def runs_of(job: jobs.Job, program: str) -> list[dict]:
    runs = [report[program] for report in job.expect_success().of_ranks(2)]
    assert runs[0]["moved"] == runs[1]["moved"], "ranks end with different weights"
    return runs


@pytest.mark.parametrize("framework, program, iterations", PROGRAMS)
def test_same_weights_as_off(shared_job, framework, program, iterations):
    job = shared_job(f"programs_{framework}", framework=framework, HOROVOD_OPT_VERIFY="1")
    for run in runs_of(job, program):
        assert run["weights"] > 0 and run["moved"] > 0
        assert (run["different"], run["distance"]) == (0, 0)
        assert run["off"] == 0
        assert run["planned_iterations"] >= iterations, run["plans"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_gradient_of_more_than_two_gigabytes(job, monkeypatch):
    """Needs 16 GiB of memory, and minutes."""
    monkeypatch.setattr(jobs, "HANG_SECONDS", 1500)
    for run in runs_of(job("programs_torch", "large"), "large"):
        assert run["weights"] == 3 and run["moved"] > 0
        assert (run["different"], run["distance"]) == (0, 0)
        assert run["planned_iterations"] == 3, run["plans"]


# HOROVOD_OPT_DETERMINISTIC: three groups of one rank, trained again with other delays.

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
                  ranks=RANKS).expect_success().of_ranks(RANKS)
    digests = {run: {report[run]["digest"] for report in reports} for run in RUNS}
    (expected,) = digests["unfused"]
    assert digests == dict.fromkeys(RUNS, {expected})
    for report in reports:
        for run in ("topo", "topo again", "topo on one node"):
            (iterations,) = report[run]["planned_iterations"]
            assert iterations > 30, "planned"
