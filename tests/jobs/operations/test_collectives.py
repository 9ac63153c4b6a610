"""Many collectives at once, and those of the others while the lowest rank has joined."""

from __future__ import annotations

import pytest

MODES = ("off", "gs", "nbcs", "topo")


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_ten_thousand_tiny_allreduces(job, controller):
    result = job("torch_collectives", "many", *MODES, controller=controller).expect_success()
    assert result.reports() == {rank: dict.fromkeys(MODES, 0) for rank in range(2)}


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_gathering_is_refused_and_the_job_goes_on(job, controller):
    first, *others = job("torch_collectives", "join", ranks=4,
                         controller=controller).expect_success().of_ranks(4)
    assert first == {"errors": {}, "total": 10.0}
    for report in others:
        [(error, times)] = report["errors"].items()
        assert "Allgather is not supported with Join" in error
        assert (times, report["total"]) == (200, 10.0)
