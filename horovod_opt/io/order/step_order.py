"""An epoch's order for many steps at once, in C++ (csrc/io/order/step_order.cc): the same as
position by position, several times faster."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from horovod_opt.io import native, native_table
from horovod_opt.io.native_table import Code
from horovod_opt.io.order.dealing import hand_of

if TYPE_CHECKING:
    from horovod_opt.io.order.batches import Batches
    from horovod_opt.io.order.order import Epoch


class StepOrder:
    """Of one epoch. Steps `begin` to `end` - 1 of `batches` are of one size."""

    def __init__(self, epoch: Epoch) -> None:
        self._lib = native.library()
        chunks, shards, windows = epoch.chunks, epoch.shards, epoch.windows
        self._arrays = tuple(np.ascontiguousarray(array, np.int64) for array in (
            shards.first_chunk, shards.first_place, windows.first_size, shards.start, shards.rows,
            shards.width, shards.ordinal))  # they must stay
        keys = [[int(part[0]) for part in key] if key else [0, 0]
                for key in (chunks.key, windows.key, epoch.deal_key)]
        self._order = native_table.Order(
            chunks.count, chunks.size, chunks.short, chunks.missing, shards.count,
            len(shards.width), windows.window, bool(windows.key), bool(epoch.deal_key),
            *((ctypes.c_uint64 * 2)(*key) for key in keys),
            *(array.ctypes.data for array in self._arrays))

    def take(self, batches: Batches, begin: int, end: int, group: Sequence[int], rank: int
             ) -> tuple[np.ndarray, np.ndarray]:
        """The positions and samples that the rank is dealt in the steps, as one of `group`, in its
        turns: int64[k]. Where nothing is dealt, each step's sorted by place."""
        hand = hand_of(batches, begin, group, rank)
        firsts, ends = np.ascontiguousarray(hand.runs.T)
        positions, samples = np.empty((2, batches.size(begin, rank) * (end - begin)), np.int64)
        self._check(self._lib.hio_order_take(
            self._order, *_range(batches, begin, end), len(firsts), firsts.ctypes.data,
            ends.ctypes.data, hand.ranks, hand.index, positions.ctypes.data, samples.ctypes.data))
        return positions, samples

    def mark(self, batches: Batches, begin: int, end: int, ranks: Sequence[int],
             first: np.ndarray, last: np.ndarray, counts: np.ndarray) -> None:
        """Lowers `first` and raises `last` (int64[chunks], by ordinal) to the steps in which one of
        the ranks takes a sample of the chunk. Adds to `counts` (the same), in the place of the
        first chunk of each window, how many of the window's samples they take."""
        for share in batches.shares(begin, ranks):
            self._check(self._lib.hio_order_mark(
                self._order, *_range(batches, begin, end), *share, begin,
                first.ctypes.data, last.ctypes.data, counts.ctypes.data))

    def find(self, batches: Batches, begin: int, end: int, ranks: Sequence[int],
             ordinals: np.ndarray, begins: np.ndarray, mask: np.ndarray) -> None:
        """Of windows whose first chunks come at `ordinals` (int64[k], ascending): sets what the
        ranks take of their samples in `mask` (bool[n]). Those of window i are there from
        begins[i] (int64[k]) on, chunk after chunk, each in the data's order."""
        for share in batches.shares(begin, ranks):
            self._check(self._lib.hio_order_find(
                self._order, *_range(batches, begin, end), *share, len(ordinals),
                ordinals.ctypes.data, begins.ctypes.data, mask.ctypes.data))

    def _check(self, code: int) -> None:
        if code != Code.OK:
            raise ValueError(native.error())


def _range(batches: Batches, begin: int, end: int) -> tuple[int, int, int]:
    first, behind = batches.bounds(begin)
    return first, behind - first, end - begin
