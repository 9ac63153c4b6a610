"""What a node reads: in which chunks, where data is not shuffled, which changes no order; and what
it reads of an epoch, and what other nodes read as well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from horovod_opt.io.node_reader.layout import ALONG, bytes_read
from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.memory import enough_for_any_epoch
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.schedule import Loads, join_loads, live_bytes, schedule_in_pieces

LEAST = 64 * 1024  # bytes of the node in a chunk: each chunk costs something, read or not


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


def node_reads(order: Order, batches: Batches, epoch: int, nodes: int, index,
               chunk_bytes: np.ndarray, deals_job: bool = False) -> Sequence[NodeReads]:
    """Of `nodes` nodes that hold all ranks, neighbours together; `index` has `file`, `offset` and
    `size` of the samples; `chunk_bytes`: int64[chunks], what layout.chunk_bytes() finds. Samples of
    a step are dealt to the ranks of a node, or to all with `deals_job`."""
    epoch_order = order.epoch(epoch)
    edges = [node * batches.ranks // nodes for node in range(nodes + 1)]
    read = np.zeros(order.chunks, np.int64)
    result = []
    for ranks in map(range, edges[:-1], edges[1:]):
        dealt = range(batches.ranks) if deals_job else ranks
        pieces = list(schedule_in_pieces(order, batches, epoch, ranks, True, dealt))
        node_bytes = np.zeros(order.chunks, np.int64)
        for piece in pieces:
            node_bytes[piece.chunk] = bytes_read(index, order.chunk_samples, piece, chunk_bytes)
        loads = join_loads(pieces)
        shards = epoch_order.shards.shard_of_chunk(epoch_order.chunks.ordinal_of(loads.chunk))
        again = np.maximum(read + node_bytes - chunk_bytes, 0)
        result.append(NodeReads(ranks, np.unique(shards), loads, int(node_bytes.sum()),
                                int(again.sum()), live_bytes(loads, chunk_bytes),
                                enough_for_any_epoch(order, batches, dealt, chunk_bytes)))
        read += node_bytes - again
    return result


def chunks_for_node(order: Order, batches: Batches, ranks: Sequence[int], sample_bytes: float
                    ) -> Order:
    """The same order, in chunks for a node with these ranks; `sample_bytes`: on average.

    In the data's own order nodes take turns, each with its run of every global batch. A chunk is
    then one such run, or an equal part of it that is not larger than the order's chunks: memory
    is for what the node takes, and so are requests. Of small runs it has several, with what lies
    between, which is not read. Where that is less than a request costs, it is read along, in the
    order's chunks."""
    if order.shuffle:
        return order
    run = max(end - first for first, end in batches.shares(0, ranks))
    if (batches.global_batch_size - run) * sample_bytes <= ALONG:
        return order
    runs = math.ceil(LEAST / max(run * sample_bytes, 1))
    if runs > 1:
        chunk_samples = min(runs * batches.global_batch_size, order.chunk_samples)
    else:
        chunk_samples = math.ceil(run / math.ceil(run / order.chunk_samples))
    return replace(order, chunk_samples=chunk_samples)
