"""Graphs from TensorFlow's messages and files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Optional

from graph_analysis.graph import (
    Graph,
    GraphError,
    Library,
    check,
    is_collective,
    pause_collector,
    special_types,
)
from graph_analysis.tensorflow_nodes import (
    ShapeInference,
    callees,
    collective,
    scalar,
    static_shape,
)

# In a FunctionDef an output is called by its name; elsewhere it matters for these only.
PORTS = {"output_false": 0, "output_true": 1}
Infer = Callable[[str], tuple[Optional[tuple[int, ...]], str]]  # of a node's first input
SAME_SHAPE = frozenset({"Cast", "Identity", "HorovodAllreduce", "HorovodBroadcast"})


@pause_collector
def read_graph_def(source, fetches: Optional[Iterable[str]] = None) -> Graph:
    """A GraphDef with its function library: the message, or the path of a .pb or .pbtxt file or of
    a SavedModel's directory.

    `fetches` are names of nodes or, with ":0", of their outputs; the default are all nodes that
    no other node reads. Shapes come from the attribute _output_shapes, which nodes have after
    as_graph_def(add_shapes=True) and functions for their arguments; where it is missing,
    TensorFlow infers them.

    Raises GraphError if the file is none of these, or a name refers to nothing."""
    graph_def = _load(Path(source)) if isinstance(source, (str, Path)) else source
    functions = {function.signature.name: function for function in graph_def.library.function}
    inference = ShapeInference(graph_def)
    library = Library(lambda name: read_function_def(functions[name], library, functions, inference)
                      if name in functions else None)
    graph = Graph("graph", library, lambda node, key: scalar(graph_def.node[node], key))
    _read(graph, graph_def.node, {}, {},
          lambda node: inference.input_of(None, node))
    if fetches is None:
        read = {node for inputs in graph.inputs + graph.controls for node in inputs}
        graph.control_outputs = [node for node in range(len(graph)) if node not in read]
        return graph
    numbers = {name: number for number, name in enumerate(graph.names)}
    for fetch in fetches:
        name, _, port = fetch.lstrip("^").partition(":")
        if name not in numbers:
            raise GraphError(f"The fetch {fetch} is not in the graph.")
        if port:
            graph.outputs.append((numbers[name], _port(port, graph)))
        else:
            graph.control_outputs.append(numbers[name])
    return graph


def read_function_def(function, library: Library, functions: Mapping = MappingProxyType({}),
                      inference: Optional[ShapeInference] = None) -> Graph:
    """The body of a FunctionDef. `functions` has those that are called by their names as types;
    `inference` tells the shapes that the body does not say."""
    arguments = [argument.name for argument in function.signature.input_arg]
    graph = Graph(function.signature.name, library,
                  lambda node, key: scalar(function.node_def[node - len(arguments)], key)
                  if node >= len(arguments) else None)
    shapes = {}
    for number, name in enumerate(arguments):
        graph.names.append(name)
        graph.ops.append("_Arg")
        graph.inputs.append(())
        graph.controls.append(())
        shapes[number] = _output_shape(function.arg_attr[number].attr)
    graph.args = list(range(len(arguments)))
    numbers = _read(graph, function.node_def, shapes, functions,
                    inference and (lambda node: inference.input_of(graph.name, node)))
    for output in function.signature.output_arg:
        graph.outputs.append(_reference(function.ret[output.name], graph, numbers, functions))
    graph.control_outputs = [_number(name, graph, numbers)
                             for name in function.control_ret.values()]
    return graph


def _read(graph: Graph, node_defs, shapes: dict, functions: Mapping,
          infer: Optional[Infer]) -> dict[str, int]:
    """Appends `node_defs` to the arguments that `graph` has already, and returns its names."""
    first = len(graph)
    graph.names += [node_def.name for node_def in node_defs]
    graph.ops += [node_def.op for node_def in node_defs]
    numbers = {name: number for number, name in enumerate(graph.names)}
    for number, node_def in enumerate(node_defs, first):
        inputs, controls = [], []
        for text in node_def.input:
            if text.startswith("^"):
                controls.append(_number(text[1:], graph, numbers))
                continue
            producer, port = _reference(text, graph, numbers, functions)
            if port:
                graph.ports[number, len(inputs)] = port
            inputs.append(producer)
        graph.inputs.append(tuple(inputs))
        graph.controls.append(tuple(controls))
    special = special_types(graph)
    for number, node_def in enumerate(node_defs, first):
        if node_def.op not in special:
            continue
        if is_collective(node_def.op):
            shape, unknown = _shape(graph, number, node_defs, first, shapes, infer)
            graph.collectives[number] = collective(node_def, shape, unknown)
        else:
            graph.calls[number] = callees(node_def)
    check(graph)
    return numbers


def _number(name: str, graph: Graph, numbers: Mapping[str, int]) -> int:
    if name not in numbers:
        raise GraphError(f"{graph.name} refers to {name}, which it does not contain.")
    return numbers[name]


def _reference(text: str, graph: Graph, numbers: Mapping[str, int],
               functions: Mapping) -> tuple[int, int]:
    """Node and port of "node", "node:port" or, in a function, "node:output:port"."""
    name, _, port = text.partition(":")
    number = _number(name, graph, numbers)
    if not port:
        return number, 0
    output, _, offset = port.rpartition(":")
    if output in PORTS:
        return number, PORTS[output]
    if graph.ops[number] in functions:
        names = [result.name for result in functions[graph.ops[number]].signature.output_arg]
        return number, names.index(output) if output in names else _port(offset, graph)
    return number, _port(offset, graph)


def _port(text: str, graph: Graph) -> int:
    if not re.fullmatch("[0-9]{1,9}", text):
        raise GraphError(f"{graph.name} refers to an output {text!r}, which is no number.")
    return int(text)


def _shape(graph: Graph, number: int, node_defs, first: int,
           shapes: Mapping[int, Optional[tuple[int, ...]]], infer: Optional[Infer]
           ) -> tuple[Optional[tuple[int, ...]], str]:
    """The shape of what the collective moves: that of its input, which an operation may have
    handed through. And why it is not known."""
    name = graph.names[number]
    for _ in range(len(graph)):  # more steps only in a circle, which the analysis reports
        if number < first:
            if shapes[number] is not None:
                return shapes[number], ""
            break
        attributes = node_defs[number - first].attr
        if "_output_shapes" in attributes:
            return _output_shape(attributes), ""
        if graph.ops[number] not in SAME_SHAPE or not graph.inputs[number]:
            break
        number = graph.inputs[number][0]
    return infer(name) if infer else (None, "")


def _output_shape(attributes) -> Optional[tuple[int, ...]]:
    if "_output_shapes" not in attributes:
        return None
    shapes = attributes["_output_shapes"].list.shape
    return static_shape(shapes[0]) if shapes else None


def _load(path: Path):
    """The GraphDef in a file."""
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError
    from tensorflow.core.framework.graph_pb2 import GraphDef
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel
    if path.is_dir():
        path = path / "saved_model.pb"
    try:
        if path.name == "saved_model.pb":
            model = SavedModel.FromString(path.read_bytes())
            if not model.meta_graphs:
                raise GraphError(f"{path} has no graph.")
            return model.meta_graphs[0].graph_def
        if path.suffix == ".pbtxt":
            return text_format.Parse(path.read_text(), GraphDef())
        return GraphDef.FromString(path.read_bytes())
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise GraphError(f"{path} is not a graph of TensorFlow: {error}") from None
