"""Graphs from plain dictionaries and JSON files; the format is in docs/how/graph-analysis.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Union

from graph_analysis.graph import (
    Collective,
    Graph,
    GraphError,
    Library,
    check,
    is_collective,
)
from graph_analysis.reductions import SUM

# Every field with the type it must have.
GRAPH = {"name": str, "nodes": list, "fetches": list, "functions": Mapping, "args": list,
         "outputs": list, "control_outputs": list}
NODE = {"name": str, "op": str, "inputs": list, "controls": list, "calls": list,
        "value": (bool, int, float), "process_set": int, "collective": Mapping}
COLLECTIVE = {"shape": list, "dtype": str, "reduce_op": int, "prescale": (int, float),
              "postscale": (int, float), "process_set": int, "device": str, "key": int}


def read_dict(source: Union[Mapping, str, Path]) -> Graph:
    """The graph in `source`: a mapping, or the path of a JSON file that holds one.

    Raises GraphError if something in it is missing, unknown or refers to nothing."""
    if isinstance(source, (str, Path)):
        try:
            source = json.loads(Path(source).read_text())
        except (ValueError, RecursionError) as error:
            raise GraphError(f"{source} is not JSON: {error}.") from None
    _check(source, GRAPH, "the graph")
    functions = source.get("functions", {})
    library = Library(lambda name: _graph(name, functions[name], library)
                      if name in functions else None)
    return _graph(source.get("name", "graph"), source, library)


def _graph(name: str, source: Mapping, library: Library) -> Graph:
    _check(source, GRAPH, name)
    nodes = source.get("nodes", [])
    for number, node in enumerate(nodes):
        _check(node, NODE, f"{name}: node {number}")
        for field in ("name", "op"):
            if field not in node:
                raise GraphError(f"{name}: node {number} has no {field}.")
    graph = Graph(name, library, lambda node, key: nodes[node].get(
        "process_set" if key == "process_set_id" else key))
    graph.names = [node["name"] for node in nodes]
    graph.ops = [node["op"] for node in nodes]
    numbers = {node: number for number, node in enumerate(graph.names)}
    if len(numbers) < len(nodes):
        raise GraphError(f"{name}: two nodes have the same name.")

    def resolve(owner: Mapping, field: str, place: str) -> Iterator[tuple[int, int]]:
        """Node and port of each "node" or "node:port"."""
        for text in owner.get(field, ()):
            producer, colon, port = str(text).rpartition(":")
            if not colon or not re.fullmatch("[0-9]{1,9}", port):
                producer, port = str(text), "0"
            if producer not in numbers:
                raise GraphError(f"{name}: {place}{field}: there is no node {text!r}.")
            yield numbers[producer], int(port)

    for number, node in enumerate(nodes):
        place = f"{node['name']}: "
        inputs = list(resolve(node, "inputs", place))
        graph.inputs.append(tuple(producer for producer, _ in inputs))
        graph.ports.update(((number, position), port)
                           for position, (_, port) in enumerate(inputs) if port)
        graph.controls.append(tuple(before for before, _ in resolve(node, "controls", place)))
        for callee in node.get("calls", ()):
            if not isinstance(callee, str):
                raise GraphError(f"{name}: {place}calls: {callee!r} is not the name of a function.")
            graph.calls[number] = (*graph.calls.get(number, ()), callee)
        if is_collective(node["op"]):
            graph.collectives[number] = _collective(node, f"{name}: {place}collective")
    graph.args = [node for node, _ in resolve(source, "args", "")]
    for field in ("fetches", "outputs"):
        graph.outputs += resolve(source, field, "")
    graph.control_outputs = [node for node, _ in resolve(source, "control_outputs", "")]
    check(graph)
    return graph


def _collective(node: Mapping, place: str) -> Collective:
    about = dict(node.get("collective", {}))
    _check(about, COLLECTIVE, place)
    shape = about.pop("shape", [None])
    static = all(type(dim) is int and 0 <= dim < 2**63 for dim in shape)
    about.setdefault("dtype", "float32")
    for field in about.keys() & {"prescale", "postscale"}:
        try:
            about[field] = float(about[field])
        except OverflowError:
            raise GraphError(f"{place}: {field} is too large.") from None
    if "Allreduce" in node["op"] or "Reducescatter" in node["op"]:
        about = {"reduce_op": SUM, "prescale": 1.0, "postscale": 1.0, **about}
    return Collective(tuple(shape) if static else None, **about)


def _check(value: object, fields: Mapping, place: str) -> None:
    if not isinstance(value, Mapping):
        raise GraphError(f"{place}: {value!r} is not an object.")
    for field, content in value.items():
        if field not in fields:
            raise GraphError(f"{place}: {field!r} is unknown; there are {', '.join(fields)}.")
        types = fields[field]
        boolean = isinstance(content, bool) and types in (int, (int, float))
        if boolean or not isinstance(content, types):
            raise GraphError(f"{place}: {field}: {content!r} has the wrong type.")
