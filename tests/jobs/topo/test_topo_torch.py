"""Mode topo plans the gradients of hvd.DistributedOptimizer in PyTorch, and changes no result."""

from __future__ import annotations

import pytest

# Controller, ranks, settings.
JOBS = {
    "mpi-2": ("mpi", 2, {}),
    "gloo-2": ("gloo", 2, {"HOROVOD_OPT_NODE_RANKS": "1"}),
    "mpi-3": ("mpi", 3, {"HOROVOD_FUSION_THRESHOLD": "256"}),
}
ENDS = {"sparse_from_some_step_on"}  # its plan
ONLY_RESULTS = {"with_other_operations"}  # differ from rank to rank


@pytest.fixture(params=JOBS)
def job(request, shared_job):
    controller, ranks, settings = JOBS[request.param]
    result = shared_job(
        "topo_torch", controller=controller, ranks=ranks,
        HOROVOD_OPT_VERIFY="1", **settings,
    ).expect_success()
    return request.param, result.of_ranks(ranks)


def test_same_results_as_off(job):
    name, reports = job
    for rank, report in enumerate(reports):
        # Two numbers have one sum in any order, three do not.
        key = "close" if name == "mpi-3" else "same"
        assert {what: run[key] for what, run in report.items() if not run[key]} == {}, rank


def test_same_weights_on_every_rank(job):
    _, (first, *others) = job
    for what, run in first.items():
        if what not in ONLY_RESULTS:
            assert [report[what]["sum"] for report in others] == [run["sum"]] * len(others), what


def test_gradients_are_planned(job):
    _, reports = job
    for report in reports:
        for what, run in report.items():
            assert run["planned_iterations"] >= 7, what
            assert ("active" in run["states"]) == (what not in ENDS), what


def test_buckets_follow_the_threshold(job):
    name, reports = job
    for report in reports:
        assert (report["plain"]["buckets"] >= 4) == (name == "mpi-3")


@pytest.fixture
def many_plans(shared_job) -> list[dict]:
    """More of them than can be active at a time."""
    return shared_job("topo_many_plans").expect_success().of_ranks(2)


def test_each_is_active_while_it_is_used(many_plans):
    for report in many_plans:
        assert report["active"] == 90
        assert report["right"] == [True] * 90
        assert set(report["before"]) == {"active", "ready"}
        assert report["again"] == "active"


def test_what_nobody_uses_any_more_is_forgotten(many_plans):
    for report in many_plans:
        assert report["last"] == "active"
        assert report["plans"] <= 3
