"""A text model in TensorFlow: an embedding, whose gradients are IndexedSlices, and dense layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import inputs
import steps
import tensorflow as tf
import tf_layers
from rank import Rank


def build(rank: Rank) -> Callable[[], Any]:
    tf_layers.one_thread()
    table = tf.Variable(tf.random.stateless_normal((inputs.VOCABULARY, inputs.EMBEDDING), (1, 0)))
    layers = tf_layers.Dense(inputs.TEXT_WIDTHS)

    def model(tokens: tf.Tensor) -> tf.Tensor:
        return layers(tf.reduce_mean(tf.nn.embedding_lookup(table, tokens), axis=1))

    return tf_layers.training_step(
        rank, model, [table, *layers.trainable_variables], *inputs.texts(rank.rank))


if __name__ == "__main__":
    steps.run("text", "tensorflow", build)
