"""Operations of the others while the lowest rank has joined."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_gathering_is_refused_and_the_job_goes_on(job, controller):
    first, *others = job("join_ranks", ranks=4, controller=controller).succeeded().of_each(4)
    assert first == {"errors": {}, "total": 10.0}
    for report in others:
        [(error, times)] = report["errors"].items()
        assert "Allgather is not supported with Join" in error
        assert (times, report["total"]) == (200, 10.0)
