"""How much memory a node's reader needs in any epoch, without looking at samples.

Which chunks share a window differs from epoch to epoch. When windows begin and end does not, except
for one thing: the chunk that is short may be anywhere. It moves what comes behind it in its shard
forward by the samples that it lacks, and ends its shard that much earlier. So this takes for each
window the earliest begin and the latest end, the number of chunks that are live at once at the
worst step, and as many of the largest chunks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np

from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.node_shards import (
    first_irregular_step,
    shards_at_the_end,
    shards_before,
    whole_rows,
)
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.schedule import peak_bytes, schedule


def enough_for_any_epoch(order: Order, batches: Batches, ranks: Sequence[int],
                         chunk_bytes: np.ndarray) -> int:
    """Bytes that `needed` of no epoch exceeds, for a node with these ranks; `chunk_bytes`:
    int64[chunks].

    Not the least such number: all chunks of a window count from the begin of the window to its
    end."""
    live = most_live_chunks(order, batches, ranks)
    sizes = np.asarray(chunk_bytes, np.int64)
    return int(np.sort(sizes)[len(sizes) - live:].sum())


def enough_for(order: Order, batches: Sequence[Batches], ranks: Sequence[int],
               chunk_bytes: np.ndarray, epochs: Optional[Sequence[int]],
               memory: Optional[int]) -> int:
    """Bytes that suffice for a node with these ranks, in these epochs (None: in any), each cut
    as each of `batches`.

    Where `memory` is less than that, and the epochs can be gone through, because they are few or
    all alike, it is what they really need."""
    enough = max(enough_for_any_epoch(order, cut, ranks, chunk_bytes) for cut in batches)
    if memory is None or memory >= enough or epochs is None and order.shuffle:
        return enough
    return max(peak_bytes(schedule(order, cut, epoch, ranks), chunk_bytes)
               for cut in batches for epoch in (epochs if order.shuffle else (0,)))


def most_live_chunks(order: Order, batches: Batches, ranks: Sequence[int]) -> int:
    """At most so many chunks does a node with these ranks need at once, in any epoch."""
    if not batches.steps:
        return 0
    ordinal, chunks, first, last = _windows(order)
    is_used = (last >= batches.start) & (first < batches.end)
    ordinal, chunks = ordinal[is_used], chunks[is_used]
    begin, end = (batches.step_of(np.clip(positions[is_used], batches.start, batches.end - 1))
                  for positions in (first, last))
    before = shards_before(order, batches, ranks)[ordinal]
    at_the_end = shards_at_the_end(order, batches, ranks)[ordinal] & ~before
    irregular = first_irregular_step(order, batches)
    live = _live_chunks(begin, end, chunks * before, batches.steps)
    # Of what it reads only at the end it needs no more chunks than it takes samples there.
    live += np.minimum(
        _live_chunks(np.maximum(begin, irregular), end, chunks * at_the_end, batches.steps),
        _samples_from(batches, irregular, ranks))
    return int(min(live.max(), order.chunks))


def _live_chunks(begin: np.ndarray, end: np.ndarray, chunks: np.ndarray, steps: int) -> np.ndarray:
    """In each step: of windows that are needed from step `begin` to step `end`."""
    change = np.zeros(steps + 1, np.int64)
    counts = begin <= end
    np.add.at(change, begin[counts], chunks[counts])
    np.subtract.at(change, end[counts] + 1, chunks[counts])
    return np.cumsum(change)[:-1]


def _samples_from(batches: Batches, step: int, ranks: Sequence[int]) -> int:
    """What these ranks take in this step and all that follow: all but the last two are of one
    size."""
    step = max(step, 0)
    alike = max(batches.steps - 2 - step, 0)
    return sum(batches.size(step, rank) * alike + sum(
        batches.size(last, rank) for last in range(step + alike, batches.steps)) for rank in ranks)


def _windows(order: Order) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Of all windows: ordinal of the shard, number of chunks, earliest first and latest last
    position."""
    quotient, longer = divmod(order.chunks, order.shards)
    ordinals = np.arange(order.shards)
    chunks = quotient + (ordinals < longer)
    head = chunks if order.has_whole_shards else (
        np.minimum(1 + ordinals * order.window // order.shards, chunks))
    more = -(-(chunks - head) // order.window)
    ordinal = np.repeat(ordinals, 1 + more)
    number = np.arange(len(ordinal)) - np.repeat(np.cumsum(1 + more) - 1 - more, 1 + more)
    begin = np.where(number == 0, 0, head[ordinal] + (number - 1) * order.window)
    end = np.where(number == 0, head[ordinal], np.minimum(begin + order.window, chunks[ordinal]))
    missing = order.chunks * order.chunk_samples - order.samples
    first = _earliest(order, np.maximum(begin * order.chunk_samples - missing, 0))
    last = (end * order.chunk_samples - 1) * order.shards + ordinal
    return ordinal, end - begin, first, np.minimum(last, order.samples - 1)


def _earliest(order: Order, rows: np.ndarray) -> np.ndarray:
    """The earliest position at which a shard can give its sample number `rows`: each row before it
    takes one position of each shard that has not ended."""
    quotient, longer = divmod(order.chunks, order.shards)
    whole = whole_rows(order)
    all_but_one = quotient * order.chunk_samples
    return (np.minimum(rows, whole) * order.shards
            + np.clip(rows - whole, 0, all_but_one - whole) * max(order.shards - 1, 1)
            + np.maximum(rows - all_but_one, 0) * max(longer - 1, 1))
