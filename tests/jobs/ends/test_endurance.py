"""Many operations, and many starts in one process."""

from __future__ import annotations

import pytest

MODES = ("off", "gs", "nbcs", "topo")


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_ten_thousand_tiny_allreduces(job, controller):
    reports = job("many_allreduces", *MODES, controller=controller).succeeded().reports()
    assert reports == {rank: dict.fromkeys(MODES, 0) for rank in range(2)}


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_fifty_starts(job, controller):
    for report in job("restarts", *MODES, controller=controller).succeeded().of_each(2):
        for mode in MODES:
            assert report["sums"][mode] == [2 * start for start in range(50)]
            # MPI or Gloo may keep threads of its own, but no more with every start.
            assert report["threads"][mode][-1] <= report["threads"][mode][4]
