"""What each node reads in an epoch, and what other nodes read as well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.memory import enough_for_any_epoch
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.schedule import Loads, live_bytes, schedule


class NodeReads(NamedTuple):
    """Of one node and epoch. `shards`: numbers of those that it reads of, int64[k]. Of its `bytes`,
    `again` are read by a node before it as well. `live` (bytes, int64[steps]) are needed at once;
    `enough` is what suffices in any epoch."""

    ranks: range
    shards: np.ndarray
    loads: Loads
    bytes: int
    again: int
    live: np.ndarray
    enough: int


def node_reads(order: Order, batches: Batches, epoch: int, nodes: int,
               chunk_bytes: np.ndarray) -> Sequence[NodeReads]:
    """Of `nodes` nodes that hold all ranks, neighbours together; `chunk_bytes`: int64[chunks]."""
    one = order.epoch(epoch)
    edges = [node * batches.ranks // nodes for node in range(nodes + 1)]
    read = np.zeros(order.chunks, bool)
    result = []
    for ranks in map(range, edges[:-1], edges[1:]):
        loads = schedule(order, batches, epoch, ranks)
        shards = one.shards.shard_of_chunk(one.chunks.turn_of(loads.chunk))
        sizes = chunk_bytes[loads.chunk]
        result.append(NodeReads(ranks, np.unique(shards), loads, int(sizes.sum()),
                                int(sizes[read[loads.chunk]].sum()), live_bytes(loads, chunk_bytes),
                                enough_for_any_epoch(order, batches, ranks, chunk_bytes)))
        read[loads.chunk] = True
    return result
