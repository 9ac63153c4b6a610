"""Collectives of constants stay negotiated: TensorFlow runs them only while it optimizes."""

from __future__ import annotations

import pytest

from graph_analysis import analyze, read_dict

WHY = "it may be a constant, which TensorFlow reduces once and for all"


def node(name: str, op: str, *inputs: str, **fields: object) -> dict:
    return {"name": name, "op": op, "inputs": list(inputs), **fields}


def allreduce(name: str, *inputs: str) -> dict:
    return node(name, "HorovodAllreduce", *inputs, collective={"shape": [2]})


def planned(*nodes: dict, functions: dict | None = None) -> list[str]:
    """Names of the planned collectives of a graph; all others must be called constant."""
    region = analyze(read_dict({
        "name": "graph", "nodes": list(nodes), "functions": functions or {},
        "fetches": [one["name"] for one in nodes if one["op"] == "HorovodAllreduce"],
    })).regions[0]
    assert {reason for _, _, reason in region.unplanned} <= {WHY}
    return [slot.name for slot in region.plan.slots] if region.plan else []


@pytest.mark.parametrize("chain", [
    [node("x", "Const")],
    [node("c", "Const"), node("d", "Const"), node("x", "Mul", "c", "d")],
    [node("in", "Placeholder"), node("s", "Shape", "in"), node("x", "Prod", "s")],
    [node("c", "Const"), *(node(f"n{i}", "Neg", f"n{i - 1}" if i else "c") for i in range(5000)),
     node("x", "Add", "n4999", "n17")],
])
def test_constants(chain):
    assert planned(*chain, allreduce("a", "x")) == []


@pytest.mark.parametrize("chain", [
    [node("x", "Placeholder")],
    [node("c", "Const"), node("p", "Placeholder"), node("x", "Mul", "c", "p")],
    [node("p", "Placeholder"), node("c", "Const"), node("x", "Mul", "p", "c")],
    [node("c", "Const"), node("x", "RandomUniform", "c")],
    [node("v", "VarHandleOp"), node("x", "ReadVariableOp", "v")],
    [node("c", "Const"), node("g", "HorovodAllgather", "c"), node("x", "Neg", "g")],
])
def test_what_is_different_each_time(chain):
    region = analyze(read_dict({"name": "graph", "nodes": [*chain, allreduce("a", "x")],
                                "fetches": ["a"]})).regions[0]
    assert [slot.name for slot in region.plan.slots] == ["a"]


def test_each_collective_on_its_own():
    assert planned(node("c", "Const"), node("p", "Placeholder"), node("n", "Neg", "c"),
                   allreduce("a", "n"), allreduce("b", "p"), allreduce("d", "c")) == ["b"]


def test_through_the_arguments_of_a_branch():
    branch = {"args": ["x"], "outputs": ["r"], "nodes": [node("x", "_Arg"), allreduce("r", "x")]}
    nodes = [node("yes", "Const", value=True), node("p", "Placeholder"), node("c", "Const"),
             node("if1", "StatelessIf", "yes", "p", calls=["branch", "branch"]),
             node("if2", "StatelessIf", "yes", "c", calls=["branch", "branch"])]
    region = analyze(read_dict({"name": "graph", "nodes": nodes, "fetches": ["if1", "if2"],
                                "functions": {"branch": branch}})).regions[0]
    assert [slot.name for slot in region.plan.slots] == ["if1/r"]
    assert region.unplanned == ((1, "if2/r", WHY),)
