"""Models of dense layers in TensorFlow.

    python dense.py text      a text model: an embedding, whose gradients are IndexedSlices, first
    python dense.py groups    gradients are reduced in a few groups: `num_groups`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import steps
import tensorflow as tf
from rank import Rank
from training import LEARNING_RATE

GROUPS = 4


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


def use_one_thread() -> None:
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


def text(rank: Rank) -> Callable[[], Any]:
    use_one_thread()
    table = tf.Variable(tf.random.stateless_normal((steps.VOCABULARY, steps.EMBEDDING), (1, 0)))
    layers = Dense(steps.TEXT_WIDTHS)

    def model(tokens: tf.Tensor) -> tf.Tensor:
        return layers(tf.reduce_mean(tf.nn.embedding_lookup(table, tokens), axis=1))

    return training_step(
        rank, model, [table, *layers.trainable_variables], *steps.texts(rank.rank))


def groups(rank: Rank) -> Callable[[], Any]:
    use_one_thread()
    model = Dense(steps.DENSE_WIDTHS)
    return training_step(
        rank, model, model.trainable_variables, *steps.rows(rank.rank), num_groups=GROUPS)


if __name__ == "__main__":
    steps.run_workload({"text": text, "groups": groups}, "tensorflow")
