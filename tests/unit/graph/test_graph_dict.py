"""Graphs from dictionaries and JSON files."""

from __future__ import annotations

import re

import pytest

from graph_analysis import GraphError, analyze, read_dict


def node(**fields: object) -> dict:
    return {"nodes": [{"name": "a", "op": "HorovodAllreduce", **fields}], "fetches": ["a"]}


@pytest.mark.parametrize("source, message", [
    ({"nodes": {}}, "the graph: nodes: {} has the wrong type"),
    ({"nods": []}, "the graph: 'nods' is unknown; there are name, nodes"),
    ({"nodes": [3]}, "graph: node 0: 3 is not an object"),
    ({"nodes": [{"op": "Op"}]}, "graph: node 0 has no name"),
    ({"nodes": [{"name": "a"}]}, "graph: node 0 has no op"),
    ({"nodes": [{"name": "a", "op": "Op"}] * 2}, "two nodes have the same name"),
    ({"nodes": [], "fetches": ["a"]}, "graph: fetches: there is no node 'a'"),
    (node(inputs=["b:1"]), "graph: a: inputs: there is no node 'b:1'"),
    (node(controls=[1]), "graph: a: controls: there is no node 1"),
    (node(collective={"sha": []}), "graph: a: collective: 'sha' is unknown"),
    (node(collective={"key": "x"}), "graph: a: collective: key: 'x' has the wrong type"),
    (node(collective={"prescale": float("nan")}), "graph: a (HorovodAllreduce) scales by nan"),
    (node(calls=["f"]), "graph: a (HorovodAllreduce) is a collective and calls a function"),
    ({**node(), "args": ["a"]}, "graph: a (HorovodAllreduce) is a collective and an argument"),
])
def test_a_mistake_is_reported_with_its_place(source, message):
    with pytest.raises(GraphError, match=re.escape(message)):
        read_dict(source)


def test_a_mistake_in_a_function_is_reported_when_it_is_called():
    source = node()
    source["nodes"].append({"name": "c", "op": "PartitionedCall", "calls": ["f"]})
    source["fetches"].append("c")
    source["functions"] = {"f": {"nodes": [{"name": "x"}]}}
    with pytest.raises(GraphError, match="f: node 0 has no op"):
        analyze(read_dict(source))


@pytest.mark.parametrize("text", ["{", "[]", "3"])
def test_a_file_that_is_no_graph_is_refused(tmp_path, text):
    (tmp_path / "graph.json").write_text(text)
    with pytest.raises(GraphError, match="is not JSON|is not an object"):
        read_dict(tmp_path / "graph.json")


def test_names_may_contain_colons():
    source = {"nodes": [{"name": "x:y", "op": "Op"},
                        {"name": "a", "op": "HorovodAllreduce", "inputs": ["x:y"],
                         "collective": {"shape": []}}], "fetches": ["a"]}
    assert analyze(read_dict(source)).regions[0].plan.nbytes == 4


def test_a_function_that_is_a_part_of_itself_is_reported():
    loop = {"nodes": [{"name": "p", "op": "Placeholder"},
                      {"name": "again", "op": "Case", "calls": ["f"], "inputs": ["p"]},
                      {"name": "a", "op": "HorovodAllreduce"}], "fetches": ["again", "a"]}
    source = {**loop, "functions": {"f": loop}}
    with pytest.raises(GraphError, match="f: again makes it a part of itself"):
        analyze(read_dict(source))
