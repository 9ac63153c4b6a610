"""Which shard each position of the epoch draws from: the bijection of positions and places.

A *place* counts the samples of the permuted chunks, one chunk after the other. A shard is a run of
whole permuted chunks, and so of places. Positions go round robin over the shards, in digit-reversed
order: with S = r1 x r2 x ... shards (prime factors, largest first) the shard of ordinal i = d1 + r1
(d2 + r2 (d3 + ...)) is d1 S/r1 + d2 S/(r1 r2) + .... Turns that are near each other are far apart
in shards.

Of shards in K = r1 x ... x rj groups of S/K neighbours, the group is given by d1 ... dj, so by i
mod K, and, as K divides S, by position mod K. B consecutive positions have each remainder B/K times
if K divides B. So, as long as no shard has ended, each group gives exactly B/K samples to any batch
of B. A node that takes 1/K of each batch, sorted by place, then reads one group and no chunk of
another.
"""

from __future__ import annotations

import numpy as np

from horovod_opt.io.order.chunks import Chunks


def prime_factors(number: int) -> list[int]:
    """Largest first."""
    factors, factor = [], 2
    while factor * factor <= number:
        while number % factor == 0:
            factors.append(factor)
            number //= factor
        factor += 1
    return ([number] if number > 1 else []) + factors[::-1]


def reverse_digits(shards: int) -> np.ndarray:
    """The shard of each ordinal, as int64[shards]."""
    order, stride = np.zeros(1, np.int64), shards
    for radix in prime_factors(shards):
        stride //= radix
        order = (np.arange(radix)[:, np.newaxis] * stride + order).reshape(-1)
    return order


class Shards:
    """Positions to places and back, int64[k] each.

    The chunks of the epoch are divided among `count` shards; where they do not divide evenly, the
    first ones in turn get one more. When shards of unequal length end, the round robin goes on over
    those that are left, in the same order."""

    def __init__(self, chunks: Chunks, count: int) -> None:
        shard_of_ordinal = reverse_digits(count)
        self.ordinal_of_shard = np.argsort(shard_of_ordinal)
        quotient, longer = divmod(chunks.count, count)
        counts = quotient + (self.ordinal_of_shard < longer)
        self.first_chunk = np.concatenate([[0], np.cumsum(counts)])
        self.count = count
        self.first_place = chunks.first_place(self.first_chunk)
        lengths = np.diff(self.first_place)
        # In stage i, rows rows[i] to rows[i + 1] of the shards that are longer than rows[i].
        self.rows = np.concatenate([[0], np.unique(lengths)])
        longer_than = lengths[shard_of_ordinal] > self.rows[:-1, np.newaxis]
        self.width = longer_than.sum(axis=1)
        self.start = np.concatenate([[0], np.cumsum(np.diff(self.rows) * self.width)])
        self._shard = np.zeros(longer_than.shape, np.int64)
        self.ordinal = np.full(longer_than.shape, -1)  # -1: has ended
        for stage, is_longer in enumerate(longer_than):
            shards = shard_of_ordinal[is_longer]
            self._shard[stage, :len(shards)] = shards
            self.ordinal[stage, shards] = np.arange(len(shards))

    def shard_of_chunk(self, ordinals: np.ndarray) -> np.ndarray:
        """The shard of the chunks that come at `ordinals` in the permuted order."""
        return np.searchsorted(self.first_chunk, ordinals, side="right") - 1

    def place_of(self, positions: np.ndarray) -> np.ndarray:
        stage = _scalar_if_equal(np.searchsorted(self.start, positions, side="right") - 1)
        row, ordinal = np.divmod(positions - self.start[stage], self.width[stage])
        return self.first_place[self._shard[stage, ordinal]] + self.rows[stage] + row

    def position_of(self, places: np.ndarray) -> np.ndarray:
        shard = np.searchsorted(self.first_place, places, side="right") - 1
        row = places - self.first_place[shard]
        stage = _scalar_if_equal(np.searchsorted(self.rows, row, side="right") - 1)
        return (self.start[stage] + (row - self.rows[stage]) * self.width[stage]
                + self.ordinal[stage, shard])


def _scalar_if_equal(values: np.ndarray) -> np.ndarray:
    """Dividing by one number is several times faster than by as many equal ones."""
    return values[0] if len(values) and values.min() == values.max() else values
