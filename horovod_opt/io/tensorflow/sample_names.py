"""Which samples a batch has: numbers, keys and files, which the kernel does not know."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from horovod_opt.io.errors import InputError
from horovod_opt.io.index import Index

KINDS = {"numbers": tf.int64, "keys": tf.string, "files": tf.string}


class SampleNames:
    """Of the steps of one pass that TensorFlow has not got yet. For several threads."""

    def __init__(self, index: Index):
        self._index = index
        self._samples: dict[tuple[int, int], np.ndarray] = {}
        self._lock = threading.Lock()

    def forget(self) -> None:
        """Another pass begins."""
        with self._lock:
            self._samples.clear()

    def put(self, epoch: int, step: int, samples: np.ndarray) -> None:
        """The step's samples (int64[k]), in place of any that were put before."""
        with self._lock:
            self._samples[epoch, step] = samples

    def tensors(self, epoch: tf.Tensor, step: tf.Tensor) -> dict[str, tf.Tensor]:
        """By name, of KINDS, each [k]: in a function of tf.data, once for each step."""
        tensors = tf.numpy_function(self._take, [epoch, step], list(KINDS.values()))
        for tensor in tensors:
            tensor.set_shape([None])
        return dict(zip(KINDS, tensors))

    def _take(self, epoch: np.ndarray, step: np.ndarray) -> Sequence[np.ndarray]:
        with self._lock:
            numbers = self._samples.pop((int(epoch), int(step)), None)
        if numbers is None:
            raise InputError("the pass was left, as another loop over the same data set has begun")
        index = self._index
        keys = [index.key(number).encode() for number in numbers.tolist()]
        files = [index.path(file).encode() for file in index.file[numbers, 0].tolist()]
        return (np.array(numbers, np.int64), *(np.array(texts, object) for texts in (keys, files)))
