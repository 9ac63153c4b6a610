"""Process sets are planned: no rounds in steady state, and exact results."""

from __future__ import annotations

import pytest
from selection import by_hand

CALLS = 7  # of the worker, each planned once for a set; a group is one


@pytest.fixture(params=["mpi-3", "gloo-4"])
def reports(request, shared_job):
    controller, ranks = request.param[:-2], int(request.param[-1])
    job = shared_job("set_calls", controller=controller, ranks=ranks).expect_success()
    return job.of_ranks(ranks)


def test_results(reports):
    assert [report["wrong"] for report in reports] == [[]] * len(reports)


def test_steady_steps_ask_for_no_round(reports):
    assert [report["rounds"] for report in reports] == [0] * len(reports)
    for rank, report in enumerate(reports):
        # As upstream numbers them, in the order in which they were added.
        sets = [0, *(number for number, ranks in enumerate(report["sets"], 1) if rank in ranks)]
        assert report["planned"] == [[number, CALLS - 1] for number in sets]


def test_memory_comes_with_the_first_plan(reports):
    """Beside that of all ranks."""
    for rank, report in enumerate(reports):
        own = [ranks for ranks in report["sets"] if rank in ranks and len(ranks) > 1]
        assert report["memories"] == [1, 1 + len(own)]


def test_a_set_without_memory_is_negotiated(reports):
    """Its calls, and the plan of an optimizer that its ranks had voted for."""
    assert [report["poor"] for report in reports] == [
        ["negotiated"] if rank in (0, len(reports) - 1) else [] for rank in range(len(reports))]


def test_an_optimizer_in_a_process_set_has_a_plan(reports):
    for rank, report in enumerate(reports):
        assert report["optimizers"] == ["active"] * (rank in report["sets"][1])


def test_a_rank_of_a_set_that_sends_something_else(reports):
    """The ranks of the set get the error of mode off, with their numbers, and go on."""
    for rank, report in enumerate(reports):
        ranks = report["sets"][2]
        if rank not in ranks:
            assert report["error"] == ""
        else:
            assert report["error"].startswith("Mismatched ALLREDUCE tensor shapes")
            assert f"rank {ranks[-1]}: ALLREDUCE of float32 [8]" in report["error"]


@pytest.mark.parametrize("memory", ["1", "0"])
def test_calls_without_names(reports, memory):
    """Planned in a set whose ranks share memory, otherwise negotiated."""
    for report in reports:
        unnamed = report["unnamed"][memory]
        assert unnamed["wrong"] == []
        if memory == "1":
            assert (unnamed["rounds"], unnamed["states"]) == (0, ["active"])
        else:
            assert set(unnamed["states"]) <= {"negotiated"}
        if len(unnamed["ranks"]) > 1:
            assert unnamed["error"].startswith("Mismatched ALLREDUCE tensor shapes")


@pytest.mark.parametrize("controller, ranks", [by_hand("gloo", 3), ("mpi", 4)])
def test_functions_of_tensorflow(shared_job, controller, ranks):
    """`first` and `last` cannot be fused: `left` is reduced in between, by the set."""
    job = shared_job("set_functions", framework="tensorflow", controller=controller, ranks=ranks)
    for report in job.expect_success().of_ranks(ranks):
        assert (report["wrong"], report["rounds"]) == ([], 0)
        tensors = {process_set: [] for process_set, _, _ in report["plans"]}
        for process_set, state, buckets in report["plans"]:
            assert state == "active"
            tensors[process_set].append(buckets)
        assert tensors.pop(0) == [[["first"], ["last"]]]
        # Those of the set may have been rebuilt: they do not arrive at the same time.
        planned = {process_set: sorted(sorted(sum(buckets, [])) for buckets in plans)
                   for process_set, plans in tensors.items()}
        assert planned == ({1: [["gathered"], ["left", "right"]]} if report["included"] else {})
