"""Horovod's own operations are told the same of planned tensors as of negotiated ones."""

from __future__ import annotations

import pytest
from against_horovod import HERE, sayings

from graph_analysis.reductions import AVERAGE, MIN, SUM

CPU = -1
AMPLE, SCANT = 1 << 27, 0  # bytes of the fusion threshold

# Reduction, scales, threshold; tensors: name, elements, device on each rank.
CASES = {
    "main memory": (SUM, 1.0, 1.0, AMPLE, [("a", 5, [CPU, CPU])]),
    "main memory, fused": (AVERAGE, 0.5, 2.0, AMPLE,
                           [("a", 5, [CPU, CPU]), ("b", 70, [CPU, CPU])]),
    "one GPU a node": (SUM, 1.0, 1.0, AMPLE, [("a", 5, [0, 0, 0])]),
    "two nodes of two GPUs, fused": (AVERAGE, 1.0, 0.25, AMPLE,
                                     [("a", 5, [0, 1, 0, 1]), ("b", 6, [0, 1, 0, 1])]),
    "GPUs in another order, not fused": (MIN, 1.0, 1.0, SCANT,
                                         [("a", 5, [3, 0, 7]), ("b", 6, [3, 0, 7])]),
}

def text(name: str) -> str:
    """The case as planned_response.cc reads it."""
    reduce_op, prescale, postscale, threshold, tensors = CASES[name]
    lines = [f"{reduce_op} {prescale} {postscale} {threshold} {len(tensors[0][2])}"]
    lines += [f"{tensor} {elements} {' '.join(map(str, devices))}"
              for tensor, elements, devices in tensors]
    return "\n".join(lines)


@pytest.fixture(scope="module")
def responses(tmp_path_factory) -> dict[str, dict[str, list[str]]]:
    """By case and kind of line."""
    lines_of_cases = sayings(HERE / "planned_response.cc", "planned_responses",
                             [text(name) for name in CASES],
                             tmp_path_factory.mktemp("binding"))
    by_case: dict[str, dict[str, list[str]]] = {}
    for name, lines in zip(CASES, lines_of_cases):
        by_case[name] = {"negotiated": [], "planned": [], "entry": []}
        for line in lines.splitlines():
            kind, _, what = line.partition(" ")
            by_case[name][kind].append(what)
    return by_case


@pytest.mark.parametrize("name", CASES)
def test_is_what_the_controller_would_say(responses, name):
    *_, threshold, tensors = CASES[name]
    lines = responses[name]
    assert len(lines["negotiated"]) == (1 if threshold else len(tensors))
    assert lines["planned"] == lines["negotiated"]
    assert lines["entry"] == [tensor for tensor, *_ in tensors]
