"""How a node's reader cuts data that is not shuffled. That changes no order: only what is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.order import Order
from horovod_opt.io.reader.layout import ALONG


def as_read(order: Order, batches: Batches, ranks: Sequence[int], sample_bytes: float) -> Order:
    """The same order, in chunks for a node with these ranks; `sample_bytes`: on average.

    In the data's own order nodes take turns, each with its run of every global batch. A chunk is
    then one such run, or an equal part of it that is not larger than the order's chunks: memory
    is for what the node takes, and so are requests. Where what lies between two runs is less than
    a request costs, it is read along, in the order's chunks."""
    if order.shuffle:
        return order
    run = max(end - first for first, end in batches.shares(0, ranks))
    if (batches.global_batch_size - run) * sample_bytes <= ALONG:
        return order
    parts = -(-run // order.chunk_samples)
    return replace(order, chunk_samples=-(-run // parts))
