"""The source of batches: a kernel, which takes them without Python's lock."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from horovod_opt.io.reading import Epoch
from horovod_opt.io.tensorflow.elements import Elements
from horovod_opt.io.tensorflow.feeder import Feeder
from horovod_opt.io.tensorflow.kernel import StepsDataset
from horovod_opt.io.tensorflow.passes import Passes


def queued(operations: Any, passes: Passes, elements: Elements) -> tf.data.Dataset:
    """Flat elements. Python yields one number for each pass."""
    def of(epoch: Epoch) -> Iterator[int]:
        return _number(passes, epoch)

    numbers = tf.data.Dataset.from_generator(
        lambda: passes.once(of), output_signature=tf.TensorSpec([], tf.int64))
    return passes.repeated(numbers.flat_map(
        lambda number: StepsDataset(operations, number, elements.signature)))


def _number(passes: Passes, epoch: Epoch) -> Iterator[int]:
    """There as long as the pass."""
    reading = passes.reading
    feeder = Feeder(passes.data, reading, epoch)
    passes.follow(feeder.handed_out)
    reading.waited_now = feeder.waited
    try:
        yield feeder.number
    finally:
        feeder.close()
        reading.training_waited += feeder.waited()
        reading.waited_now = float
        reading.publish()
