"""Calls that recur are planned: no rounds in steady state, and the results of mode off."""

from __future__ import annotations

import numpy as np
import pytest
from assertions import assert_special_values
from workers.shared import special_values

PLANNED = 27  # calls in the worker, different ones
# Controller, ranks, and at most how many of them form a group; 0: all.
JOBS = {"mpi-2": ("mpi", 2, 0), "gloo-3": ("gloo", 3, 0), "mpi-4": ("mpi", 4, 0),
        "mpi-2 on 2 nodes": ("mpi", 2, 1), "gloo-3 on 3 nodes": ("gloo", 3, 1),
        "gloo-4 on 2 nodes": ("gloo", 4, 2)}
MISMATCHES = {"new": "shared", "known": "shared", "shape": "max"}


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


def bits_of(report: dict, mode: str, name: str) -> np.ndarray:
    return np.frombuffer(bytes.fromhex(report["specials"][mode][name]),
                         special_values.word(name.split()[-1]))


@pytest.mark.parametrize("name", special_values.NAMES)
def test_special_values(reports, name):
    """All ranks get the same bits, and the right ones; in mode off where no NaN comes in."""
    planned, negotiated = ([bits_of(report, mode, name) for report in reports]
                           for mode in ("topo", "off"))
    assert_special_values(name, planned, planned=True)
    assert_special_values(name, negotiated, planned=False)
    operation, _, dtype = name.split()
    if len(reports) == 2 and dtype in ("float32", "float64") and operation not in ("Min", "Max"):
        # A NaN is handed on; of two, mode off takes one or the other, by place and controller.
        alike = special_values.nans_given(name, 2) < 2
        np.testing.assert_array_equal(planned[0][alike], negotiated[0][alike])


@pytest.mark.parametrize("name", [name for name in special_values.NAMES if "bfloat16" in name])
def test_special_bfloat16s_in_mode_off(reports, name):
    """Its operations are horovod-opt's, under MPI and Gloo."""
    first, *others = (bits_of(report, "off", name) for report in reports)
    for bits in others:
        np.testing.assert_array_equal(bits, first)


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
        assert report["errors"][name].startswith("Mismatched ALLREDUCE tensor shapes")
        assert "'" in report["errors"][name]


def test_results_without_names(reports):
    for report in reports:
        assert report["unnamed"]["off"] == []
        assert report["unnamed"]["topo"]["wrong"] == []


def test_calls_without_names_by_horovods_own_operations(reports):
    for report in reports:
        assert report["unnamed"]["operations"] == {
            "wrong": [], "plans": [["allreduce", "active"]]}


def test_steady_steps_without_names_ask_for_no_round(reports):
    """Also after all ranks have joined."""
    for report in reports:
        unnamed = report["unnamed"]["topo"]
        assert (unnamed["rounds"], unnamed["rounds again"]) == (0, 0)
        assert unnamed["states"] == ["active"]
        assert unnamed["grown"] == 0


def test_a_rank_that_sends_something_else_without_a_name(reports):
    for report in reports:
        error = report["unnamed"]["topo"]["error"]
        assert error.startswith("Mismatched ALLREDUCE tensor shapes")
        assert "'allreduce.noname." in error


@pytest.mark.parametrize("at_once", [False, True])
def test_ranks_that_call_without_names_in_another_order(reports, at_once):
    """All ranks get an error: sums of others' tensors, or a wait, are none."""
    for report in reports:
        assert report["unnamed"][f"disorder {at_once}"] != ""
