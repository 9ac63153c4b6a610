"""Graphs from TensorFlow's objects in memory.

Operation by operation: for 20,000 of them that takes half the time of as_graph_def(), which copies
the constants and all functions as well. What only few nodes need is asked for when it is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Optional

from graph_analysis.graph import (
    SWITCHES,
    Graph,
    Library,
    is_collective,
    pause_collector,
    special_types,
)
from graph_analysis.tensorflow_nodes import callees, collective, scalar

Bodies = Callable[[str], object]  # function name -> FuncGraph, FunctionDef or None


@pause_collector
def read_func_graph(func_graph, bodies: Optional[Bodies] = None) -> Graph:
    """The graph of a tf.function, with its outputs and control outputs as fetches.

    `bodies` finds the functions that it calls; the default are those that `func_graph` knows."""
    return _read_func_graph(func_graph, _library(bodies or _known_to(func_graph)))


@pause_collector
def read_graph(graph, fetches: Iterable, bodies: Optional[Bodies] = None) -> Graph:
    """A tf.Graph with `fetches`, tf.Tensor or tf.Operation, as in tf.compat.v1.Session.run()."""
    result, numbers = _read(graph, "graph", _library(bodies or _known_to(graph)))
    for fetch in fetches:
        if hasattr(fetch, "op"):
            result.outputs.append((numbers[fetch.op], fetch.value_index))
        else:
            result.control_outputs.append(numbers[fetch])
    return result


def _known_to(graph) -> Bodies:
    def find(name: str):
        function = graph._get_function(name)
        if function is None:
            return None
        return function.graph if hasattr(function, "graph") else function.function_def
    return find


def _library(bodies: Bodies) -> Library:
    def load(name: str) -> Optional[Graph]:
        body = bodies(name)
        if body is None:
            return None
        if hasattr(body, "signature"):
            from graph_analysis.graph_def_reader import read_function_def
            return read_function_def(body, library)
        return _read_func_graph(body, library, name)
    library = Library(load)
    return library


def _read_func_graph(func_graph, library: Library, name: str = "") -> Graph:
    result, numbers = _read(func_graph, name or func_graph.name, library)
    result.args = [numbers[tensor.op] for tensor in func_graph.inputs]
    result.outputs = [(numbers[tensor.op], tensor.value_index) for tensor in func_graph.outputs]
    result.control_outputs = [numbers[op] for op in func_graph.control_outputs]
    return result


def _read(source, name: str, library: Library) -> tuple[Graph, dict]:
    operations = source.get_operations()
    numbers = {operation: number for number, operation in enumerate(operations)}
    graph = Graph(name, library, lambda node, key: scalar(operations[node].node_def, key))
    graph.names = [operation.name for operation in operations]
    graph.ops = [operation.type for operation in operations]
    special = special_types(graph)
    for number, operation in enumerate(operations):
        if graph.ops[number] in special:
            if is_collective(graph.ops[number]):
                graph.collectives[number] = collective(operation.node_def, _shape(operation))
            else:
                graph.calls[number] = callees(operation.node_def)
    _read_edges(operations, numbers, graph)
    return graph, numbers


def _shape(operation) -> Optional[tuple[int, ...]]:
    shape = operation.inputs[0].shape if operation.inputs else None
    return tuple(shape.as_list()) if shape is not None and shape.is_fully_defined() else None


def _read_edges(operations: list, numbers: dict, graph: Graph) -> None:
    ops, calls = graph.ops, graph.calls
    producers: dict[int, int] = {}  # id of a tensor -> its node
    for number, operation in enumerate(operations):
        inputs = []
        for position, tensor in enumerate(operation.inputs):
            producer = producers.get(id(tensor))
            if producer is None:
                producer = producers[id(tensor)] = numbers[tensor.op]
            inputs.append(producer)
            if producer in calls or ops[producer] in SWITCHES:
                port = tensor.value_index
                if port:
                    graph.ports[number, position] = port
        graph.inputs.append(tuple(inputs))
        waits = operation.control_inputs
        graph.controls.append(tuple([numbers[before] for before in waits]) if waits else ())
