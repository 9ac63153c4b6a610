"""Functions of TensorFlow with allreduces, traced."""

from __future__ import annotations

import horovod.tensorflow as hvd
import tensorflow as tf


def training_step(compression=None, layers: int = 3):
    weights = [tf.Variable(tf.ones([4, 4])) for _ in range(layers)]

    @tf.function(autograph=False)
    def step(x):
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = tf.tanh(y @ weight)
            loss = tf.reduce_sum(y)
        tape = hvd.DistributedGradientTape(
            tape, compression=compression or hvd.Compression.none)
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(gradient)
        return loss
    step.weights = weights  # a function holds its variables only weakly
    return step


def trace(function, *specs):
    return function.get_concrete_function(*specs or [tf.TensorSpec((2, 4))])


def nested_graph():
    @tf.function
    def inner(x, y):
        return hvd.allreduce(x, op=hvd.Sum, name="x"), hvd.allreduce(y, op=hvd.Sum, name="y")

    @tf.function
    def outer(x):
        first, second = inner(x, tf.sin(x))
        third, _ = inner(tf.cos(x), x)
        return first, hvd.allreduce(second, op=hvd.Sum, name="last"), third
    return trace(outer).graph
