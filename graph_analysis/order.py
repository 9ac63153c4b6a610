"""Which collective comes before which: IDs and dependencies (chapter 6.3.4)."""

from __future__ import annotations

from collections.abc import Sequence

from graph_analysis.expansion import Expansion
from graph_analysis.graph import reverse_depth_first

NONE = -1


class Order:
    """topological   all nodes that run, each after those it waits for
    collectives   those of them that are collectives; their index is their ID
    edges         how many edges lead to the nodes that run
    after         for each ID those it depends on without another collective in between, ascending
    """

    def __init__(self, expansion: Expansion):
        self._preds = expansion.preds
        self.topological = reverse_depth_first(
            expansion.preds, expansion.roots, expansion.name)
        depths = self._depths(expansion.notation)
        self.collectives = _sort(depths, expansion)
        self.after = self._nearest()

    def _depths(self, notation: set[int]) -> list[int]:
        """The number of nodes on the longest path to each node, itself included."""
        depths = [NONE] * len(self._preds)
        self.edges = 0
        for node in self.topological:
            waits = self._preds[node]
            self.edges += len(waits)
            deepest = 0
            for pred in waits:
                if depths[pred] > deepest:
                    deepest = depths[pred]
            depths[node] = deepest + (node not in notation)
        return depths

    def latest(self, members: Sequence[bool]) -> list[int]:
        """For each ID the largest chosen ID that it depends on, or NONE.

        A parent's ID is smaller than its child's. So a collective is concurrent with all chosen
        ones between that ID and itself: no other question needs to be asked for buckets."""
        result: list[int] = []
        for before in self.after:
            result.append(max([b if members[b] else result[b] for b in before], default=NONE))
        return result

    def nearest(self, members: Sequence[bool]) -> list[tuple[int, ...]]:
        """For each ID the chosen IDs that it depends on without another chosen one in between."""
        result: list[tuple[int, ...]] = []
        for before in self.after:
            if all(members[b] for b in before):
                result.append(before)
            else:
                ids = {b for b in before if members[b]}
                ids.update(*[result[b] for b in before if not members[b]])
                result.append(tuple(sorted(ids)))
        return result

    def _nearest(self) -> list[tuple[int, ...]]:
        """A node hands on the ID of the one collective it depends on. Where several meet, it hands
        on itself, and the meeting is resolved for those who ask: a set for each node could take
        quadratic time and memory."""
        ids = {node: number for number, node in enumerate(self.collectives)}
        first_meeting = len(ids)
        marks = [NONE] * len(self._preds)
        above = [NONE] * len(self.collectives)
        meetings: dict[int, set[int]] = {}
        for node in self.topological:
            mark = NONE
            for pred in self._preds[node]:
                if marks[pred] != mark and marks[pred] != NONE:
                    if mark != NONE:
                        mark = first_meeting + node
                        meetings[mark] = {marks[p] for p in self._preds[node]} - {NONE}
                        break
                    mark = marks[pred]
            if node in ids:
                above[ids[node]] = mark
                mark = ids[node]
            marks[node] = mark
        resolutions: dict[int, tuple[int, ...]] = {NONE: ()}
        for start in above:
            if start not in resolutions:
                resolutions[start] = _resolve(start, meetings)
        return [resolutions[start] for start in above]


def _resolve(start: int, meetings: dict[int, set[int]]) -> tuple[int, ...]:
    places, stack, ids = {start}, [start], []
    while stack:
        place = stack.pop()
        if place not in meetings:
            ids.append(place)
            continue
        fresh = meetings[place] - places
        places |= fresh
        stack.extend(fresh)
    return tuple(sorted(ids))


def _sort(depths: Sequence[int], expansion: Expansion) -> list[int]:
    """By depth. Siblings read the same nodes, so they are equally deep: they keep the order in
    which they were added; strangers of equal depth are sorted by name."""
    nodes = [node for node in expansion.collectives if depths[node] != NONE]
    family = {}
    for node in nodes:
        name = expansion.collectives[node][1]
        reads = frozenset(expansion.reads[node]) or node
        family[reads] = min(name, family.get(reads, name))
    return sorted(nodes, key=lambda node: (
        depths[node], family[frozenset(expansion.reads[node]) or node], node))
