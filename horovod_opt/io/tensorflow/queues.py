"""The source of batches: a kernel, which takes them without Python's lock."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import tensorflow as tf

from horovod_opt.io.tensorflow.elements import Elements
from horovod_opt.io.tensorflow.feeder import Feeder
from horovod_opt.io.tensorflow.kernel import StepsDataset
from horovod_opt.io.tensorflow.passes import Passes

EMPTY = -1  # the number of a pass that has no steps


def dataset_from_queues(operations: Any, passes: Passes, elements: Elements) -> tf.data.Dataset:
    """Flat elements. Python says one number for each pass.

    Not by from_generator(): TensorFlow 2.21 sets the C library's M_MMAP_THRESHOLD for the whole
    process when one is made, and a training that allocates its tensors anew in each step then loses
    a quarter of its speed to page faults."""
    queues = _Queues(passes, elements)
    return passes.with_cardinality(tf.data.Dataset.from_tensors(0).flat_map(lambda _: StepsDataset(
        operations, tf.numpy_function(queues.next_number, [], tf.int64), elements.signature)))


class _Queues:
    """One for each pass; that of the last one goes when the next begins."""

    def __init__(self, passes: Passes, elements: Elements):
        self._passes, self._elements = passes, elements
        self._feeder: Optional[Feeder] = None

    def next_number(self) -> np.int64:
        if self._feeder is not None:
            self._feeder.close()
            self._feeder = None
        begun = self._passes.begin()
        if begun is None:
            return np.int64(EMPTY)
        self._feeder = Feeder(self._passes.data, self._passes.source, begun,
                              self._elements.names)
        self._passes.follow(self._feeder.handed_out_of())
        return np.int64(self._feeder.number)
