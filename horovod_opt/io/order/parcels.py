"""How an epoch's steps are cut into parcels: what a rank takes in a few steps.

In a complete shuffle a chunk is needed from the first step to the last. Where memory does not hold
them all, a node reads parcels instead: for each rank its samples, in the order in which it takes
them.

Invariants:
  (1) a parcel has whole steps, and each step is of one parcel. So what is needed at once is one
      parcel of each rank, whatever the order is;
  (2) where parcels begin and end follows from the batches alone, and what is in them from the
      order: a node's reader and its ranks find the same, from whichever step on they look;
  (3) a parcel has a mark that follows from its samples and their sequence. Who is at another place
      in the data finds another mark, and takes nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from horovod_opt.io.order.batches import Batches

BYTES = 1 << 20  # at least, on average: less is not worth a round trip to each of many nodes
_MIX, _LARGEST = 0x1E3779B97F4A7C15, 2**63 - 1


class ParcelPlaces(NamedTuple):
    """Of a rank's samples: the number of the parcel that each is in, int64[k], counted from the
    first of them; where its parts lie in it, in bytes, int64[k, P]; and the parcel's mark,
    int64[k]."""

    number: np.ndarray
    place: np.ndarray
    mark: np.ndarray


class Parcels(NamedTuple):
    """Of so many `steps` each, but for the last two steps, which may be of other sizes and are
    parcels of their own."""

    batches: Batches
    steps: int

    @classmethod
    def of(cls, batches: Batches, sample_bytes: float) -> Parcels:
        """With so many steps that a rank takes BYTES, where samples have `sample_bytes` on
        average."""
        a_step = batches.global_batch_size / batches.ranks * sample_bytes
        return cls(batches, max(1, math.ceil(BYTES / max(a_step, 1))))

    @property
    def _alike(self) -> int:
        return max(0, self.batches.steps - 2)

    def begin_of(self, step: int) -> int:
        """The first step of the parcel with this step."""
        return step if step >= self._alike else step - step % self.steps

    def end_of(self, begin: int, positions: int) -> int:
        """Behind `begin`, the first step of a parcel, parcels whose steps are of one size end at
        this one: with about so many positions, at least one parcel."""
        if begin >= self._alike:
            return begin + 1
        whole = max(1, positions // (self.steps * self.batches.global_batch_size))
        return min(self._alike, begin + whole * self.steps)

    def number_of(self, step: int) -> int:
        """How many parcels begin before this step, the first one of a parcel."""
        alike = self._alike
        if step < alike:
            return step // self.steps
        return math.ceil(alike / self.steps) + step - alike

    def begins(self, begin: int, end: int) -> np.ndarray:
        """The first steps of the parcels that the steps `begin` to `end` - 1 are, int64[k]."""
        return np.arange(begin, end, self.steps if begin < self._alike else 1)

    def most_samples(self, ranks: tuple[int, ...]) -> int:
        """That these ranks take together in one parcel of each."""
        begins = {0, *range(self._alike, self.batches.steps)} if self.batches.steps else ()
        return max((sum(self.batches.size(begin, rank) for rank in ranks)
                    * min(self.end_of(begin, 1) - begin, self.steps) for begin in begins),
                   default=0)

    def places(self, begin: int, end: int, samples: np.ndarray, size: np.ndarray) -> ParcelPlaces:
        """`samples` (int64[k], with parts of `size` bytes, int64[k, P]) are what a rank takes in
        the steps `begin` to `end` - 1, which are whole parcels and of one size. In a parcel they
        come in the data's order: what is read from storage is not read back and forth."""
        if not len(samples):
            return ParcelPlaces(samples, np.zeros(size.shape, np.int64), samples)
        per_step = len(samples) // (end - begin)
        per_parcel = per_step * (self.steps if begin < self._alike else 1)
        place = np.arange(len(samples))
        number = place // per_parcel
        first = np.arange(0, len(samples), per_parcel)
        sequence = np.lexsort((samples, number))
        sorted_size = size[sequence]
        before = np.cumsum(sorted_size.reshape(-1)).reshape(size.shape) - sorted_size
        in_parcel = np.empty_like(before)
        in_parcel[sequence] = before - before[first, 0][number][:, np.newaxis]
        in_parcel[size == 0] = 0  # nothing is nowhere
        weight = (place % per_parcel * 2 + 1) * _MIX
        mark = np.add.reduceat((samples + 1) * weight, first) & _LARGEST
        return ParcelPlaces(number, in_parcel, mark[number])
