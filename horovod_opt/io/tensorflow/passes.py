"""One pass of the training over the data after the other, whoever takes the bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import tensorflow as tf

from horovod_opt.io.data import Data, Told
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
        self._last: Optional[Epoch] = None  # the last pass
        self._loads = 0  # of states, before it
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
        data, before = self.data, self._last
        counter, ahead_of = data.counter, None
        if counter is not None:
            ahead_of = counter.latest if counter.follow_each_other else None
        elif before is not None and self._is_taken(before):
            data.advance(before.epoch + 1, 0)
        # Ranks of an elastic job may be gone, which only the training's thread can hear of.
        epoch = self.source.begin(runs_ahead_of=ahead_of, meets=not data.is_elastic)
        self._last, self._loads, data.told = epoch, data.loads, Told()
        self._handed_out = lambda: 0
        if counter is not None:
            counter.begin(epoch)
        return epoch

    def _is_taken(self, before: Epoch) -> bool:
        """Whether the training, which comes for the next pass, has taken all of the last one: it
        was handed out, and nothing or as much was said of it as somebody says who speaks after
        every k-th batch. One that was left early had less."""
        data, batches = self.data, before.batches
        if data.loads != self._loads or self._handed_out() < max(batches.steps, 1):
            return False
        if (data.epoch, data.position) == (before.epoch, batches.start):
            return True
        return data.epoch == before.epoch and data.told.may_be_all(before.epoch, batches.steps)
