"""What memory the nodes of a job have for their readers."""

from __future__ import annotations

import json
from typing import NamedTuple, Optional

from horovod_opt.io import memory_limit
from horovod_opt.io.job.communication import Communication
from horovod_opt.io.job.nodes import Node

# Of what a node's processes may use, its reader takes so much by default: the training needs more.
PART = 2
LOOKED_AT = 8  # nodes


class Room(NamedTuple):
    """The ranks of each node, or the shares of groups of them (groups.py), and what the user lets
    each of their readers have (None: nothing was said). `limit` is what processes of the smallest
    node may use; None: unknown."""

    nodes: tuple[tuple[int, ...], ...]
    memory: Optional[int] = None
    limit: Optional[int] = None

    @property
    def ranks(self) -> int:
        return len(set().union(*self.nodes))

    @property
    def are_apart(self) -> bool:
        """Whether no rank, or share of a group, is on several nodes that differ."""
        return sum(map(len, self.nodes)) == self.ranks

    @property
    def most(self) -> Optional[int]:
        """Bytes that a reader may have; None: no bound is known."""
        if self.memory is not None:
            return self.memory
        return None if self.limit is None else self.limit // PART

    def without(self, used: int) -> Room:
        """Where so many bytes of each node are taken already."""
        return self._replace(memory=None if self.memory is None else self.memory - used,
                             limit=None if self.limit is None else max(self.limit - used, 1))

    @property
    def some_nodes(self) -> list[tuple[int, ...]]:
        """Those that may need the most: the largest, and some of all, of which inner ones share
        chunks with two others."""
        step = -(-len(self.nodes) // LOOKED_AT)
        return list(dict.fromkeys((max(self.nodes, key=len), *self.nodes[step // 2::step])))


def find(ranks: Communication, node: Node, memory: Optional[int]) -> Room:
    """Collective: the same on all ranks."""
    rows = [json.loads(row) for row in ranks.allgather(json.dumps(
        [list(node.ranks), memory_limit.limit()]).encode())]
    nodes = dict.fromkeys(tuple(of_node) for of_node, _ in rows)
    return Room(tuple(nodes), memory,
                min((limit for _, limit in rows if limit is not None), default=None))


def neighbours(ranks: int, nodes: int, memory: Optional[int] = None) -> Room:
    """Of so many nodes that hold all ranks, neighbours together."""
    edges = [node * ranks // nodes for node in range(nodes + 1)]
    return Room(tuple(tuple(range(*edge)) for edge in zip(edges[:-1], edges[1:])), memory)
