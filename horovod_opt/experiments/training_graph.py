"""The graph of a training step, as it is on one of two ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import horovod.tensorflow as hvd
import tensorflow as tf

BATCH = 32


@contextmanager
def two_ranks() -> Iterator[None]:
    """Horovod leaves the allreduces out of the graph of a single rank. While this is active it
    traces what rank 0 of two would; no Horovod need be initialised."""
    def size() -> int:
        return 2

    def included() -> bool:
        return True

    pretended = {"size": size, "included": included}
    vars(hvd.global_process_set).update(pretended)
    try:
        yield
    finally:
        for name in pretended:
            delattr(hvd.global_process_set, name)


def training_function(model):
    """The FuncGraph of a training step with a distributed gradient and plain SGD."""
    variables = [variable.value for variable in model.trainable_variables]

    @tf.function(autograph=False)
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(
                labels, model(images, training=True)))
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, variables)
        for variable, gradient in zip(variables, gradients):
            variable.assign_sub(0.1 * gradient)
        return loss

    with two_ranks():
        return step.get_concrete_function(
            tf.TensorSpec((BATCH, *model.input_shape[1:])), tf.TensorSpec((BATCH,), tf.int64))
