"""How a node's reader cuts data that is not shuffled. That changes no order: only what is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from horovod_opt.io.node_reader.layout import ALONG
from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.order import Order

LEAST = 64 * 1024  # bytes of the node in a chunk: each chunk costs something, read or not


def as_read(order: Order, batches: Batches, ranks: Sequence[int], sample_bytes: float) -> Order:
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
        each = min(runs * batches.global_batch_size, order.chunk_samples)
    else:
        each = math.ceil(run / math.ceil(run / order.chunk_samples))
    return replace(order, chunk_samples=each)
