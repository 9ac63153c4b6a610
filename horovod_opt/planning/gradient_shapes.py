"""The gradient of a variable has its shape, also where TensorFlow's graph does not say so.

The number of samples is unknown while Keras' fit() traces a step. Then TensorFlow infers of some
gradients less than the variable's shape: a Dense layer's weights, where its input has more than two
axes, have a gradient of unknown rows. A plan needs all shapes before the step first runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

is_planning = False  # whether graphs are planned in this process: set by tensorflow_hooks


def with_shapes(gradients: Sequence, variables: Sequence | None) -> Sequence:
    """The gradients, those of unknown shape with that of their variable, which is checked when they
    are there. What has no shape of its own, None and tf.IndexedSlices, stays as it is."""
    if not is_planning or variables is None:
        return gradients
    return [_with_shape(gradient, variable) for gradient, variable in zip(gradients, variables)]


def _with_shape(gradient: Any, variable: Any) -> Any:
    if not isinstance(gradient, tf.Tensor) or gradient.shape.is_fully_defined():
        return gradient
    shape = tf.TensorShape(getattr(variable, "shape", None))
    if not shape.is_fully_defined() or not shape.is_compatible_with(gradient.shape):
        return gradient
    return tf.ensure_shape(gradient, shape)
