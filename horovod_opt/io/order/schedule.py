"""When a node needs which chunk, and which samples of it: the sequence of loads of its reader; and
what each rank takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Optional

import numpy as np

from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.order import Epoch, Order

PIECE = 1 << 18  # positions that are looked at together


class Take(NamedTuple):
    """What a rank takes in steps, int64[k] each."""

    positions: np.ndarray
    samples: np.ndarray


class Loads(NamedTuple):
    """Chunks, by their numbers in the data set, that a node needs from step `first` to step `last`;
    sorted by (first, chunk). int64[k] each; steps count from the start of the batches.

    `mask`, bool[n], has for the samples of these chunks, one chunk after the other, whether the
    node takes them. None: it takes all of them, or that was not asked for."""

    chunk: np.ndarray
    first: np.ndarray
    last: np.ndarray
    mask: Optional[np.ndarray] = None


def take_steps(order: Order, batches: Batches, epoch: int, begin: int, end: int,
               group: Sequence[int], rank: int) -> Take:
    """What the rank is dealt of the global batches of the steps `begin` to `end` - 1, which are of
    one size, one after the other. `group`: the ranks of its node."""
    return Take(*order.epoch(epoch).steps.take(batches, begin, end, group, rank))


def next_piece(batches: Batches, begin: int, positions: Optional[int] = None) -> int:
    """The end of a piece of the epoch that begins with step `begin`: steps of one size with about
    so many positions (None: PIECE), at least one step; or one step that is of another size."""
    regular = max(0, batches.steps - 2)
    if begin >= regular:
        return begin + 1
    return min(regular, begin + max(1, (positions or PIECE) // batches.global_batch_size))


def schedule(order: Order, batches: Batches, epoch: int, ranks: Sequence[int]) -> Loads:
    """All loads of a node with these ranks."""
    return join_loads(schedule_in_pieces(order, batches, epoch, ranks))


def join_loads(pieces: Iterable[Loads]) -> Loads:
    """Pieces as one, which says nothing of `mask`."""
    nothing = Loads(*np.zeros((3, 0), np.int64))
    return Loads(*map(np.concatenate, zip(*(piece[:3] for piece in (nothing, *pieces)))))


def schedule_in_pieces(order: Order, batches: Batches, epoch: int, ranks: Sequence[int],
                       with_masks: bool = False, dealt: Sequence[int] = ()) -> Iterator[Loads]:
    """The same in pieces, each as soon as its loads' last steps are known: when their windows have
    ended. With `with_masks` pieces have `mask`. `dealt`: the ranks that samples of a step are dealt
    to, where those are more than `ranks`: the node then needs what it is dealt of all windows, and
    there may be loads of which it is dealt nothing."""
    epoch_order = order.epoch(epoch)
    first = np.full(order.chunks, batches.steps)
    last = np.full(order.chunks, -1)
    counts = np.zeros(order.chunks, np.int64)
    is_scheduled = np.zeros(order.chunks, bool)
    ends = _last_steps(epoch_order, batches)
    begin = 0
    while begin < batches.steps:
        end = next_piece(batches, begin)
        epoch_order.steps.mark(batches, begin, end, max(ranks, dealt, key=len), first, last, counts)
        # The first one that may be needed again holds up those that come behind it.
        pending = np.flatnonzero((last >= 0) & ~is_scheduled)
        held_up = first[pending[ends[pending] >= end]].min(initial=batches.steps)
        ready = pending[first[pending] < held_up]
        is_scheduled[ready] = True
        if len(ready):
            chunk = epoch_order.chunks.chunk_at(ready)
            sequence = np.lexsort((chunk, first[ready]))
            ready = ready[sequence]
            loads = Loads(chunk[sequence], first[ready], last[ready])
            if with_masks and len(dealt) > len(ranks):
                loads = loads._replace(mask=_find_dealt(epoch_order, batches, ranks, dealt, loads))
            elif with_masks:
                loads = loads._replace(mask=_make_mask(epoch_order, batches, ranks, ready, counts))
            yield loads
        begin = end


def _make_mask(epoch_order: Epoch, batches: Batches, ranks: Sequence[int], ordinals: np.ndarray,
                counts: np.ndarray) -> Optional[np.ndarray]:
    """Loads.taken of the chunks that come at `ordinals`; `counts`: of StepOrder.mark(). Only
    windows of which the node takes a part are looked at sample by sample."""
    starts, ends = epoch_order.windows.chunks(ordinals)
    place = epoch_order.chunks.first_place
    is_shared = counts[starts] < place(ends) - place(starts)
    if not is_shared.any():
        return None
    windows, which = np.unique(starts[is_shared], return_index=True)
    first, behind = place(windows), place(ends[is_shared][which])
    edges = epoch_order.shards.position_of(np.concatenate([first, behind - 1]))
    steps = batches.step_of(np.clip(edges, batches.start, batches.end - 1))
    offset = np.cumsum(behind - first) - (behind - first)  # of each window in `found`
    is_taken = np.zeros((behind - first).sum(), bool)
    begin, last = int(steps.min()), int(steps.max())
    while begin <= last:
        end = min(next_piece(batches, begin), last + 1)
        epoch_order.steps.find(batches, begin, end, ranks, windows, offset, is_taken)
        begin = end
    samples = place(ordinals + 1) - place(ordinals)
    mask = np.ones(samples.sum(), bool)
    from_window = (offset - first)[np.searchsorted(windows, starts[is_shared])]
    for end, count, begin in zip(np.cumsum(samples)[is_shared], samples[is_shared],
                                 from_window + place(ordinals[is_shared])):
        mask[end - count:end] = is_taken[begin:begin + count]
    return None if mask.all() else mask


def _find_dealt(epoch_order: Epoch, batches: Batches, ranks: Sequence[int], dealt: Sequence[int],
                loads: Loads) -> np.ndarray:
    """Loads.mask, of what these ranks get where samples are dealt among `dealt`."""
    chunks = epoch_order.chunks
    by_number = np.argsort(loads.chunk)
    numbers = loads.chunk[by_number]
    samples = chunks.size - chunks.missing * (loads.chunk == chunks.count - 1)
    offsets = (np.cumsum(samples) - samples)[by_number]
    mask = np.zeros(samples.sum(), bool)
    begin, last = int(loads.first.min()), int(loads.last.max())
    while begin <= last:
        end = min(next_piece(batches, begin), last + 1)
        for rank in ranks:
            taken = epoch_order.steps.take(batches, begin, end, dealt, rank)[1]
            chunk, within = np.divmod(taken, chunks.size)
            row = np.minimum(np.searchsorted(numbers, chunk), len(numbers) - 1)
            is_here = numbers[row] == chunk
            mask[offsets[row[is_here]] + within[is_here]] = True
        begin = end
    return mask


def peak_bytes(loads: Loads, chunk_bytes: np.ndarray) -> int:
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


def _last_steps(epoch_order: Epoch, batches: Batches) -> np.ndarray:
    """For the chunk of each ordinal: the step in which its window ends."""
    end = epoch_order.windows.chunks(np.arange(epoch_order.chunks.count))[1]
    positions = epoch_order.shards.position_of(epoch_order.chunks.first_place(end) - 1)
    return batches.step_of(np.clip(positions, batches.start, batches.end - 1))
