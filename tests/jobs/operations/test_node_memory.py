"""The memory that the ranks of a node share in mode topo."""

from __future__ import annotations

import os

import pytest

TOPO = {"HOROVOD_OPT_MODE": "topo"}
APART = "the ranks of a node share no memory and reduce as if each had a node of its own: rank 1: "


@pytest.mark.parametrize("controller", ["mpi", "gloo"])
def test_has_no_name(job, controller):
    """Neither in /dev/shm nor anywhere else, and no descriptor or socket stays open."""
    result = job("node_memory", ranks=3, controller=controller, **TOPO).expect_success()
    reports = result.of_ranks(3)
    assert APART not in result.output, result.output
    for report in reports:
        assert report["states"] == ["active"]
        assert report["planned_iterations"] > 0
        assert len(report["memory"]) == 1
        assert report["memory"] == reports[0]["memory"]  # all have the same
        assert report["opened"] == []
        # MPI has files of its own there.
        assert [name for name in report["shm"] if controller == "gloo" or "horovod" in name] == []


def test_ranks_with_networks_of_their_own_share_none(job):
    if os.geteuid() != 0:
        pytest.skip("needs root, to make a network namespace")
    result = job("node_memory", "apart", **TOPO).expect_success()
    assert APART + "cannot connect to the Unix socket @horovod-opt-" in result.output
    assert "Connection refused" in result.output
    reports = result.of_ranks(2)
    for report in reports:
        assert report["error"] == ""
        assert report["states"] == ["active"]
        assert report["planned_iterations"] > 0
        assert report["memory"] == []
        assert report["weights"] == reports[0]["weights"]
