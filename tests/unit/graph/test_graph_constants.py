"""Collectives of constants stay negotiated in loops, where TensorFlow runs them only while it
optimizes; elsewhere they are planned."""

from __future__ import annotations

import pytest

from graph_analysis import analyze, read_dict

WHY = "it may be a constant in a loop, which TensorFlow reduces once and for all"


def node(name: str, op: str, *inputs: str, **fields: object) -> dict:
    return {"name": name, "op": op, "inputs": list(inputs), **fields}


def allreduce(name: str, *inputs: str) -> dict:
    return node(name, "HorovodAllreduce", *inputs, collective={"shape": [2]})


def analyse(*nodes: dict, functions: dict | None = None, outputs: tuple[str, ...] = ()) -> list:
    """The regions of a graph that consists of a loop with these nodes."""
    outputs = outputs or tuple(
        entry["name"] for entry in nodes if entry["op"] == "HorovodAllreduce")
    body = {"args": [f"arg{i}" for i in range(len(outputs))], "outputs": list(outputs),
            "nodes": [*(node(f"arg{i}", "_Arg") for i in range(len(outputs))), *nodes]}
    passes = {"args": body["args"], "outputs": ["arg0"], "nodes": body["nodes"][:len(outputs)]}
    starts = [f"start{i}" for i in range(len(outputs))]
    return analyze(read_dict({
        "name": "graph", "fetches": ["loop"],
        "nodes": [*(node(start, "Placeholder") for start in starts),
                  node("loop", "While", *starts, calls=["passes", "body"])],
        "functions": {"passes": passes, "body": body, **(functions or {})},
    })).regions


def plan_names(*nodes: dict) -> list[str]:
    """Names of the planned collectives of a loop; all others must be called constant."""
    region = analyse(*nodes)[-1]
    assert region.name == "loop/body"
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
    assert plan_names(*chain, allreduce("a", "x")) == []


@pytest.mark.parametrize("chain", [
    [node("x", "Placeholder")],
    [node("c", "Const"), node("p", "Placeholder"), node("x", "Mul", "c", "p")],
    [node("p", "Placeholder"), node("c", "Const"), node("x", "Mul", "p", "c")],
    [node("c", "Const"), node("x", "RandomUniform", "c")],
    [node("v", "VarHandleOp"), node("x", "ReadVariableOp", "v")],
    [node("c", "Const"), node("g", "HorovodAllgather", "c"), node("x", "Neg", "g")],
])
def test_what_is_different_each_time(chain):
    region = analyse(*chain, allreduce("a", "x"))[-1]
    assert [slot.name for slot in region.plan.slots] == ["a"]


def test_constants_outside_of_loops():
    region, = analyze(read_dict({
        "name": "graph", "nodes": [node("c", "Const"), allreduce("a", "c")], "fetches": ["a"],
    })).regions
    assert [slot.name for slot in region.plan.slots] == ["a"]


def test_each_collective_on_its_own():
    assert plan_names(node("c", "Const"), node("p", "Placeholder"), node("n", "Neg", "c"),
                      allreduce("a", "n"), allreduce("b", "p"), allreduce("d", "c")) == ["b"]


def test_through_the_arguments_of_a_branch():
    branch = {"args": ["x"], "outputs": ["r"], "nodes": [node("x", "_Arg"), allreduce("r", "x")]}
    nodes = [node("yes", "Const", value=True), node("p", "Placeholder"), node("c", "Const"),
             node("if1", "StatelessIf", "yes", "p", calls=["branch", "branch"]),
             node("if2", "StatelessIf", "yes", "c", calls=["branch", "branch"])]
    region = analyse(*nodes, functions={"branch": branch}, outputs=("if1", "if2"))[-1]
    assert [slot.name for slot in region.plan.slots] == ["if1/r"]
    assert region.unplanned == ((1, "if2/r", WHY),)
