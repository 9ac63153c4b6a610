"""What may run at the same time as what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Optional

from graph_analysis import v1_control_flow
from graph_analysis.expansion import Decisions
from graph_analysis.graph import Graph, reverse_depth_first


def find_unordered_pair(topological: Sequence[int], preds: Sequence[tuple[int, ...]],
                        nodes: Iterable[int]) -> Optional[tuple[int, int]]:
    """Two of `nodes` without a path between them, or None if there are no such two. O(V + E).

    In topological order each node must depend on the one before it; so it is enough to know the
    last one that a node depends on."""
    members = set(nodes)
    if len(members) < 2:
        return None
    positions = [0] * len(preds)
    chain: list[int] = []
    for node in topological:
        last = 0
        for pred in preds[node]:
            if positions[pred] > last:
                last = positions[pred]
        if node in members:
            if last != len(chain):
                return chain[-1], node
            chain.append(node)
            last = len(chain)
        positions[node] = last
    return None


def concurrent_calls(graph: Graph, decisions: Decisions) -> tuple[tuple[str, str], ...]:
    """The functions with collectives that may run twice at a time: (function, reason)."""
    reasons: dict[str, str] = {}
    functions: set[str] = set()
    todo = [graph]
    for body in todo:  # grows
        callers: dict[str, list[int]] = {}
        for node, names in body.calls.items():
            names = decisions.get((body.name, node), names)
            for name in sorted(body.library.communicating(names)):
                callers.setdefault(name, []).append(node)
                if name not in functions:
                    functions.add(name)
                    todo.append(body.library[name])
        shared = {name: nodes for name, nodes in callers.items() if len(nodes) > 1}
        if not shared:
            continue
        preds = [data + control for data, control in zip(body.inputs, body.controls)]
        v1_control_flow.unroll(body, preds)
        topological = reverse_depth_first(preds, body.roots(), body.names.__getitem__)
        for name, nodes in shared.items():
            pair = find_unordered_pair(topological, preds, nodes)
            if pair:
                first, second = (body.names[node] for node in pair)
                reasons.setdefault(name, f"{body.name} calls it from {first} and from {second}, "
                                         "and neither waits for the other")
    return tuple(sorted(reasons.items()))
