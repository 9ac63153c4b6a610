"""When a node needs which chunk: the sequence of loads of its reader, and what each rank takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.order import Epoch, Order

PIECE = 1 << 18  # positions that are looked at together


class Take(NamedTuple):
    """What a rank takes in steps, each sorted by place; int64[k] each."""

    positions: np.ndarray
    samples: np.ndarray


class Loads(NamedTuple):
    """Chunks, by their numbers in the data set, that a node needs from step `first` to step `last`;
    sorted by (first, chunk). int64[k] each; steps count from the start of the batches."""

    chunk: np.ndarray
    first: np.ndarray
    last: np.ndarray


def take_steps(order: Order, batches: Batches, epoch: int, begin: int, end: int,
               rank: int) -> Take:
    """The rank's shares of the global batches of the steps `begin` to `end` - 1, which are of one
    size, one after the other."""
    return Take(*order.epoch(epoch).steps.take(batches, begin, end, rank))


def next_piece(batches: Batches, begin: int, positions: int = PIECE) -> int:
    """The end of a piece of the epoch that begins with step `begin`: steps of one size with about
    so many positions, at least one step; or one step that is of another size."""
    regular = max(0, batches.steps - 2)
    if begin >= regular:
        return begin + 1
    return min(regular, begin + max(1, positions // batches.global_batch_size))


def schedule(order: Order, batches: Batches, epoch: int, ranks: Sequence[int]) -> Loads:
    """All loads of a node with these ranks."""
    nothing = Loads(*np.zeros((3, 0), np.int64))
    pieces = [nothing, *schedule_in_pieces(order, batches, epoch, ranks)]
    return Loads(*map(np.concatenate, zip(*pieces)))


def schedule_in_pieces(order: Order, batches: Batches, epoch: int,
                       ranks: Sequence[int]) -> Iterator[Loads]:
    """The same in pieces, each as soon as its loads' last steps are known: when their windows have
    ended."""
    one = order.epoch(epoch)
    first = np.full(order.chunks, batches.steps)
    last = np.full(order.chunks, -1)
    given = np.zeros(order.chunks, bool)
    ends = _last_steps(one, batches)
    begin = 0
    while begin < batches.steps:
        end = next_piece(batches, begin)
        one.steps.mark(batches, begin, end, ranks, first, last)
        # The first one that may be needed again holds up those that come behind it.
        needed = np.flatnonzero((last >= 0) & ~given)
        held_up = first[needed[ends[needed] >= end]].min(initial=batches.steps)
        ready = needed[first[needed] < held_up]
        given[ready] = True
        if len(ready):
            chunk = one.chunks.chunk_at(ready)
            sequence = np.lexsort((chunk, first[ready]))
            yield Loads(chunk[sequence], first[ready][sequence], last[ready][sequence])
        begin = end


def needed(loads: Loads, chunk_bytes: np.ndarray) -> int:
    """Bytes of the chunks that are live at once at the worst step; `chunk_bytes`: int64[chunks]."""
    if not len(loads.chunk):
        return 0
    return int(live_bytes(loads, chunk_bytes).max())


def live_bytes(loads: Loads, chunk_bytes: np.ndarray) -> np.ndarray:
    """Bytes that are live in each step up to the last one of `loads`, as int64[steps]."""
    change = np.zeros(loads.last.max(initial=-1) + 2, np.int64)
    size = np.asarray(chunk_bytes, np.int64)[loads.chunk]
    np.add.at(change, loads.first, size)
    np.subtract.at(change, loads.last + 1, size)
    return np.cumsum(change)[:-1]


def _last_steps(one: Epoch, batches: Batches) -> np.ndarray:
    """For the chunk of each turn: the step in which its window ends."""
    end = one.windows.turns(np.arange(one.chunks.count))[1]
    positions = one.shards.position_of(one.chunks.first_place(end) - 1)
    return batches.step_of(np.clip(positions, batches.start, batches.end - 1))
