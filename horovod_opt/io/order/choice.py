"""Chunks, shards and windows of an order, of which the user may leave any out: from the data's
size, and from the memory that nodes have, the same on all ranks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Optional

import numpy as np

from horovod_opt.io.job.room import Room
from horovod_opt.io.memory_limit import show
from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.memory import enough_for_any_epoch
from horovod_opt.io.order.order import IDENTITY_BYTES, Order
from horovod_opt.io.order.window_size import DEFAULT_BYTES, default_chunk_samples, window_of

# A reader gets this part of what it needs, and at least so much, to read ahead; within a bound at
# least the smaller part.
AHEAD_PART, AHEAD_LEAST, AHEAD_WITHIN = 4, 64 << 20, 8
# Nobody has said yet how large batches are; what is needed hardly depends on it, as long as they
# are small beside windows.
BATCHES, BATCH_BYTES = (64, 37), 16 << 20  # of a rank
# Where all is shuffled together, chunks are what nodes keep and read in the data's order: several
# threads read large ones in turn, and small ones all at once, back and forth.
ONE_WINDOW_CHUNKS = 32  # at least, down to 64 KiB: several nodes share them


class Given(NamedTuple):
    """What the user gave of an order. None: left out."""

    chunk_samples: Optional[int] = None
    shards: Optional[int] = None
    window: Optional[int] = None


class DataSize(NamedTuple):
    """`chunk_bytes` says what each chunk of so many samples takes in memory, int64[chunks]; it may
    guess. `are_files`: each sample is files of its own."""

    samples: int
    bytes: int
    are_files: bool
    chunk_bytes: Callable[[int], np.ndarray]


class Choice(NamedTuple):
    """`note`: what the user should know; "" for nothing."""

    order: Order
    note: str


def with_ahead(need: int) -> int:
    """What a reader gets by default that needs so many bytes."""
    return need + max(need // AHEAD_PART, AHEAD_LEAST)


def choose(data: DataSize, given: Given, room: Room, seed: int = 0,
           identity: bytes = bytes(IDENTITY_BYTES), shuffle: bool = True) -> Choice:
    """Windows hold 1.5 GiB in all nodes together, or what is given for all readers; less where
    that is more than a reader may have, with all that it needs besides. Then, if even windows of
    one chunk are, shards are fewer.

    Raises InputError if a value is not possible.
    """
    def order_of(shards: Optional[int], window: Optional[int]) -> Order:
        chunk_samples = given.chunk_samples
        if chunk_samples is None:
            chunk_samples = default_chunk_samples(data.samples, data.bytes, shards, data.are_files,
                                                  shuffle)
        return Order(data.samples, chunk_samples, shards, window, seed, identity, shuffle)

    if not shuffle or given.window is not None:
        return Choice(order_of(given.shards, given.window), "")
    held = DEFAULT_BYTES if room.memory is None else room.memory * len(room.nodes)

    def largest_window(shards: Optional[int]) -> _Found:
        order = order_of(shards, 1)
        sizes = data.chunk_bytes(order.chunk_samples)
        most = window_of(held, order.chunks, order.shards, sizes.mean())
        window = _largest(lambda size: order_of(shards, size), most, sizes, room)
        return _Found(order_of(shards, max(window, 1)), sizes, most,
                      0 if window else _need(order, sizes, room))

    found = best = largest_window(given.shards)
    shards = best.order.shards
    while best.misses and given.shards is None and shards > len(room.nodes):
        shards //= 2
        best = min(best, largest_window(shards), key=lambda one: one.misses)
    if room.memory is not None or best.order.window * best.order.shards >= (
            found.most * found.order.shards):
        return Choice(best.order, "")
    return Choice(best.order, (
        f"a process may use {show(room.limit or 0)} (control group or machine), so samples are "
        f"shuffled in windows of {show(_held(best.order, best.sizes))} in all nodes together, "
        f"which could be {show(_held(found.order_of_most, found.sizes))}; remedy: memory= for "
        "more, or a higher limit"))


def one_window(data: DataSize, chunk_samples: Optional[int] = None, seed: int = 0,
               identity: bytes = bytes(IDENTITY_BYTES)) -> Order:
    """All of the data: any permutation of its samples, whatever memory there is."""
    if chunk_samples is None:
        chunk_samples = default_chunk_samples(data.samples, data.bytes, 1, data.are_files,
                                              few_chunks=ONE_WINDOW_CHUNKS)
    order = Order(data.samples, chunk_samples, 1, 1, seed, identity)
    return replace(order, window=order.chunks)


class _Found(NamedTuple):
    """`misses`: what a reader needs, if it is too much. `most`: the window that was wanted."""

    order: Order
    sizes: np.ndarray
    most: int
    misses: int

    @property
    def order_of_most(self) -> Order:
        return replace(self.order, window=self.most)


def _held(order: Order, sizes: np.ndarray) -> int:
    return int(min(order.window * order.shards, order.chunks) * sizes.mean())


def _largest(order_of: Callable[[int], Order], most: int, sizes: np.ndarray, room: Room) -> int:
    """The largest window up to `most` with which readers have enough; 0: none."""
    if _fits(order_of(most), sizes, room):
        return most
    least, most = 0, most - 1
    while least < most:
        middle = (least + most + 1) // 2
        if _fits(order_of(middle), sizes, room):
            least = middle
        else:
            most = middle - 1
    return least


def _need(order: Order, sizes: np.ndarray, room: Room) -> int:
    """Bytes, of the node that needs the most."""
    a_sample = max(int(sizes.sum()) // order.samples, 1)
    batches = {max(1, min(size, BATCH_BYTES // a_sample)) for size in BATCHES}
    return max(enough_for_any_epoch(order, Batches(order, room.ranks, size), node, sizes)
               for size in batches for node in room.some_nodes)


def _fits(order: Order, sizes: np.ndarray, room: Room) -> bool:
    """What one node shuffles whole is all read at once, and nothing ahead."""
    if room.most is None or room.ranks > order.samples:
        return True
    need = _need(order, sizes, room)
    is_all = order.has_whole_shards and len(room.nodes) == 1
    return need + (0 if is_all else need // AHEAD_WITHIN) <= room.most
