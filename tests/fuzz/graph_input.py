"""Graphs and plans with damages, from a fuzzer's bytes."""

from __future__ import annotations

import json

from draw import Draw

from graph_analysis import analyze, read_dict

OPS = ("HorovodAllreduce", "HorovodAllreduce", "HorovodAllgather", "HorovodSize", "Placeholder",
       "Const", "Identity", "Add", "If", "While", "Case", "PartitionedCall", "Switch", "Merge",
       "Enter", "Exit", "NextIteration", "LoopCond", "f", "g")
FUNCTIONS = ("f", "g", "h")
NAMES = "abcdefghij"
DTYPES = ("float32", "float64", "int32", "uint8", "complex64", "string")


def graph_of(draw: Draw) -> dict:
    """What read_dict() takes: mostly right, with a function library; now and then not."""
    graph = _body(draw)
    graph["functions"] = {name: draw.or_anything(_body(draw))
                          for name in FUNCTIONS[:draw.below(4)]}
    if draw.one_in(16):
        graph[draw.text()] = draw.anything()
    return graph


def _body(draw: Draw) -> dict:
    names = NAMES[:1 + draw.below(8)]
    nodes = [draw.or_anything(_node(draw, name, names[:place], names))
             for place, name in enumerate(names)]
    body = {"nodes": nodes, "args": [names[0]] * draw.below(2)}
    for field in ("fetches", "outputs", "control_outputs"):
        body[field] = [_reference(draw, names) for _ in range(draw.below(3))]
    if not body["fetches"]:
        body["fetches"] = [names[-1]]
    return body


def _node(draw: Draw, name: str, before: str, names: str) -> dict:
    op = draw.choice(OPS)
    # Only now and then a circle.
    sources = names if op in ("Merge", "NextIteration") or draw.one_in(16) else before
    node = {"name": name, "op": op,
            "inputs": [_reference(draw, sources) for _ in range(draw.below(4)) if sources],
            "controls": [_reference(draw, sources) for _ in range(draw.below(2)) if sources]}
    if op in ("If", "While", "Case", "PartitionedCall") or draw.one_in(16):
        node["calls"] = [draw.or_anything(draw.choice(FUNCTIONS)) for _ in range(draw.below(4))]
    if op in ("Const", "HorovodSize"):
        node["value"] = draw.or_anything(draw.choice((0, 1, 2, True, False, 0.5)))
    if op.startswith("Horovod"):
        node["collective"] = draw.or_anything({
            "shape": [draw.or_anything(draw.below(9)) for _ in range(draw.below(3))],
            "dtype": draw.or_anything(draw.choice(DTYPES)),
            "reduce_op": draw.or_anything(draw.choice((1, 1, 0, 2, 3, 9))),
            "prescale": draw.or_anything(draw.choice((1.0, 0.5))),
            "key": draw.or_anything(draw.below(9))})
    if draw.one_in(16):
        node[draw.choice((*node, draw.text()))] = draw.anything()
    return node


def _reference(draw: Draw, names: str) -> object:
    name = draw.choice(names)
    return draw.or_anything(f"{name}:{draw.below(3)}" if draw.one_in(4) else name)


def plan_of(draw: Draw) -> object:
    """The document of a plan, damaged in some places; its hash fits most of the time."""
    nodes = [{"name": name, "op": "HorovodAllreduce", "inputs": [NAMES[place - 1]] * draw.below(2),
              "collective": {"shape": [draw.below(5)], "key": place + 1}}
             for place, name in enumerate(NAMES[:1 + draw.below(6)])]
    nodes[0]["inputs"] = []
    graph = read_dict({"name": draw.text().replace("\ud800", ""), "nodes": nodes,
                       "fetches": [node["name"] for node in nodes]})
    (region,) = analyze(graph, 8 * draw.below(9)).regions
    document = json.loads(region.plan.to_json())
    for _ in range(draw.below(4)):
        _damage(draw, document)
    return document


def _damage(draw: Draw, document: object) -> None:
    """Replaces, adds or drops something, somewhere in the document."""
    place = document
    while isinstance(place, (dict, list)) and place:
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = draw.choice(keys)
        if isinstance(place[key], (dict, list)) and place[key] and not draw.one_in(8):
            place = place[key]
            continue
        if draw.one_in(8):
            del place[key]
        else:
            place[key] = draw.anything()
        return
