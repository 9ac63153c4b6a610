"""GraphDefs: from the bytes, the same damaged graphs in TensorFlow's format, or just bytes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import fuzz_graph
from draw import Draw
from graph_input import graph_of
from tensorflow.core.framework.graph_pb2 import GraphDef

from graph_analysis import GraphError, read_graph_def
from graph_analysis.tensorflow_nodes import TENSORFLOW_TYPES

NUMBERS = {name: number for number, name in TENSORFLOW_TYPES.items()}
SUFFIXES = (".pb", ".pbtxt")
FETCHES = (None, ["a"], ["a:0", "b"], ["a:"], ["^b"], ["z"], ["a:x"], [":"])


def target(data: bytes) -> None:
    """Either GraphError with a text, or regions in which every collective has one place."""
    draw = Draw(data)
    fetches, threshold = draw.choice(FETCHES), 8 * draw.below(9)
    if draw.one_in(4):
        as_file(data[3:], draw.choice(SUFFIXES), fetches)
        return
    document = graph_of(draw)
    try:
        fuzz_graph.check(read_graph_def(graph_def(document), fetches), threshold, draw.one_in(2))
    except GraphError as error:
        assert str(error)


def as_file(content: bytes, suffix: str, fetches: list[str] | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"graph{suffix}"
        path.write_bytes(content)
        try:
            read_graph_def(path, fetches)
        except GraphError as error:
            assert str(error)


def graph_def(document: dict) -> GraphDef:
    """What of the document a GraphDef can hold."""
    message = GraphDef()
    _add(message.node, document)
    for name, body in document["functions"].items():
        if not isinstance(body, dict):
            continue
        function = message.library.function.add()
        function.signature.name = name
        for argument in body.get("args", ()):
            function.signature.input_arg.add(name=f"{argument}.in")
        for place, output in enumerate(_strings(body.get("outputs"))):
            function.signature.output_arg.add(name=f"o{place}")
            if place < 2:  # a third one is missing where it should be
                function.ret[f"o{place}"] = output
        _add(function.node_def, body)
    return message


def _add(node_defs, body: dict) -> None:
    for node in _list(body.get("nodes")):
        if not isinstance(node, dict) or not isinstance(node.get("name"), str):
            continue
        added = node_defs.add(name=_text(node["name"]), op=_text(str(node.get("op", ""))))
        added.input.extend(_strings(node.get("inputs")))
        added.input.extend("^" + text for text in _strings(node.get("controls")))
        calls = _strings(node.get("calls"))
        for place, field in enumerate(("then_branch", "else_branch", "cond", "body", "f")):
            if place < len(calls):
                added.attr[field].func.name = calls[place]
        for name in calls:
            added.attr["branches"].list.func.add(name=name)
        about = node.get("collective")
        if isinstance(about, dict):
            _describe(added.attr, about)


def _describe(attributes, about: dict) -> None:
    if isinstance(about.get("dtype"), str):
        attributes["T"].type = NUMBERS.get(about["dtype"], 99)
    for field in ("reduce_op", "key"):
        value = about.get(field)
        if type(value) is int and -2**63 <= value < 2**63:
            attributes["opt_key" if field == "key" else field].i = value
    shape = attributes["_output_shapes"].list.shape.add()
    for size in _list(about.get("shape")):
        if type(size) is int and -2**63 <= size < 2**63:
            shape.dim.add(size=size)


def _list(value: object) -> list:
    return value if isinstance(value, list) else []


def _strings(value: object) -> list[str]:
    return [_text(text) for text in _list(value) if isinstance(text, str)]


def _text(text: str) -> str:
    """Protobuf's strings are UTF-8."""
    return text.replace("\ud800", "")
