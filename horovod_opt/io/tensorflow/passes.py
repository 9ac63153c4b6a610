"""One pass of the training over the data after the other, whoever takes the bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Optional

import tensorflow as tf

from horovod_opt.io.batch_counter import BatchCounter
from horovod_opt.io.data import Data
from horovod_opt.io.node_reader.steps import Pass
from horovod_opt.io.step_source import StepSource


class Passes:
    """Who runs ahead of the training must not move its position. So an epoch ends here when the
    training has said so, to Resume or data.taken(); and if it says nothing at all, when it comes
    for the next one.

    Keras needs to know how many steps later epochs have, though a resumed one is shorter. So behind
    a data set of one pass comes one without elements, repeated, which has no end for tf.data, and
    both are cut at the number of steps. Each loop asks for one pass, once: who is asked again, at a
    pass's end, cannot tell the asking from that of the next loop, as where a loop is left then.
    """

    def __init__(self, data: Data, source: StepSource):
        self.data, self.source = data, source
        self._latest: Optional[Pass] = None
        self.number = 0  # of the latest one
        self._counted_by: Optional[BatchCounter] = None  # the latest one

    def with_cardinality(self, one_pass: tf.data.Dataset) -> tf.data.Dataset:
        """That of a whole pass."""
        nothing = tf.data.Dataset.range(0).flat_map(lambda _: one_pass)
        return one_pass.concatenate(nothing.repeat()).take(self.source.steps)

    def begin(self) -> Optional[Pass]:
        """The next pass; None where what ran ahead of a training that has ended asks for it: on
        other ranks it may have been stopped before."""
        counted_by = self._counted_by
        if self.data.counter is None and counted_by is not None and counted_by.is_read_ahead():
            return None
        self.number += 1
        begun = self._next()
        return begun if begun.steps else None

    def follow(self, handed_out: Callable[[], int]) -> None:
        """`handed_out` says how many batches of the pass were."""
        if self.data.counter is None:
            self.source.is_last_pass(self._latest, handed_out)

    def _next(self) -> Pass:
        data, ahead_of = self.data, None
        counter = data.counter
        if counter is not None:
            data.last_pass = None
            ahead_of = counter.latest if counter.follow_each_other else None
        # Ranks of an elastic job may be gone, which only the training's thread can hear of. And how
        # far something runs ahead differs between ranks.
        self._latest = self.source.begin(runs_ahead_of=ahead_of,
                                         meets=ahead_of is None and not data.is_elastic)
        self._counted_by = counter
        if counter is not None:
            counter.begin(self._latest)
        return self._latest
