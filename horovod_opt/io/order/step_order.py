"""An epoch's order for many steps at once, in C++ (csrc/io/step_order.cc): the same as position by
position, several times faster."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from horovod_opt.io.reader import native

if TYPE_CHECKING:
    from horovod_opt.io.order.batches import Batches
    from horovod_opt.io.order.order import Epoch


class StepOrder:
    """Of one epoch. Steps `begin` to `end` - 1 of `batches` are of one size."""

    def __init__(self, epoch: Epoch) -> None:
        self._lib = native.library()
        chunks, shards, windows = epoch.chunks, epoch.shards, epoch.windows
        self._arrays = tuple(np.ascontiguousarray(each, np.int64) for each in (
            shards.first_chunk, shards.first_place, windows.first_size, shards.start, shards.rows,
            shards.width, shards.turn))  # they must stay
        keys = [[int(part[0]) for part in key] if key else [0, 0]
                for key in (chunks.key, windows.key)]
        self._order = native.Order(
            chunks.count, chunks.size, chunks.short, chunks.missing, shards.count,
            len(shards.width), windows.window, bool(windows.key),
            *((ctypes.c_uint64 * 2)(*key) for key in keys),
            *(each.ctypes.data for each in self._arrays))

    def take(self, batches: Batches, begin: int, end: int, rank: int
             ) -> tuple[np.ndarray, np.ndarray]:
        """The rank's positions and samples in the steps, each step's sorted by place: int64[k]."""
        first, stop = batches.share(begin, rank)
        positions, samples = np.empty((2, (stop - first) * (end - begin)), np.int64)
        self._checked(self._lib.hio_order_take(
            ctypes.byref(self._order), *_range(batches, begin, end), first, stop,
            positions.ctypes.data, samples.ctypes.data))
        return positions, samples

    def mark(self, batches: Batches, begin: int, end: int, ranks: Sequence[int],
             first: np.ndarray, last: np.ndarray) -> None:
        """Lowers `first` and raises `last` (int64[chunks], by turn) to the steps in which one of
        the ranks takes a sample of the chunk."""
        for share in _joined([batches.share(begin, rank) for rank in ranks]):
            self._checked(self._lib.hio_order_mark(
                ctypes.byref(self._order), *_range(batches, begin, end), *share, begin,
                first.ctypes.data, last.ctypes.data))

    def _checked(self, code: int) -> None:
        if code != native.OK:
            raise ValueError(self._lib.hio_error().decode())


def _range(batches: Batches, begin: int, end: int) -> tuple[int, int, int]:
    first, behind = batches.bounds(begin)
    return first, behind - first, end - begin


def _joined(shares: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The shares of ranks that follow each other as one."""
    joined: list[tuple[int, int]] = []
    for first, end in sorted(shares):
        if joined and joined[-1][1] == first:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((first, end))
    return joined
