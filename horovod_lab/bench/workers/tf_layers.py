"""Dense layers for TensorFlow, and a training step of any model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from rank import Rank
from training import LEARNING_RATE


class Dense(tf.Module):
    """Dense layers with ReLU between them: (batch, widths[0]) to (batch, widths[-1])."""

    def __init__(self, widths: Sequence[int]):
        super().__init__()
        self.kernels = [
            tf.Variable(tf.random.stateless_normal((inputs, outputs), (0, number),
                                                   stddev=(2 / inputs) ** 0.5), name="kernel")
            for number, (inputs, outputs) in enumerate(zip(widths, widths[1:]))]
        self.biases = [tf.Variable(tf.zeros(outputs), name="bias") for outputs in widths[1:]]

    def __call__(self, values: tf.Tensor) -> tf.Tensor:
        for number, (kernel, bias) in enumerate(zip(self.kernels, self.biases)):
            values = (tf.nn.relu(values) if number else values) @ kernel + bias
        return values


def one_thread() -> None:
    """Before the first operation: no second one to hide the background thread's CPU use behind."""
    tf.config.threading.set_intra_op_parallelism_threads(1)


def training_step(rank: Rank, model: Callable[[tf.Tensor], tf.Tensor],
                  variables: Sequence[tf.Variable], inputs: tf.Tensor, classes: tf.Tensor,
                  **tape_options: Any) -> Callable[[], Any]:
    """Forward and backward pass, reduction of the gradients, plain SGD; the same inputs each time.

    `tape_options` are for DistributedGradientTape."""
    @tf.function
    def step(inputs: tf.Tensor, classes: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                classes, model(inputs)))
        tape = rank.hvd.DistributedGradientTape(tape, **tape_options)
        for variable, gradient in zip(variables, tape.gradient(loss, variables)):
            if isinstance(gradient, tf.IndexedSlices):
                variable.scatter_sub(
                    tf.IndexedSlices(LEARNING_RATE * gradient.values, gradient.indices))
            else:
                variable.assign_sub(LEARNING_RATE * gradient)
        return loss

    inputs, classes = tf.constant(inputs), tf.constant(classes)
    return lambda: step(inputs, classes).numpy()
