"""The source of batches where there is no kernel: a generator of Python, which needs its lock for
each of them."""

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
    """Flat elements."""
    def of(epoch: Epoch) -> Iterator[tuple]:
        return _flat(passes, elements, epoch)

    return passes.repeated(tf.data.Dataset.from_generator(
        lambda: passes.once(of), output_signature=elements.signature))


def _flat(passes: Passes, elements: Elements, epoch: Epoch) -> Iterator[tuple]:
    data, step = passes.data, 0
    passes.follow(lambda: step)
    with data.interruptible(), closing(prefetched(_found(passes, epoch), AHEAD)) as batches:
        for step, one in enumerate(batches, 1):
            if one.holes:
                data.holes.setdefault(one.info.epoch, []).extend(one.holes)
            if step == epoch.batches.steps:
                passes.reading.publish()
            yield elements.flat(one)


def _found(passes: Passes, epoch: Epoch) -> Iterator[Found]:
    for steps in passes.reading.steps_together(epoch):
        yield from found(passes.data, passes.reading.member, steps)
