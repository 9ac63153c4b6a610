"""What a batch is in TensorFlow, and how it goes through operations that know flat lists only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional

import numpy as np
import tensorflow as tf

from horovod_opt.io.batch import BatchInfo
from horovod_opt.io.decoder import GoodSamples
from horovod_opt.io.index import Index
from horovod_opt.io.node_reader.step_queue import BatchInfos
from horovod_opt.io.tensorflow.sample_names import SampleNames

Decode = Callable[..., Any]  # of a sample, as a batch of several has them
WHOLE = BatchInfo._fields[:-1]  # those that are whole numbers


class Elements:
    """Of one data set: a flat element has the records of each part (tf.string[k]), labels
    (int64[k]) where the data has them, the whole numbers of BatchInfo (int64[6]) and
    the weight (float32)."""

    def __init__(self, index: Index, with_info: bool, with_samples: bool = False,
                 decode: Optional[Decode] = None):
        self._parts, self._has_labels = index.parts, index.label is not None
        self._with_info, self._decode = with_info, decode
        self.names = SampleNames(index) if with_samples else None

    @property
    def signature(self) -> tuple[tf.TensorSpec, ...]:
        """Of a flat element."""
        labels = [tf.TensorSpec([None], tf.int64)] if self._has_labels else []
        return (*(tf.TensorSpec([None], tf.string) for _ in self._parts), *labels,
                tf.TensorSpec([len(WHOLE)], tf.int64), tf.TensorSpec([], tf.float32))

    def flat(self, batch: GoodSamples) -> tuple:
        """The element that is this batch."""
        samples, info = batch.samples, batch.info
        sample_parts = [samples.parts_of(i) for i in range(len(samples))]
        parts = [np.array([bytes(record_parts[part]) for record_parts in sample_parts], object)
                 for part in range(len(self._parts))]
        return (*parts, *([samples.labels] if self._has_labels else []),
                np.array(info[:-1], np.int64), np.float32(info.weight))

    @staticmethod
    def batch_infos(infos: list[BatchInfo]) -> BatchInfos:
        """The same of what batches say of themselves."""
        return BatchInfos(np.array([info[:-1] for info in infos], np.int64),
                          np.array([info.weight for info in infos], np.float32))

    def shape(self, *flat: tf.Tensor) -> Any:
        """The batch as users get it."""
        parts, (info, weight) = flat[:len(self._parts)], flat[-2:]
        batch: Any = dict(zip(self._parts, parts)) if len(parts) > 1 else parts[0]
        if self._has_labels:
            batch = (batch, flat[len(parts)])
        if self._decode is not None:
            batch = decode_each(self._decode, batch, tf.size(parts[0]))
        if not self._with_info and self.names is None:
            return batch
        described = {**{name: info[i] for i, name in enumerate(WHOLE)}, "weight": weight}
        if self.names is not None:
            described |= self.names.tensors(described["epoch"], described["step"])
        return batch, described


def decode_each(decode: Decode, batch: Any, samples: tf.Tensor) -> Any:
    """What `decode` makes of each of so many samples, several at a time, as a batch."""
    specs: list[Any] = []  # of the batch: found in the first branch, which is traced first

    def decoded() -> Any:
        each = tf.data.Dataset.from_tensor_slices(batch).map(
            decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
        specs.append(tf.nest.map_structure(
            lambda spec: tf.TensorSpec([None, *spec.shape], spec.dtype), each.element_spec))
        return each.batch(tf.cast(samples, tf.int64)).get_single_element()

    def empty() -> Any:
        return tf.nest.map_structure(
            lambda spec: tf.zeros([0, *(size or 0 for size in spec.shape[1:])], spec.dtype),
            specs[0])

    whole = tf.cond(samples > 0, decoded, empty)
    tf.nest.map_structure(lambda tensor, spec: tensor.set_shape(spec.shape), whole, specs[0])
    return whole
