"""Calls that recur are planned: no rounds in steady state, and the results of mode off."""

from __future__ import annotations

import pytest

PLANNED = 27  # calls in the worker, different ones
# Controller, ranks, and at most how many of them form a group; 0: all.
JOBS = {"mpi-2": ("mpi", 2, 0), "gloo-3": ("gloo", 3, 0), "mpi-4": ("mpi", 4, 0),
        "mpi-2 on 2 nodes": ("mpi", 2, 1), "gloo-3 on 3 nodes": ("gloo", 3, 1),
        "gloo-4 on 2 nodes": ("gloo", 4, 2)}
MISMATCHES = {**dict.fromkeys(("new", "known", "shape"), "Mismatched ALLREDUCE tensor shapes"),
              "type": "Mismatched data types"}


@pytest.fixture(params=JOBS)
def reports(request, shared_job):
    controller, ranks, of_group = JOBS[request.param]
    job = shared_job("recurring_calls", controller=controller, ranks=ranks,
                     HOROVOD_OPT_NODE_RANKS=str(of_group)).expect_success()
    return job.of_ranks(ranks)


def test_results(reports):
    assert [report["wrong"] for report in reports] == [[]] * len(reports)


def test_steady_steps_ask_for_no_round(reports):
    assert [report["rounds"] for report in reports] == [0] * len(reports)
    for report in reports:
        assert report["states"] == ["active"] * PLANNED


def test_a_broadcast_that_a_joined_rank_cannot_be_part_of(reports):
    """Planned or negotiated: an error, as in mode off, and no zeros."""
    *others, last = reports
    assert last["joined"] == ""
    assert others
    for report in others:
        assert "join" in report["joined"].lower()


@pytest.mark.parametrize("name", MISMATCHES)
def test_a_rank_that_sends_something_else(reports, name):
    """All ranks get the error of mode off, and go on."""
    for report in reports:
        assert report["errors"][name].startswith(MISMATCHES[name])
        assert "'" in report["errors"][name]
