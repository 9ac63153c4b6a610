"""What fit() on files trains: a model of one layer on the numbers that records begin with."""

from __future__ import annotations

from collections.abc import Callable

import horovod.tensorflow.keras as hvd
import keras
import tensorflow as tf


def parse(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Of tf.string[k]: inputs, float32[k, 1], and the numbers that the records begin with,
    int32[k], as what is to be learnt."""
    numbers = tf.map_fn(
        lambda record: tf.io.decode_raw(tf.strings.substr(record, 0, 4), tf.int32)[0],
        records, fn_output_signature=tf.int32)
    return tf.cast(numbers[:, None], tf.float32) / 1000, numbers


class Model(keras.Model):
    """Before each step `note` is called with the numbers of its batch."""

    def __init__(self, note: Callable[[list[int]], None]) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.note = note
        self(tf.zeros((1, 1)))  # only then are there weights to load

    def call(self, inputs):
        return self.dense(inputs)

    def train_step(self, batch):
        self.note(batch[1].numpy().tolist())
        return super().train_step(batch)


def compiled_model(note: Callable[[list[int]], None]) -> Model:
    """Of the same weights on all ranks."""
    keras.utils.set_random_seed(1)
    model = Model(note)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse", run_eagerly=True)
    return model
