"""Shapes that a GraphDef does not say, from TensorFlow's own rules for each operation."""

from __future__ import annotations

import contextlib
import importlib
from typing import Any, Optional

UNKNOWN = "the graph does not say its shape, and TensorFlow cannot tell: "


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
        definition, = [one for one in self._graph_def.library.function
                       if one.signature.name == name]
        shapes = []
        for number in range(len(definition.signature.input_arg)):
            said = definition.arg_attr[number].attr["_output_shapes"].list.shape
            shapes.append(said[0] if said else None)
        with outer.as_default():
            return function_def_to_graph(definition, input_shapes=shapes)
