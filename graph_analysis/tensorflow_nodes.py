"""What the readers need from a NodeDef of TensorFlow, as a protobuf message of whatever class, and
shapes that a GraphDef does not say, from TensorFlow's own rules for each operation."""

from __future__ import annotations

import contextlib
import importlib
import struct
from typing import Any, Optional

from graph_analysis.graph import CALLS, CASES, IFS, QUERIES, WHILES, Collective

# TensorFlow's names of types, by the number in types.proto; a reference to a type has its number
# plus 100.
TENSORFLOW_TYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 5: "int16", 6: "int8", 7: "string",
    8: "complex64", 9: "int64", 10: "bool", 14: "bfloat16", 17: "uint16", 18: "complex128",
    19: "float16", 20: "resource", 22: "uint32", 23: "uint64"}
# Where a TensorProto keeps its elements, by type, where predicates need them.
FIELDS = {1: ("float_val", "<f"), 2: ("double_val", "<d"), 3: ("int_val", "<i"),
          9: ("int64_val", "<q"), 10: ("bool_val", "<?")}
UNKNOWN = "the graph does not say its shape, and TensorFlow cannot tell: "


def collective(node_def, shape: Optional[tuple[int, ...]], unknown: str = "") -> Collective:
    """`shape` of the tensor that is moved, None if it is not static, or `unknown`."""
    attributes = node_def.attr
    kind = attributes["T"].type if "T" in attributes else 0

    def number(name: str, kind: str, default):
        return getattr(attributes[name], kind) if name in attributes else default

    scale = 1.0 if "reduce_op" in attributes else None
    return Collective(
        shape, TENSORFLOW_TYPES.get(kind % 100, "unknown"), number("reduce_op", "i", None),
        number("prescale_factor", "f", scale), number("postscale_factor", "f", scale),
        number("process_set_id", "i", 0), node_def.device, number("opt_key", "i", 0), unknown)


def callees(node_def) -> tuple[str, ...]:
    """The functions that control flow or a call runs, as Graph.calls has them. The type of a call
    may be the name of the function itself."""
    op, attributes = node_def.op, node_def.attr
    if op in IFS:
        return attributes["then_branch"].func.name, attributes["else_branch"].func.name
    if op in WHILES:
        return attributes["cond"].func.name, attributes["body"].func.name
    if op in CASES:
        return tuple(branch.name for branch in attributes["branches"].list.func)
    return (attributes["f"].func.name if op in CALLS else op,)


def scalar(node_def, name: str):
    """Graph.attribute() of a Const or a query."""
    if name not in node_def.attr:
        return None
    value = node_def.attr[name]
    if node_def.op in QUERIES:
        return value.i
    if name != "value" or node_def.op != "Const":
        return None
    tensor = value.tensor
    if tensor.tensor_shape.dim or tensor.tensor_shape.unknown_rank or tensor.dtype not in FIELDS:
        return None
    field, layout = FIELDS[tensor.dtype]
    if tensor.tensor_content:
        return struct.unpack(layout, tensor.tensor_content)[0]
    elements = getattr(tensor, field)
    return elements[0] if elements else struct.unpack(layout, bytes(struct.calcsize(layout)))[0]


def static_shape(shape_proto) -> Optional[tuple[int, ...]]:
    """The sizes in a TensorShapeProto, or None if one of them is open."""
    sizes = tuple(dim.size for dim in shape_proto.dim)
    return None if shape_proto.unknown_rank or min(sizes, default=0) < 0 else sizes


class ShapeInference:
    """Imports the graph, and each function in which a shape is missing, when it is first asked."""

    def __init__(self, graph_def):
        self._graph_def = graph_def
        self._graphs: dict[Optional[str], Any] = {}  # by function; None: the graph itself
        self._problem = ""

    def input_of(self, function: Optional[str], node: str
                 ) -> tuple[Optional[tuple[int, ...]], str]:
        """The shape of the first input of a node, and why it is not known, if so. It is None
        without a reason if it is not static."""
        graph = self._graph(function)
        if graph is None:
            return None, UNKNOWN + self._problem
        inputs = graph.get_operation_by_name(node).inputs
        if not inputs or inputs[0].shape.rank is None:
            return None, UNKNOWN + "it does not follow from what the graph says"
        shape = inputs[0].shape
        return (tuple(shape.as_list()) if shape.is_fully_defined() else None), ""

    def _graph(self, function: Optional[str]):
        if function not in self._graphs and not self._problem:
            try:
                self._graphs[function] = (
                    self._function(function) if function else self._import())
            except Exception as error:  # of whatever kind TensorFlow's is
                self._problem = str(error).split("\n", 1)[0]
        return self._graphs.get(function)

    def _import(self):
        import tensorflow as tf
        with contextlib.suppress(ImportError):  # TensorFlow refuses operations it does not know
            importlib.import_module("horovod.tensorflow")
        graph = tf.Graph()
        with graph.as_default():
            tf.graph_util.import_graph_def(self._graph_def, name="")
        return graph

    def _function(self, name: str):
        from tensorflow.python.framework.function_def_to_graph import function_def_to_graph
        outer = self._graph(None)
        if outer is None:
            return None
        definition, = [function for function in self._graph_def.library.function
                       if function.signature.name == name]
        shapes = []
        for number in range(len(definition.signature.input_arg)):
            output_shapes = definition.arg_attr[number].attr["_output_shapes"].list.shape
            shapes.append(output_shapes[0] if output_shapes else None)
        with outer.as_default():
            return function_def_to_graph(definition, input_shapes=shapes)
