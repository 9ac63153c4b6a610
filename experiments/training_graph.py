"""The graph of a training step, as it is on one of two ranks."""

from __future__ import annotations

import horovod.tensorflow as hvd
import tensorflow as tf

from horovod_opt.tracing import two_ranks

BATCH = 32


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
