"""A rank exits, raises, is killed or shuts down early: the job ends, and nothing is left."""

from __future__ import annotations

import pytest

MODES = ("off", "gs", "nbcs", "topo")


@pytest.mark.parametrize("how", ["exit", "raise", "kill"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_a_rank_leaves(job, controller, mode, how):
    ended = job("failing", how, ranks=3, controller=controller, HOROVOD_OPT_MODE=mode)
    assert not ended.hung, ended.output
    assert ended.code != 0
    assert not ended.survivors
    # The others got Horovod's error, or the launcher ended them before they could report.
    for rank, report in ended.reports().items():
        if rank != 2:
            assert report["outcome"].startswith("HorovodInternalError"), rank


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_one_rank_shuts_down(shared_job, controller):
    job = shared_job("early_shutdown", *MODES, ranks=3, controller=controller)
    first, *others = job.succeeded().reports().values()
    assert first == dict.fromkeys(MODES, "no error")
    for report in others:
        for mode in MODES:
            assert "HorovodInternalError: Horovod has been shut down" in report[mode], mode
