"""Which shards a node's ranks take samples of, in any epoch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.shards import reverse_digits


def whole_rows(order: Order) -> int:
    """Rows of the round robin to which every shard contributes, in any epoch: the shortest shard is
    one that has no extra chunk and the short chunk."""
    missing = order.chunks * order.chunk_samples - order.samples
    return order.chunks // order.shards * order.chunk_samples - missing


def first_irregular_step(order: Order, batches: Batches) -> int:
    """From here on some shard may have ended, or the batch is of another size."""
    position = np.clip(whole_rows(order) * order.shards, batches.start, batches.end - 1)
    return min(int(batches.step_of(position)), batches.steps - 2)


def shards_before(order: Order, batches: Batches, ranks: Sequence[int]) -> np.ndarray:
    """Of which shards, by ordinal, the node takes samples before that step; bool[shards]. Exact:
    the ordinals at which batches begin are few, as they repeat after at most as many steps as
    shards."""
    size, shards = batches.global_batch_size, order.shards
    shard_of_ordinal = reverse_digits(shards)
    ordinal_of_shard = np.argsort(shard_of_ordinal)
    is_read = np.zeros(shards, bool)
    quotient, more = divmod(size, shards)
    starts = (batches.start + np.arange(min(shards, batches.steps)) * size) % shards
    for start in np.unique(starts):
        count = quotient + ((ordinal_of_shard - start) % shards < more)
        end = np.cumsum(count)
        for rank in ranks:
            first, stop = batches.share_of(size, rank)
            is_read |= (end > first) & (end - count < stop)
    return is_read[shard_of_ordinal]


def shards_at_the_end(order: Order, batches: Batches, ranks: Sequence[int]) -> np.ndarray:
    """The same from that step on, as an upper bound.

    A batch is a run of the round robin over all shards, then one over those with an extra chunk;
    in one of both a shard, which has the short chunk, may be missing. Of a run of n positions, the
    shards below s give n x their part of all shards, up to a deviation that the order of ordinals
    sets; the missing shard moves that by as often as it would have come."""
    shard_of_ordinal = reverse_digits(order.shards)
    longer = order.chunks % order.shards
    parts, deviations = zip(*(_below(shard_of_ordinal[:count], order.shards)
                              for count in {order.shards, longer or order.shards}))
    least, most = np.minimum.reduce(parts), np.maximum.reduce(parts)
    deviation = np.sum(deviations, axis=0)
    others = (longer if longer > 1 else order.shards) - 1
    is_read = np.zeros(order.shards, bool)
    for size in {batches.global_batch_size, *map(_size, map(batches.bounds, _last_two(batches)))}:
        slack = deviation + (size // others + 1 if others else 0)
        for rank in ranks:
            first, stop = batches.share_of(size, rank)
            is_read |= ((most * size + slack)[1:] > first) & ((least * size - slack)[:-1] < stop)
    return is_read[shard_of_ordinal]


def _below(shard_of_ordinal: np.ndarray, shards: int) -> tuple[np.ndarray, np.ndarray]:
    """For each s from 0 to `shards`: (what part of these ordinals is of shards below s; by how many
    positions a run in the cycle of these ordinals may deviate from that)."""
    ordinals = np.arange(len(shard_of_ordinal) + 1)
    part, deviation = np.zeros(shards + 1), np.zeros(shards + 1)
    for s in range(shards + 1):
        below = np.concatenate([[0], np.cumsum(shard_of_ordinal < s)])
        part[s] = below[-1] / len(shard_of_ordinal)
        ahead = below - ordinals * part[s]
        deviation[s] = ahead.max() - ahead.min()
    return part, deviation


def _last_two(batches: Batches) -> range:
    return range(max(0, batches.steps - 2), batches.steps)


def _size(bounds: tuple[int, int]) -> int:
    return bounds[1] - bounds[0]
