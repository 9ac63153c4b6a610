"""Programs that train as users do: in topo they end with the weights that they have in off.

Two ranks: two numbers have one sum in any order, so weights are equal bit for bit.
"""

from __future__ import annotations

import jobs
import pytest

# Worker, program, iterations that are planned at least: of twelve steps the first two are
# negotiated, and those until the ranks have agreed.
PROGRAMS = [
    ("tensorflow", "functions_in_threads", 3 * 7),
    ("tensorflow", "text", 7),
    ("torch", "gan", 2 * 7),
    ("torch", "compiled", 7),
]


def seen_by_ranks(job: jobs.Job, program: str) -> list[dict]:
    seen = [report[program] for report in job.succeeded().of_each(2)]
    assert seen[0]["moved"] == seen[1]["moved"], "ranks end with different weights"
    return seen


@pytest.mark.parametrize("framework, program, iterations", PROGRAMS)
def test_same_weights_as_off(shared_job, framework, program, iterations):
    job = shared_job(f"programs_{framework}", framework=framework, HOROVOD_OPT_VERIFY="1")
    for seen in seen_by_ranks(job, program):
        assert seen["weights"] > 0 and seen["moved"] > 0
        assert (seen["different"], seen["distance"]) == (0, 0)
        assert seen["off"] == 0
        assert seen["planned_iterations"] >= iterations, seen["plans"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_gradient_of_more_than_two_gigabytes(job, monkeypatch):
    """Needs 16 GiB of memory, and minutes."""
    monkeypatch.setattr(jobs, "HANG_SECONDS", 1500)
    for seen in seen_by_ranks(job("programs_large"), "large"):
        assert seen["weights"] == 3 and seen["moved"] > 0
        assert (seen["different"], seen["distance"]) == (0, 0)
        assert seen["planned_iterations"] == 3, seen["plans"]
