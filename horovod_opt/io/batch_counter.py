"""Counts the batches that a training has taken, where the batches themselves do not come back."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Optional

from horovod_opt.io.errors import InputError

if TYPE_CHECKING:
    from horovod_opt.io.data import Data
    from horovod_opt.io.node_reader.steps import Pass


class BatchCounter:
    """Of one training on `data`. What runs ahead begins passes; the training says how many batches
    it has taken since next_pass().

    `follow_each_other`: passes do without a word of the training in between, which counts on over
    them; else it says next_pass() before each. `is_read_ahead`: whether what then runs ahead,
    without an end, is still there, as it may be for a moment when the training is over."""

    def __init__(self, data: Data):
        self._data = data
        self._passes: deque[Pass] = deque()
        self._before = 0  # batches of passes that the training is through with, and are gone here
        self.follow_each_other = False
        self.is_read_ahead: Callable[[], bool] = lambda: False

    def next_pass(self) -> None:
        """The training goes over the data again: what runs ahead may begin."""
        self._passes.clear()
        self._before = 0
        self._data.counter = self

    @property
    def latest(self) -> Optional[Pass]:
        """The pass that was begun last, though the training need not have come to it: the next one
        comes behind it."""
        return self._passes[-1] if self._passes else None

    def begin(self, begun: Pass) -> None:
        """Raises InputError where batches of another epoch would be mixed into this one."""
        if self._passes and not self.follow_each_other:
            raise InputError(
                f"the data set begins epoch {begun.start[0]} while the training is in epoch "
                f"{self._passes[0].start[0]}, so its batches cannot be counted; remedy: no "
                ".repeat() behind hio.tensorflow.dataset() without steps_per_epoch: each loop over "
                "it is an epoch")
        self._passes.append(begun)

    def is_rest_over(self, count: int) -> bool:
        """Whether the pass is the rest of one, and has no more than `count` batches."""
        return (bool(self._passes) and self._passes[0].is_rest
                and count >= self._passes[0].steps)

    def advance(self, count: int) -> None:
        """The training has taken `count` batches since next_pass(); more than there are: all of
        them, as where the last call of several steps has fewer."""
        while (len(self._passes) > 1
               and count - self._before > self._passes[0].steps):
            self._before += self._passes.popleft().steps
        if not self._passes or count <= self._before:
            return
        current = self._passes[0]
        self._data.advance(*current.place_after(min(count - self._before, current.steps)))

    def end(self, count: int) -> None:
        """The training says that it has gone over all of the data in `count` batches at most.

        Raises InputError if the pass has more: they were batched anew on the way. And if no pass
        has begun: its batches were kept from an earlier one.
        """
        remedy = ("remedy: between hio.tensorflow.dataset() and fit() only what keeps batches as "
                  "they are, as .map() and .prefetch()")
        if not self._passes and count > 0:
            raise InputError(f"the training has taken {count} batches, but no epoch has begun in "
                             f"the data set; {remedy}")
        if self._passes and count < self._passes[0].steps:
            raise InputError(
                f"the training has taken {count} batches in epoch {self._passes[0].start[0]}, but "
                f"the data set has {self._passes[0].steps}; {remedy}")

    def stop(self) -> None:
        """The training is over."""
        if self._data.counter is self:
            self._data.counter = None
