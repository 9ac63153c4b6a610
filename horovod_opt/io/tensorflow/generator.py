"""The source of batches: a generator of Python, which needs its lock for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import tensorflow as tf

from horovod_opt.io.decoding import Found, found
from horovod_opt.io.prefetching import prefetched
from horovod_opt.io.reading import Epoch
from horovod_opt.io.tensorflow.elements import Elements
from horovod_opt.io.tensorflow.passes import Passes

AHEAD = 2  # batches that a thread takes out of the ring before TensorFlow asks


def generated(passes: Passes, elements: Elements) -> tf.data.Dataset:
    """Flat elements; its cardinality is that of a whole epoch, though a resumed one is shorter.

    Keras needs to know how many steps later epochs have. So the generator is repeated, which
    has no end for tf.data, and cut at the number of steps. A repetition that yields nothing ends
    a data set before that.
    """
    generator = _Generator(passes, elements)
    endless = tf.data.Dataset.from_generator(generator, output_signature=elements.signature)
    return endless.repeat().take(passes.reading.steps)


class _Generator:
    def __init__(self, passes: Passes, elements: Elements):
        self._passes, self._elements = passes, elements
        self._is_over = False  # the pass that a repetition is asked for

    def __call__(self) -> Iterator[tuple]:
        if self._is_over:
            self._is_over = False
            return
        passes, data = self._passes, self._passes.data
        epoch = passes.begin()
        if not epoch.batches.steps:
            return
        with data.interruptible(), closing(prefetched(self._found(epoch), AHEAD)) as batches:
            for step, one in enumerate(batches, 1):
                if one.holes:
                    data.holes.setdefault(one.info.epoch, []).extend(one.holes)
                if step == epoch.batches.steps:
                    passes.handed_out()
                yield self._elements.flat(one)
        self._is_over = True

    def _found(self, epoch: Epoch) -> Iterator[Found]:
        reading = self._passes.reading
        for steps in reading.steps_together(epoch):
            yield from found(self._passes.data, reading.member, steps)
