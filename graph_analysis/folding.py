"""What a predicate is, where the graph and the caller's values already decide it."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Optional, Union

from graph_analysis.graph import QUERIES

Scalar = Union[bool, int, float]

COMPARISONS = {
    "Equal": operator.eq, "NotEqual": operator.ne, "Greater": operator.gt,
    "GreaterEqual": operator.ge, "Less": operator.lt, "LessEqual": operator.le,
}
OPERANDS = {"LogicalNot": 1, "LogicalAnd": 2, "LogicalOr": 2, **dict.fromkeys(COMPARISONS, 2)}
# An expression that is deeper is no predicate that somebody wrote, and could take forever.
MAX_DEPTH = 12
# What hands a value on more often than that is a circle.
MAX_HOPS = 10_000


def fold(frame, node: int, values: Mapping[str, Scalar], depth: int = 0) -> Optional[Scalar]:
    """The value of output 0 of `node` in `frame` (see expansion.Frame), or None if only running
    the graph can tell. `values` has those of Horovod's queries, e.g. {"HorovodSize": 2}; they are
    those of the global process set."""
    if depth > MAX_DEPTH:
        return None
    for _ in range(MAX_HOPS):  # as far as the value is only handed on
        graph = frame.graph
        op = graph.ops[node]
        if node in frame.arguments and frame.caller:
            node = frame.caller.graph.inputs[frame.site][frame.arguments[node]]
            frame = frame.caller
        elif op == "Identity" and graph.inputs[node]:
            node = graph.inputs[node][0]
        else:
            break
    if op == "Const":
        return graph.attribute(node, "value")
    if op in QUERIES:
        return None if graph.attribute(node, "process_set_id") else values.get(op)
    if op not in OPERANDS or len(graph.inputs[node]) != OPERANDS[op]:
        return None
    operands = [fold(frame, operand, values, depth + 1) for operand in graph.inputs[node]]
    if op in ("LogicalAnd", "LogicalOr"):
        return _logical(operands, decisive=op == "LogicalOr")
    if None in operands:
        return None
    return not operands[0] if op == "LogicalNot" else COMPARISONS[op](*operands)


def _logical(operands: Sequence[Optional[Scalar]], decisive: bool) -> Optional[bool]:
    """And (decisive: False) or or (decisive: True): one decisive operand is enough."""
    values = [bool(operand) for operand in operands if operand is not None]
    if decisive in values:
        return decisive
    return None if len(values) < 2 else not decisive
