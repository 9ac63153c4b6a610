"""Which node keeps which chunk: a table that all nodes compute alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from horovod_opt.io.order.order import Order

NOWHERE = -1
PAGE = 4096  # bytes: what is kept takes whole pages
_GOLDEN = 0.6180339887498949


class NodeHoldings(NamedTuple):
    """What a node says of itself: its ranks (of groups that have the same samples, the numbers of
    the groups), the bytes that it may keep, and of which chunks it is
    the home already, bool[chunks]."""

    ranks: tuple[int, ...]
    room: int
    held: np.ndarray


def pages(chunk_bytes: np.ndarray) -> np.ndarray:
    """What chunks of so many bytes take when they are kept, int64[chunks]."""
    return -(-np.asarray(chunk_bytes, np.int64) // PAGE) * PAGE


def find_homes(order: Order, epoch: int, chunk_bytes: np.ndarray,
               nodes: Sequence[NodeHoldings]) -> np.ndarray:
    """The node that keeps each chunk, NOWHERE for none: int32[chunks].

    Whoever is the home of a chunk stays it; of two that say so, the first. Of the others a node
    gets what it takes most samples of in `epoch`, in the order in which that begins, as far as its
    room goes. What is left goes to nodes with room in the order of the data, in runs."""
    sizes = pages(chunk_bytes)
    homes = np.full(order.chunks, NOWHERE, np.int32)
    room = np.array([node.room for node in nodes], np.int64)
    for number, node in enumerate(nodes):
        own = node.held & (homes == NOWHERE)
        homes[own] = number
        room[number] -= sizes[own].sum()

    def give(number: int, chunks: np.ndarray) -> None:
        fit = chunks[:np.searchsorted(np.cumsum(sizes[chunks]), room[number], side="right")]
        homes[fit] = number
        room[number] -= sizes[fit].sum()

    chunks, near = near_nodes(order, epoch, [node.ranks for node in nodes])
    is_free = homes[chunks] == NOWHERE
    for number in range(len(nodes)):
        give(number, chunks[is_free & (near == number)])
    for number in range(len(nodes)):
        give(number, np.flatnonzero(homes == NOWHERE))
    return homes


def near_nodes(order: Order, epoch: int, node_ranks: Sequence[Sequence[int]]
               ) -> tuple[np.ndarray, np.ndarray]:
    """The chunks as they come in the epoch's permutation, and the node that takes most of each:
    int64[chunks] each.

    Ranks take shares of a step's samples sorted by place, and of a step each shard gives as many:
    so a rank takes what lies at its part of all shards, and of a shard for several of them, at its
    part of each window. A chunk that is a window alone is all of theirs: they take turns. Where
    one window has all chunks, each node takes of all of them: then a node has a run of the data,
    which it reads in the data's order."""
    epoch_order = order.epoch(epoch)
    ordinals = np.arange(order.chunks)
    start, end = epoch_order.windows.chunks(ordinals)
    part = np.where(end - start > 1, (ordinals - start + 0.5) / (end - start),
                    (ordinals * _GOLDEN) % 1)
    ranks = 1 + max(map(max, node_ranks))
    node_of_rank = np.empty(ranks, np.int64)  # of a group on several nodes the last one
    for number, of_node in enumerate(node_ranks):
        node_of_rank[list(of_node)] = number
    if order.shards == 1 and order.has_whole_shards:
        return ordinals, node_of_rank[ordinals * ranks // order.chunks]
    rank = (epoch_order.shards.shard_of_chunk(ordinals) + part) * (ranks / order.shards)
    return (epoch_order.chunks.chunk_at(ordinals),
            node_of_rank[np.minimum(rank.astype(np.int64), ranks - 1)])
