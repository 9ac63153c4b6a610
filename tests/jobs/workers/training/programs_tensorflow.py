"""Several functions in several threads, and a text model with sparse gradients."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from common import RANK
from horovod.tensorflow.mpi_ops import _basics
from programs_common import compare

STEPS = 12
MODELS = 3


def draw(*key: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(key).normal(size=shape).astype(np.float32)


class Model:
    """A small network with a function that trains it and one that looks at it."""

    def __init__(self, number: int):
        self.number = number
        self.variables = [tf.Variable(draw(number, i, shape=shape)) for i, shape in enumerate(
            ((6, 8 + number), (8 + number,), (8 + number, 2)))]
        self.step, self.look = tf.function(self._step), tf.function(self._look)

    def loss(self, data: tf.Tensor) -> tf.Tensor:
        hidden = tf.tanh(data @ self.variables[0] + self.variables[1])
        return tf.reduce_mean(tf.square(hidden @ self.variables[2]))

    def _step(self, data: tf.Tensor) -> None:
        with tf.name_scope(f"model_{self.number}"):
            with tf.GradientTape() as tape:
                loss = self.loss(data)
            tape = hvd.DistributedGradientTape(tape)
            gradients = tape.gradient(loss, self.variables)
        for variable, gradient in zip(self.variables, gradients):
            variable.assign_sub(0.1 * gradient)

    def _look(self, data: tf.Tensor) -> tf.Tensor:
        return hvd.allreduce(self.loss(data), name=f"loss_{self.number}")

    def train(self) -> None:
        for step in range(STEPS):
            rows = 3 if step % 4 == 3 else 5
            self.step(tf.constant(draw(self.number, step, RANK, shape=(rows, 6))))
            if step % 3 == 2:
                loss = self.look(tf.constant(draw(self.number, step, RANK, shape=(4, 6))))
                self.variables[1].assign_sub(0.01 * loss * tf.ones_like(self.variables[1]))


def functions_in_threads() -> list[np.ndarray]:
    models = [Model(number) for number in range(MODELS)]
    errors: list[BaseException] = []

    def train(model: Model) -> None:
        try:
            model.train()
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=train, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return [variable.numpy() for model in models for variable in model.variables]


def texts() -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Batches of words in buckets of three lengths; the ranks' batches are of different ones."""
    for step in range(STEPS):
        words = np.random.default_rng((step, RANK)).integers(
            0, 40, size=(4, (3, 5, 8)[(step + RANK) % 3]))
        yield tf.constant(words), tf.constant(words.sum(axis=1) % 2)


def text() -> list[np.ndarray]:
    """The gradient of the embedding is sparse, with another number of rows on each rank."""
    keras = tf.keras
    keras.utils.set_random_seed(7)
    model = keras.Sequential([
        keras.layers.Embedding(40, 6), keras.layers.GRU(5), keras.layers.Dense(2)])
    model.build((None, None))
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    variables = [variable.value for variable in model.trainable_variables]

    @tf.function(reduce_retracing=False)
    def step(words: tf.Tensor, labels: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(words, training=True))
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, variables)
        assert isinstance(gradients[0], tf.IndexedSlices)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    hvd.broadcast_variables(variables, root_rank=0)
    for words, labels in texts():
        step(words, labels)
    return [variable.numpy() for variable in variables]


tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.experimental.enable_op_determinism()
compare(hvd, _basics.MPI_LIB_CTYPES, [functions_in_threads, text])
