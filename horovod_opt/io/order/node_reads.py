"""What each node reads in an epoch, and what other nodes read as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from horovod_opt.io.node_reader.layout import bytes_read
from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.memory import enough_for_any_epoch
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.schedule import Loads, joined, live_bytes, schedule_in_pieces


class NodeReads(NamedTuple):
    """Of one node and epoch. `shards`: numbers of those that it reads of, int64[k]. It reads
    `bytes`; what it and the nodes before it read of a chunk beyond its size counts as `again`.
    `live` (bytes, int64[steps]) are needed at once; `enough` is what suffices in any epoch."""

    ranks: range
    shards: np.ndarray
    loads: Loads
    bytes: int
    again: int
    live: np.ndarray
    enough: int


def node_reads(order: Order, batches: Batches, epoch: int, nodes: int,
               index, chunk_bytes: np.ndarray) -> Sequence[NodeReads]:
    """Of `nodes` nodes that hold all ranks, neighbours together; `index` has `file`, `offset` and
    `size` of the samples; `chunk_bytes`: int64[chunks], what layout.chunk_bytes() finds."""
    one = order.epoch(epoch)
    edges = [node * batches.ranks // nodes for node in range(nodes + 1)]
    read = np.zeros(order.chunks, np.int64)
    result = []
    for ranks in map(range, edges[:-1], edges[1:]):
        pieces = list(schedule_in_pieces(order, batches, epoch, ranks, find_taken=True))
        own = np.zeros(order.chunks, np.int64)
        for piece in pieces:
            own[piece.chunk] = bytes_read(index, order.chunk_samples, piece, chunk_bytes)
        loads = joined(pieces)
        shards = one.shards.shard_of_chunk(one.chunks.turn_of(loads.chunk))
        again = np.maximum(read + own - chunk_bytes, 0)
        result.append(NodeReads(ranks, np.unique(shards), loads, int(own.sum()), int(again.sum()),
                                live_bytes(loads, chunk_bytes),
                                enough_for_any_epoch(order, batches, ranks, chunk_bytes)))
        read += own - again
    return result
