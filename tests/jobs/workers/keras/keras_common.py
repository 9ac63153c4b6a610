"""What the Keras workers share: Keras itself, as TF_USE_LEGACY_KERAS wants it, and small models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import horovod.tensorflow as hvd_tf
import numpy as np
import tensorflow as tf
from tensorflow import keras

SIZE = 2
first_rank = hvd_tf.ProcessSet([0])
LEGACY = not hasattr(keras, "ops")


def variable(value: object) -> object:
    """All of one name: those of a model of Keras 3 are called kernel and bias in every layer."""
    value = np.asarray(value, np.float32)
    return tf.Variable(value) if LEGACY else keras.Variable(value, name="kernel")


def lists(arrays: Sequence) -> list:
    return [np.asarray(array).astype(float).tolist() for array in arrays]


def state(optimizer: object) -> list:
    variables = optimizer.variables
    return lists(variables() if callable(variables) else variables)


def draw(*key: int, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(key).normal(size=shape).astype(np.float32)


def network(value: float, *layers: object) -> object:
    """Two inputs, one output, every weight `value` unless more `layers` draw their own."""
    constant = keras.initializers.Constant(value)
    dense = keras.layers.Dense(1, kernel_initializer=constant, bias_initializer=constant)
    return keras.Sequential([keras.Input((2,)), *layers, dense])


def error_of(function: Callable, *arguments: object, **options: object) -> str:
    try:
        function(*arguments, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def on_all_ranks(value: object) -> list:
    return hvd_tf.allgather_object(value)
