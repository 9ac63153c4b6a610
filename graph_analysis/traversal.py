"""Reverse depth-first search (chapter 6.3.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from graph_analysis.graph import GraphError


def reverse_depth_first(preds: Sequence[tuple[int, ...]], roots: Iterable[int],
                        name: Callable[[int], str]) -> list[int]:
    """All nodes from which a root is reached, each after those it waits for. O(V + E).

    Raises GraphError, with what `name` calls them, if nodes wait for each other."""
    new, open_, done = 0, 1, 2
    state = bytearray(len(preds))
    order: list[int] = []
    stack = list(roots)
    stack.reverse()
    pop, push, finish = stack.pop, stack.append, order.append
    while stack:
        node = stack[-1]
        if state[node] == new:
            state[node] = open_
            for pred in preds[node]:
                if state[pred] == new:
                    push(pred)
                elif state[pred] == open_:
                    raise GraphError(f"{name(node)} and {name(pred)} wait for each other: "
                                     "the graph has a cycle.")
        else:
            pop()
            if state[node] == open_:
                state[node] = done
                finish(node)
    return order
