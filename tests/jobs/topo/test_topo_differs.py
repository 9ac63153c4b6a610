"""Mode topo when a rank sends another tensor than its plan says: as in mode off, all ranks get the
same error, which names the tensor and what each has sent, and a script that catches it goes on."""

from __future__ import annotations

import json
import re

import pytest

RANKS, FAULT, STEPS = 3, 15, 25
NODES = {"HOROVOD_OPT_NODE_RANKS": "1"}
KINDS = {
    "mpi": {"off": {}, "one": {}, "nodes": {**NODES, "HOROVOD_OPT_TCP_MESSAGES": "0"}},
    "gloo": {"off": {}, "one": {}, "nodes": NODES,
             "operations": {"HOROVOD_OPT_SHARED_MEMORY": "0"}},
}
CASES = {
    "shape": r"float32 \[3\], sum, .*; rank 2: ALLREDUCE of float32 \[4\]",
    "retraced shape": r"float32 \[3\], sum, .*; rank 2: ALLREDUCE of float32 \[4\]",
    "retraced type": r"float32 \[3\], sum, .*; rank 2: ALLREDUCE of float64 \[3\]",
    "retraced bfloat16": r"float32 \[3\], sum, .*; rank 2: ALLREDUCE of bfloat16 \[3\]",
}
PLANNED = [(controller, kind) for controller, kinds in KINDS.items() for kind in kinds
           if kind != "off"]


@pytest.fixture
def reports(shared_job):
    def reports(controller: str) -> list[dict]:
        job = shared_job("topo_differs", json.dumps(KINDS[controller]), framework="tensorflow",
                         controller=controller, ranks=RANKS).expect_success()
        return job.of_ranks(RANKS)

    return reports


def fault_error(outcomes: list) -> str:
    """The error, which must come in the step of the fault and in no other."""
    assert len(outcomes) == STEPS
    assert [step for step, outcome in enumerate(outcomes) if isinstance(outcome, str)] == [FAULT]
    return re.search(r"Mismatched.*", outcomes[FAULT])[0]


def of_all(error: str) -> str:
    """What each rank has sent; before it are two that differ, in the order in which they came."""
    return error.partition(" Tensor ")[2]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("controller, kind", PLANNED)
def test_all_ranks_get_the_same_error_and_go_on(reports, controller, kind, case):
    errors = set()
    for report in reports(controller):
        planned, negotiated = report[kind][case]["seen"], report["off"][case]["seen"]
        error = fault_error(planned)
        assert of_all(error).replace(kind, "off", 1) == of_all(fault_error(negotiated))
        errors.add(error)
        for step in {*range(STEPS)} - {FAULT}:
            assert planned[step] == negotiated[step]
    (error,) = errors
    expected = rf"Mismatched .* Tensor '[^']*{kind}\.[^']*first[^']*': ranks 0-1: ALLREDUCE of "
    assert re.search(expected + CASES[case], error)


@pytest.mark.parametrize("controller, kind", PLANNED)
def test_what_differs_from_the_plan_alike_everywhere_is_reduced(reports, controller, kind):
    for report in reports(controller):
        outcomes = report[kind]["everywhere"]["seen"]
        assert [outcome for outcome in outcomes if isinstance(outcome, str)] == []
        assert len(outcomes) == STEPS
        assert outcomes == report["off"]["everywhere"]["seen"]


@pytest.mark.parametrize("controller, kind", PLANNED)
def test_it_was_planned_until_then(reports, controller, kind):
    for report in reports(controller):
        for case in CASES:
            training = report[kind][case]
            (iterations,), (state,) = training["planned_iterations"], training["states"]
            assert FAULT - 5 <= iterations <= FAULT
            assert state == "negotiated"
        (reason,) = report[kind]["shape"]["reasons"]
        assert re.fullmatch(
            r"rank 2: '[^']*first[^']*': it has 16 bytes, not the planned 12", reason)
