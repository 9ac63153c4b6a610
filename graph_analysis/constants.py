"""Collectives of constants. In a loop, TensorFlow's optimizer executes them once, while it rewrites
the graph, and puts the result in their place: no step runs them. Elsewhere they run."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from graph_analysis.expansion import Expansion, origin

# What these give depends on the shape of their input only, which may be known.
OF_SHAPES = frozenset({"Shape", "ShapeN", "Size", "Rank"})
# Parts of the names of operations that give something else each time, whatever their inputs.
NEVER = ("Variable", "Random", "Iterator", "Read", "Stateful", "PartitionedCall", "While", "If",
         "Case", "PyFunc", "Multinomial", "Queue", "Horovod", "Merge", "Enter")


def constant_collectives(expansion: Expansion, running: Iterable[int]) -> set[int]:
    """The nodes of `running` collectives all of whose inputs may be constants. O(V + E) for all of
    them."""
    answers: dict[int, bool] = {}
    bases = [frame.base for frame in expansion.frames]

    def inputs(node: int) -> list[int]:
        frame = expansion.frames[bisect_right(bases, node) - 1]
        local = node - frame.base
        if local == len(frame.graph):  # the entry of a branch
            return []
        op = frame.graph.ops[local]
        if op == "Const" or op in OF_SHAPES:
            answers[node] = True
        elif any(part in op for part in NEVER) or not frame.graph.inputs[local]:
            answers[node] = False
        else:
            return [origin(frame, local, k) for k in range(len(frame.graph.inputs[local]))]
        return []

    def constant(start: int) -> bool:
        path = [(start, inputs(start))]
        while path:
            node, waiting = path[-1]
            while waiting and answers.get(waiting[-1]):
                waiting.pop()
            if node not in answers and waiting and waiting[-1] not in answers:
                path.append((waiting[-1], inputs(waiting[-1])))
                continue
            answers.setdefault(node, not waiting)  # what is left is not constant
            path.pop()
        return answers[start]

    return {node for node in running if (reads := expansion.reads[node])
            and all(answers[read] if read in answers else constant(read) for read in reads)}
