"""Branches and loops of TensorFlow 1, in the graph itself."""

from __future__ import annotations

import pytest

from graph_analysis import analyze, read_dict

MAYBE = "it is in a branch or loop of TensorFlow 1 and may run any number of times"


def op(name: str, kind: str, *inputs: str, **fields: object) -> dict:
    return {"name": name, "op": kind, "inputs": list(inputs), **fields}


def allreduce(name: str, *inputs: str) -> dict:
    return op(name, "HorovodAllreduce", *inputs, collective={"shape": [4]})


def main_region(nodes: list[dict], *fetches: str):
    region, = analyze(read_dict({"nodes": nodes, "fetches": list(fetches)})).regions
    return region


def branch(predicate: dict) -> list[dict]:
    """What tf.cond(predicate, allreduce, identity) is, and an allreduce after it."""
    return [op("x", "Op"), predicate, op("switch", "Switch", "x", "p"),
            op("pivot", "Switch", "p", "p"),
            op("false", "Identity", "pivot:0"), op("true", "Identity", "pivot:1"),
            allreduce("then", "switch:1"), op("else", "Identity", "switch:0"),
            {**allreduce("controlled"), "controls": ["true"]},
            {**allreduce("other"), "controls": ["false"]},
            op("else2", "Op", "else", "other"), op("then2", "Op", "then", "controlled"),
            op("merge", "Merge", "else2", "then2"), allreduce("after", "merge")]


def test_a_collective_in_an_undecided_branch_stays_negotiated():
    region = main_region(branch(op("p", "Op")), "after")
    assert [slot.name for slot in region.plan.slots] == ["after"]
    assert sorted((entry.name, entry.reason) for entry in region.unplanned) == [
        (name, MAYBE) for name in ("controlled", "other", "then")]


@pytest.mark.parametrize("value, runs", [(True, ["controlled", "then"]), (False, ["other"])])
def test_of_a_decided_branch_the_side_taken_is_planned_and_the_other_does_not_exist(value, runs):
    region = main_region(branch(op("p", "Const", value=value)), "after")
    *first, last = region.plan.buckets
    assert sorted(slot.name for bucket in first for slot in bucket.slots) == runs
    assert [slot.name for slot in last.slots] == ["after"]
    assert region.unplanned == ()


def test_branches_nest():
    nodes = [op("x", "Op"), op("p", "Op"), op("q", "Op"),
             op("outer", "Switch", "x", "p"), op("outer q", "Switch", "q", "p"),
             op("inner", "Switch", "outer:1", "outer q:1"), allreduce("in both", "inner:1"),
             op("merge inner", "Merge", "inner:0", "in both"), allreduce("in one", "merge inner"),
             op("merge outer", "Merge", "outer:0", "in one"), allreduce("in none", "merge outer")]
    region = main_region(nodes, "in none")
    assert [slot.name for slot in region.plan.slots] == ["in none"]
    assert [entry.name for entry in region.unplanned] == ["in both", "in one"]


def loop(*inside: dict, last: str, constant: str) -> list[dict]:
    """while i < n: value = `last`, with `constant` entering from outside."""
    return [allreduce("before"), allreduce("constant"), op("i", "Op"),
            op("enter i", "Enter", "i"), op("merge i", "Merge", "enter i", "next i"),
            op("less", "Less", "merge i"), op("cond", "LoopCond", "less"),
            op("switch i", "Switch", "merge i", "cond"), op("body i", "Identity", "switch i:1"),
            op("next i", "NextIteration", "body i"),
            op("enter", "Enter", "before"), op("merge", "Merge", "enter", "next"),
            op("switch", "Switch", "merge", "cond"), op("enter constant", "Enter", constant),
            op("body", "Op", "switch:1", "enter constant"), *inside,
            op("next", "NextIteration", last), op("exit", "Exit", "switch:0"),
            allreduce("after", "exit")]


def test_what_follows_a_loop_depends_on_all_that_its_iterations_need():
    """`constant` reaches `after` only through the next iteration: a cycle to the eye."""
    region = main_region(loop(last="body", constant="constant"), "after")
    assert {region.plan.slots[k].name for k in region.plan.slots[-1].after} == {
        "before", "constant"}


def test_a_collective_in_a_loop_stays_negotiated():
    region = main_region(loop(allreduce("each time", "body"), last="each time",
                              constant="constant"), "after")
    assert region.unplanned == ((2, "each time", MAYBE),)
    assert {slot.name for slot in region.plan.slots} == {"before", "constant", "after"}


def test_calls_in_a_branch_are_judged_like_their_site():
    body = {"args": ["x"], "outputs": ["r"], "nodes": [op("x", "_Arg"), allreduce("r", "x")]}

    def region(predicate: dict):
        nodes = [op("x", "Op"), predicate, op("switch", "Switch", "x", "p"),
                 op("c", "PartitionedCall", "switch:1", calls=["body"]),
                 op("merge", "Merge", "switch:0", "c")]
        result, = analyze(read_dict({"nodes": nodes, "fetches": ["merge"],
                                     "functions": {"body": body}})).regions
        return result
    assert region(op("p", "Op")).unplanned == ((0, "c/r", MAYBE),)
    assert [slot.name for slot in region(op("p", "Const", value=True)).plan.slots] == ["c/r"]
    assert region(op("p", "Const", value=False)).reason == "it has no collectives"


def test_control_flow_in_a_branch_that_is_not_taken_is_no_region():
    body = {"args": ["x"], "outputs": ["r"], "nodes": [op("x", "_Arg"), allreduce("r", "x")]}
    nodes = [op("x", "Op"), op("q", "Op"), op("p", "Const", value=False),
             op("switch", "Switch", "x", "p"),
             op("c", "If", "q", "switch:1", calls=["body", "body"]),
             op("merge", "Merge", "switch:0", "c")]
    regions = analyze(read_dict({"nodes": nodes, "fetches": ["merge"],
                                 "functions": {"body": body}})).regions
    assert [region.name for region in regions] == ["graph"]
