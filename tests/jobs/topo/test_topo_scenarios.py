"""Mode topo gives the same bits as mode off, whatever the program; and it plans what it can.

One job for each controller and number of ranks runs all its kinds, one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

import pytest
from selection import rest_by_hand

SELDOM = {"HOROVOD_OPT_HEARTBEAT_MS": "60000"}  # nothing may wait for the heartbeat
OFTEN = {"HOROVOD_OPT_HEARTBEAT_MS": "5"}
NOT_REBUILT = {"HOROVOD_OPT_RECUT": "0"}
ALONE = {"HOROVOD_OPT_NODE_RANKS": "1"}  # as if each rank had a node of its own
BY_MPI = {"HOROVOD_OPT_TCP_MESSAGES": "0"}
PAIRS = {"HOROVOD_OPT_NODE_RANKS": "2"}
# By the operations that reduce what is on GPUs.
OPERATIONS = {"HOROVOD_OPT_SHARED_MEMORY": "0"}
XLA = {"TF_XLA_FLAGS": "--tf_xla_auto_jit=2 --tf_xla_cpu_global_jit"}


class Kind(NamedTuple):
    """Controller and ranks, which of them is late, what runs, and in which settings."""

    controller: str
    ranks: int
    late: int
    modules: tuple[str, ...]
    settings: dict[str, str]
    environment: dict[str, str] = {}  # of the whole job


PLAIN, FUNCTIONS, MIXED = "scenarios_plain", "scenarios_functions", "scenarios_mixed"
CONTROL, RANDOM, KERAS = "scenarios_control", "scenarios_random", "scenarios_keras"
FEW = tuple(f"scenarios_plain.{name}" for name in ("chain", "wide", "kinds", "tape"))
KINDS = {
    "mpi-1": Kind("mpi", 1, -1, (PLAIN, FUNCTIONS, CONTROL), SELDOM),
    "mpi-2": Kind("mpi", 2, -1, (PLAIN, FUNCTIONS, CONTROL, KERAS), SELDOM),
    "mpi-3": Kind("mpi", 3, 0, (MIXED, RANDOM), OFTEN),
    "mpi-4": Kind("mpi", 4, 3, (FUNCTIONS, "scenarios_plain.chain", "scenarios_control.loop"), {}),
    "gloo-2": Kind("gloo", 2, 1, (MIXED, CONTROL, RANDOM), NOT_REBUILT),
    "gloo-3": Kind("gloo", 3, 1, (FUNCTIONS, MIXED, *FEW), SELDOM),
    "mpi-3-nodes": Kind("mpi", 3, 1, (MIXED, RANDOM, CONTROL), {**ALONE, **BY_MPI}),
    "mpi-2-nodes-of-2": Kind("mpi", 4, 2, (FUNCTIONS, *FEW), PAIRS),
    "gloo-2-nodes": Kind("gloo", 2, 0, (MIXED, CONTROL, RANDOM), {**ALONE, **SELDOM}),
    "mpi-3-operations": Kind("mpi", 3, 0, (MIXED, RANDOM), OPERATIONS),
    "gloo-2-operations": Kind("gloo", 2, 1, (FUNCTIONS, MIXED, CONTROL, RANDOM), OPERATIONS),
    "mpi-2-operations-nodes": Kind("mpi", 2, 0, (MIXED, *FEW), {**OPERATIONS, **ALONE}),
    "xla": Kind("gloo", 2, 0, (KERAS, *FEW), {}, XLA),
}


def of_kinds(names: Iterable[str]) -> list:
    """What runs under Gloo with three ranks runs with two of it, and with three under MPI."""
    return rest_by_hand(names, lambda name: name != "gloo-3")


EACH = of_kinds(KINDS)


def kinds_with(module: str) -> list:
    return of_kinds(name for name, kind in KINDS.items() if module in kind.modules)


def in_one_job(kind: Kind) -> dict[str, Kind]:
    """`kind` and those that can run in the same processes."""

    def job(kind: Kind) -> tuple:
        return kind.controller, kind.ranks, kind.environment

    return {name: candidate for name, candidate in KINDS.items() if job(candidate) == job(kind)}


# Why what is not planned is not; everything else is planned, from the fourth step on at the latest.
NEGOTIATED = {
    "unread": "executed in",
    "called_at_once": "neither waits for the other",
    "different_graphs": "its warm-up is not over on rank",
    "called_at_once_later": "neither waits for the other",
    "overlapping_fetches": "also belongs to plan",
}
# One rank alone has nothing to reduce there, or has the same graph as all others.
NOT_ALONE = {"tape", "folded", "train_in_session", "different_graphs"}
STEPS = 12


@pytest.fixture
def scenarios(shared_job):
    def scenarios(name: str) -> list[dict]:
        kind = KINDS[name]
        chosen = {
            member: (run.late, run.modules, run.settings)
            for member, run in in_one_job(kind).items()
        }
        job = shared_job(
            "scenario_job", json.dumps(chosen),
            framework="tensorflow", controller=kind.controller, ranks=kind.ranks,
            HOROVOD_OPT_VERIFY="1", **kind.environment,
        )
        of_ranks = [report[name] for report in job.expect_success().of_ranks(kind.ranks)]
        assert len({tuple(programs) for programs in of_ranks}) == 1, "ranks ran other programs"
        return of_ranks

    return scenarios


def is_random(name: str) -> bool:
    return name.startswith("program ")


def is_missing(kind: str, name: str) -> bool:
    return KINDS[kind].ranks == 1 and name in NOT_ALONE


def of_graphs(run: dict, kind: str = "") -> list[dict]:
    """The plans but those of calls that recur; nor those of process sets, which are planned only
    if their ranks share memory, as in each `kind` where the ranks of a node may."""
    shares = not KINDS[kind].settings.keys() & {*ALONE, *OPERATIONS} if kind else True
    return [plan for plan in run["plans"]
            if not plan["is_call"] and (shares or not plan["process_set"])]


@pytest.mark.parametrize("kind", EACH)
def test_same_bits_as_off(scenarios, kind):
    for rank, report in enumerate(scenarios(kind)):
        assert {name: run["different"] for name, run in report.items() if run["different"]} == {}
        assert all(run["results"] for run in report.values()), f"rank {rank}"


@pytest.mark.parametrize("kind", EACH)
def test_plans_what_it_can(scenarios, kind):
    for rank, report in enumerate(scenarios(kind)):
        for name, run in report.items():
            if name in NEGOTIATED or is_random(name) or is_missing(kind, name):
                continue
            states = {plan["state"] for plan in of_graphs(run, kind)}
            assert states == {"active"}, f"{name} on rank {rank}: {run['plans']}"
            assert run["planned_iterations"] >= STEPS // 3, f"{name} on rank {rank}"


@pytest.mark.parametrize("kind", EACH)
def test_says_why_it_does_not_plan(scenarios, kind):
    for report in scenarios(kind):
        for name, reason in NEGOTIATED.items():
            # A plan without an iteration is listed only when it is new.
            if name not in report or report[name]["again"] or is_missing(kind, name):
                continue
            plans = of_graphs(report[name])
            assert any(reason in plan["reason"] for plan in plans), report[name]
            assert all(plan["state"] != "active" for plan in plans)


@pytest.mark.parametrize("kind", kinds_with(RANDOM))
def test_random_programs_are_planned(scenarios, kind):
    for report in scenarios(kind):
        programs = [run for name, run in report.items() if is_random(name)]
        assert sum(run["planned_iterations"] > 0 for run in programs) > len(programs) // 2


@pytest.mark.parametrize("kind", kinds_with(FUNCTIONS))
def test_one_plan_however_often_it_is_traced(scenarios, kind):
    for report in scenarios(kind):
        for name in "retraced", "retraced_on_one_rank":
            assert len(of_graphs(report[name])) == 1, name


@pytest.mark.parametrize("kind", kinds_with(PLAIN))
def test_no_negotiation_in_the_steady_state(scenarios, kind):
    """200 steps with three tensors each, two of which depend on each other."""
    for report in scenarios(kind):
        assert report["steady"]["planned_iterations"] == 200
        assert report["steady"]["cycles"] < 10


@pytest.mark.parametrize("kind", kinds_with(MIXED))
def test_plans_before_and_after_a_join(scenarios, kind):
    for report in scenarios(kind):
        for name in "last_has_most", "first_has_most":
            assert report[name]["planned_iterations"] > STEPS
