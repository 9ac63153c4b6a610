"""What autograph leaves as it is.

In a tf.function TensorFlow rewrites each Python function that is called, so that its `if` and `for`
may depend on tensors. Horovod's do not, and a call of what was rewritten takes milliseconds: with
ResNet50, tracing what reduces the gradients took longer than tracing all the rest of the step. A
compressor that a user has written may depend on tensors; then everything is rewritten.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf

# The modules of Horovod's own.
COMPRESSORS = ("horovod.tensorflow.compression", "horovod_opt.bfloat16.tensorflow")


def unconverted(function: Callable, compressor: Any = None) -> Callable:
    """The function as autograph leaves it, unless it calls a compressor that is not Horovod's."""
    return tf.autograph.experimental.do_not_convert(function) if _is_own(compressor) else function


def _is_own(compressor: Any) -> bool:
    return compressor is None or getattr(compressor, "__module__", None) in COMPRESSORS


def compressing(function: Callable) -> Callable:
    """Decorates an operation with an argument `compression`."""
    place = list(inspect.signature(function).parameters).index("compression")
    plain = unconverted(function)

    @functools.wraps(function)
    def operation(*args: Any, **kwargs: Any) -> Any:
        compressor = args[place] if len(args) > place else kwargs.get("compression")
        return (plain if _is_own(compressor) else function)(*args, **kwargs)

    return operation
