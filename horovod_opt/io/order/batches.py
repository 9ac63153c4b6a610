"""How an epoch's positions are cut into steps, and each step's global batch into the ranks'
shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Optional

import numpy as np

from horovod_opt.io.errors import InputError, require_one_of, tell
from horovod_opt.io.order.order import Order

LAST = ("spread", "drop", "mask")


class Batches:
    """Equally many steps on every rank, from position `start` to the end of the epoch.

    A step's global batch is a run of positions. Its samples, sorted by place (shards.py), are cut
    into one share for each rank, rank 0's first; shares differ by at most one sample, the first
    ranks have more. A node takes the shares of its ranks, and deals them out (dealing.py).

    `batch_size` is a rank's, `global_batch_size` that of all; one of them is given. `last` says
    what becomes of the remainder of an epoch that they do not divide:
      - "spread": the last two batches share it, sizes differ by at most 1. It joins the last batch
        where a rank would get no sample, which is possible only with fewer than 2 samples a rank.
      - "drop": it is left out.
      - "mask": the last batch has it, with shares that count as full: `capacity` less `size` are
        missing.

    An epoch that is resumed with fewer samples left than ranks has one step, in which the last
    ranks get none. Attributes: samples, ranks, global_batch_size, last, start, `steps`, `end`
    (position).

    Raises:
        InputError: an argument is not possible; there are fewer samples than ranks, or none in any
        batch.
    """

    def __init__(self, order: Order, ranks: int, batch_size: Optional[int] = None,
                 global_batch_size: Optional[int] = None, last: str = "spread",
                 start: int = 0) -> None:
        at_least_1("ranks", ranks)
        if (batch_size is None) == (global_batch_size is None):
            raise InputError(f"batch_size={batch_size} and global_batch_size={global_batch_size}; "
                             "remedy: give one of them")
        if batch_size is not None:
            at_least_1("batch_size", batch_size)
            global_batch_size = int(batch_size) * ranks
        at_least_1("global_batch_size", global_batch_size)
        global_batch_size = int(global_batch_size)
        if global_batch_size < ranks:
            raise InputError(f"global_batch_size={global_batch_size} leaves some of {ranks} ranks "
                             "without a sample; remedy: give at least the number of ranks")
        require_one_of("last", last, LAST)
        if order.samples < ranks:
            raise InputError(f"the data set has {order.samples} samples for {ranks} ranks; remedy: "
                             f"start at most {order.samples} ranks")
        if not 0 <= start <= order.samples:
            raise InputError(f"start={start} is not a position of an epoch of {order.samples} "
                             "samples; remedy: give one from 0 to their number")
        if last == "drop" and order.samples < global_batch_size:
            raise InputError(f"last='drop' leaves no batch: {order.samples} samples, "
                             f"global_batch_size={global_batch_size}; remedy: give a smaller batch "
                             "or another last")
        self.samples, self.ranks, self.last, self.start = order.samples, ranks, last, start
        self.global_batch_size = global_batch_size
        self.steps, self._last_start, self.end = self._cut(order.samples - start)

    def _cut(self, remaining: int) -> tuple[int, int, int]:
        """(steps, position at which the last one starts, position at which it ends)"""
        whole, remainder = divmod(remaining, self.global_batch_size)
        begin = self.start + (whole - 1) * self.global_batch_size  # of the last whole batch
        if self.last == "drop":
            return whole, begin, begin + self.global_batch_size
        if not remainder:
            return whole, begin, self.samples
        if self.last == "mask" or not whole:
            return whole + 1, self.samples - remainder, self.samples
        half = (self.global_batch_size + remainder) // 2
        if half < self.ranks:
            return whole, begin, self.samples
        return whole + 1, self.samples - half, self.samples

    def bounds(self, step: int) -> tuple[int, int]:
        """(first position, position after the last) of the global batch of `step`, 0 <= step <
        steps."""
        if not 0 <= step < self.steps:
            raise InputError(f"step={step} is not one of the {self.steps} steps from position "
                             f"{self.start} on; remedy: give one from 0 to their number less 1")
        if step == self.steps - 1:
            return self._last_start, self.end
        first = self.start + step * self.global_batch_size
        return first, min(first + self.global_batch_size, self._last_start)

    def step_of(self, positions: np.ndarray) -> np.ndarray:
        """The step of each of `positions` (int64[k], start <= position < end), as int64[k]."""
        regular = (positions - self.start) // self.global_batch_size
        return np.where(positions >= self._last_start, self.steps - 1, regular)

    def share(self, step: int, rank: int) -> tuple[int, int]:
        """(first, end) of what is read for the rank among the samples of the step, sorted by
        place."""
        first, end = self.bounds(step)
        return self.share_of(end - first, rank)

    def share_of(self, samples: int, rank: int) -> tuple[int, int]:
        """The same for a global batch of so many samples."""
        if not 0 <= rank < self.ranks:
            raise InputError(f"rank={rank} is not one of {self.ranks} ranks; remedy: give one from "
                             f"0 to {self.ranks - 1}")
        quotient, more = divmod(samples, self.ranks)
        first = rank * quotient + min(rank, more)
        return first, first + quotient + (rank < more)

    def shares(self, step: int, ranks: Sequence[int]) -> list[tuple[int, int]]:
        """The shares of several ranks; those that follow each other are one."""
        runs: list[tuple[int, int]] = []
        for first, end in sorted(self.share(step, rank) for rank in ranks):
            if runs and runs[-1][1] == first:
                runs[-1] = runs[-1][0], end
            else:
                runs.append((first, end))
        return runs

    def size(self, step: int, rank: int) -> int:
        """How many samples the rank takes."""
        first, end = self.share(step, rank)
        return end - first

    def capacity(self, step: int, rank: int) -> int:
        """How many samples the rank's batch has room for: `size`, but with last="mask" always as
        many as in a whole batch."""
        if self.last != "mask":
            return self.size(step, rank)
        first, end = self.share_of(self.global_batch_size, rank)
        return end - first

    def weight(self, step: int, rank: int) -> float:
        """What the rank's mean is multiplied by, so that the mean over ranks is that over samples:
        own samples x ranks / those of the step."""
        first, end = self.bounds(step)
        return self.size(step, rank) * self.ranks / (end - first)


def at_least_1(name: str, value: int) -> None:
    """Raises InputError for what is no whole number of at least 1."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < 1:
        raise InputError(f"{name}={tell(value)}; remedy: give a whole number of at least 1")
