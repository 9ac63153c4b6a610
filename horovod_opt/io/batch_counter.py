"""Counts the batches that a training has taken, where the batches themselves do not come back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from horovod_opt.io.errors import InputError

if TYPE_CHECKING:
    from horovod_opt.io.data import Data
    from horovod_opt.io.step_source import Epoch


class BatchCounter:
    """Of one training on `data`. A pass of the training over the data is an epoch, or what is left
    of it. What runs ahead begins the pass; the training says how many batches it has taken."""

    def __init__(self, data: Data):
        self._data = data
        self._pass: Optional[Epoch] = None

    def next_pass(self) -> None:
        """The training goes over the data again: what runs ahead may begin."""
        self._pass = None
        self._data.counter = self

    def begin(self, epoch: Epoch) -> None:
        """Raises InputError where batches of another epoch would be mixed into this one."""
        if self._pass is not None:
            raise InputError(
                f"the data set begins epoch {epoch.epoch} while the training is in epoch "
                f"{self._pass.epoch}, so its batches cannot be counted; remedy: no .repeat() "
                "behind hio.tensorflow.dataset(): each loop over it is an epoch")
        self._pass = epoch

    def is_rest_over(self, count: int) -> bool:
        """Whether the pass is the rest of an epoch, and has no more than `count` batches."""
        return (self._pass is not None and self._pass.batches.start > 0
                and count >= self._pass.batches.steps)

    def advance(self, count: int) -> None:
        """The training has taken `count` batches of this pass; more than there are: all of them, as
        where the last call of several steps has fewer."""
        if self._pass is not None and count > 0:
            batches = self._pass.batches
            end = batches.bounds(min(count, batches.steps) - 1)[1]
            self._data.advance(self._pass.epoch, end)

    def end(self, count: int) -> None:
        """The training says that it has gone over all of the data in `count` batches at most.

        Raises InputError if the pass has more: they were batched anew on the way.
        """
        if self._pass is not None and count < self._pass.batches.steps:
            raise InputError(
                f"the training has taken {count} batches in epoch {self._pass.epoch}, but the data "
                f"set has {self._pass.batches.steps}; remedy: between hio.tensorflow.dataset() and "
                "fit() only what keeps batches as they are, as .map() and .prefetch()")

    def stop(self) -> None:
        """The training is over."""
        if self._data.counter is self:
            self._data.counter = None
