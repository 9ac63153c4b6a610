"""The network in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

import horovod_opt.io as hio
from horovod_opt.io.batch import info_of

tf.keras.utils.set_random_seed(1)
model = tf.keras.Sequential([tf.keras.layers.Input([8]), tf.keras.layers.Dense(16, "tanh"),
                             tf.keras.layers.Dense(3)])
optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)
optimizer.build(model.trainable_variables)


def state(**rest: object) -> hvd.elastic.TensorFlowKerasState:
    return hvd.elastic.TensorFlowKerasState(model, optimizer, **rest)


def batches(data: hio.Data, size: int, decode: Callable) -> Iterator[tuple]:
    """Of the rest of an epoch: numbers, features, classes, and where they are."""
    dataset = hio.tensorflow.dataset(data, global_batch_size=size, with_info=True).prefetch(2)
    for records, info in dataset:
        samples = [decode(record) for record in records.numpy()]
        numbers = [number for number, _, _ in samples]
        features = np.stack([values for _, values, _ in samples]) if samples else (
            np.zeros([0, 8], np.float32))
        classes = np.array([label for _, _, label in samples], np.int64)
        yield numbers, tf.constant(features), tf.constant(classes), info_of(info)


def _losses(features: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(classes, model(features))


@tf.function(reduce_retracing=True)
def _gradients(features: tf.Tensor, classes: tf.Tensor, of_all: tf.Tensor) -> list[tf.Tensor]:
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(_losses(features, classes)) / of_all
    tape = hvd.DistributedGradientTape(tape, op=hvd.Sum)
    return tape.gradient(loss, model.trainable_variables)


def step(features: tf.Tensor, classes: tf.Tensor, of_all: int) -> None:
    """On this rank's part of a batch of so many samples."""
    gradients = _gradients(features, classes, tf.constant(of_all, tf.float32))
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


def total(counts: np.ndarray) -> np.ndarray:
    return hvd.allreduce(tf.constant(counts), op=hvd.Sum, name="seen").numpy()


def _variables() -> list:
    return [*model.variables, *optimizer.variables]


def save(path: Path) -> None:
    with path.open("wb") as file:
        np.savez(file, *[variable.numpy() for variable in _variables()])


def load(path: Path) -> None:
    saved = np.load(path)
    for variable, name in zip(_variables(), saved.files):
        variable.assign(saved[name])


def loss(features: np.ndarray, classes: np.ndarray) -> float:
    return float(tf.reduce_mean(_losses(tf.constant(features), tf.constant(classes))))
