"""Trouble in the thread that reduces planned tensors ends the job with an error on all ranks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from against_horovod import HERE, compile_library

MAIN_MEMORY, GPU = -1, 0
THROWS, KILLS = 1, 2
FAULT = 6


@pytest.fixture(scope="session")
def library(tmp_path_factory) -> Path:
    return compile_library(HERE / "troubled.cc", tmp_path_factory.mktemp("troubled") / "it.so",
                           "torch")


@pytest.mark.parametrize("device", [MAIN_MEMORY, GPU])
@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_an_exception_ends_the_job_with_its_message(job, need, library, controller, device):
    need("torch", controller)
    result = job("troubled", library, device, THROWS, controller=controller)
    assert not result.hung, result.output
    reports = result.of_ranks(2)
    for report in reports:
        assert report["states"] == ["active"]
        assert report["seen"][:FAULT] == ["2.000000"] * FAULT
    assert "Horovod has been shut down" in reports[0]["seen"][FAULT]
    assert "std::bad_alloc, plan trouble" in reports[1]["seen"][FAULT]
    # In the next round, all together; or rank 1 alone, if its script has shut down before that.
    messages = {MAIN_MEMORY: [r"[Rr]ank 1(:| could not go on:) std::bad_alloc, plan trouble"],
                GPU: ["cannot go on: std::bad_alloc, plan trouble", "rank 1 is gone"]}
    for text in messages[device]:
        assert re.search(text, result.output)


@pytest.mark.parametrize("device", [MAIN_MEMORY, GPU])
def test_a_rank_that_dies_in_a_bucket_is_missed(job, need, library, device):
    """With a tensor on a GPU beside it, rounds are entries of the ready queue, behind the bucket.
    Under Gloo, as in elastic jobs."""
    need("torch", "gloo")
    result = job("troubled", library, device, KILLS, controller="gloo", started=True)
    assert not result.hung, result.output
    reports = result.reports()
    assert list(reports) == [0]
    assert reports[0]["states"] == ["active"]
    assert reports[0]["seen"][:FAULT] == ["2.000000"] * FAULT
    assert "Horovod has been shut down" in reports[0]["seen"][FAULT]
