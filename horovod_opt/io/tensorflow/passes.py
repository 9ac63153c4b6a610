"""One pass of the training over the data after the other, whoever takes the bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import tensorflow as tf

from horovod_opt.io.data import Data
from horovod_opt.io.step_source import Epoch, StepSource


class Passes:
    """Who runs ahead of the training must not move its position. So an epoch ends here when the
    training has said so, to Resume or data.taken(); and if it says nothing at all, when it comes
    for the next one.

    Keras needs to know how many steps later epochs have, though a resumed one is shorter. So a data
    set of one pass is repeated, which has no end for tf.data, and cut at the number of steps. A
    repetition that yields nothing ends it before that.
    """

    def __init__(self, data: Data, source: StepSource):
        self.data, self.source = data, source
        self._last_start: Optional[tuple[int, int]] = None  # epoch and position of the last pass
        self._steps = 0
        self._handed_out: Callable[[], int] = lambda: 0
        self._is_over = False  # the pass that a repetition is asked for
        self.number = 0  # of the latest one

    def repeat_pass(self, one_pass: tf.data.Dataset) -> tf.data.Dataset:
        """Its cardinality is that of a whole epoch."""
        return one_pass.repeat().take(self.source.steps)

    def begin(self) -> Optional[Epoch]:
        """The next pass; None where a repetition asks for it, as the one before was over()."""
        if self._is_over:
            self._is_over = False
            return None
        self.number += 1
        epoch = self._next()
        return epoch if epoch.batches.steps else None

    def over(self) -> None:
        """Whoever took the pass was told of its end, and will ask for a repetition."""
        self._is_over = True

    def follow(self, handed_out: Callable[[], int]) -> None:
        """`handed_out` says how many batches of the pass were, until the next one begins."""
        self._handed_out = handed_out

    def _next(self) -> Epoch:
        """What is left of the epoch that comes next."""
        data = self.data
        says_nothing = (data.counter is None and not data.is_resumed
                        and (data.epoch, data.position) == self._last_start)
        if says_nothing and self._steps and self._handed_out() == self._steps:
            data.advance(data.epoch + 1, 0)
        epoch = self.source.begin()
        self._last_start, self._steps = (data.epoch, data.position), epoch.batches.steps
        self._handed_out = lambda: 0
        if data.counter is not None:
            data.counter.begin(epoch)
        return epoch
