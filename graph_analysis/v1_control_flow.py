"""Branches and loops of TensorFlow 1, which are nodes of the graph itself: Switch passes its input
on to one of two outputs, Merge takes whichever input arrives, and a loop is a cycle through
Enter, Merge, Switch, NextIteration and back, left by Exit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

from graph_analysis.graph import SWITCHES, Graph, reverse_depth_first

DEAD = -1  # never runs; other levels are the number of branches and loops around a node


def _kind(op: str) -> str:
    return op[3:] if op.startswith("Ref") else op


def has_switches(graph: Graph) -> bool:
    return not SWITCHES.isdisjoint(graph.ops)


def unroll(graph: Graph, preds: list[tuple[int, ...]]) -> None:
    """Takes the cycles out of `preds`: a Merge no longer waits for the iteration before it, but
    each Exit for every variable of the last one."""
    if not has_switches(graph):
        return
    iterations: dict[int, list[int]] = {}  # loop condition -> its NextIterations
    for node, op in enumerate(graph.ops):
        if _kind(op) == "Merge":
            preds[node] = tuple(p for p in preds[node] if not _next(graph, p))
        elif _kind(op) == "Switch":
            data, condition = graph.inputs[node]
            if graph.ops[condition] == "LoopCond":
                iterations.setdefault(condition, []).extend(
                    p for p in graph.inputs[data] if _next(graph, p))
    for node, op in enumerate(graph.ops):
        if _kind(op) == "Exit":
            switch, = graph.inputs[node]
            preds[node] += tuple(iterations.get(graph.inputs[switch][1], ()))


def _next(graph: Graph, node: int) -> bool:
    return _kind(graph.ops[node]) == "NextIteration"


def classify(graph: Graph,
             fold: Callable[[int], Optional[object]]) -> tuple[set[int], set[int]]:
    """The nodes that never run, because a predicate that fold() knows rules them out, and those
    that may run or not, or more than once."""
    if not has_switches(graph):
        return set(), set()
    preds = [data + control for data, control in zip(graph.inputs, graph.controls)]
    unroll(graph, preds)
    levels: dict[int, int] = {}
    outputs: dict[int, int] = {}  # Switch -> its only live output
    for node in reverse_depth_first(preds, range(len(graph)), graph.names.__getitem__):
        kind = _kind(graph.ops[node])
        waits = [levels[p] for p in preds[node]]
        for position, producer in enumerate(graph.inputs[node]):
            if producer in outputs and producer in preds[node]:
                if outputs[producer] != graph.ports.get((node, position), 0):
                    waits.append(DEAD)
        levels[node] = _level(kind, waits, any(_next(graph, p) for p in graph.inputs[node]))
        if kind == "Switch" and levels[node] != DEAD:
            value = fold(graph.inputs[node][1])
            if value is not None:
                outputs[node] = int(bool(value))
            elif graph.ops[graph.inputs[node][1]] != "LoopCond":
                levels[node] += 1
    dead = {node for node, level in levels.items() if level == DEAD}
    return dead, {node for node, level in levels.items() if level > 0}


def _level(kind: str, waits: list[int], closes_loop: bool) -> int:
    if kind == "Merge" and not closes_loop:
        alive = [level for level in waits if level != DEAD]
        if not alive:
            return DEAD
        return max(alive) - (len(alive) == len(waits))
    if DEAD in waits:
        return DEAD
    level = max(waits, default=0)
    return level + (kind == "Enter") - (kind == "Exit")
