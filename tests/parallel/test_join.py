"""Operations of the others while the lowest rank has joined."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_gathering_is_refused_and_the_job_goes_on(job, controller):
    reports = job("join_ranks", ranks=4, controller=controller).succeeded().reports()
    assert list(reports) == [0, 1, 2, 3]
    assert reports.pop(0) == {"errors": {}, "total": 10.0}
    for report in reports.values():
        [(error, times)] = report["errors"].items()
        assert "Allgather is not supported with Join" in error
        assert (times, report["total"]) == (200, 10.0)
