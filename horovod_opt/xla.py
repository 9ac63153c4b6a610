"""Horovod's operations in what TensorFlow compiles by XLA: functions with jit_compile=True."""

from __future__ import annotations

import os
import re

# The only one that upstream has a version of for XLA, for GPUs.
FOR_XLA = "horovod_allreduce"
NOT_BUILT = "2.19."  # versions of TensorFlow, whose wheels lack headers for it


def is_enabled() -> bool:
    """Whether the user wants XLA to compile that, as upstream reads it when TensorFlow's native
    library is loaded."""
    number = re.match(r"\s*[+-]?[0-9]+", os.environ.get("HOROVOD_ENABLE_XLA_OPS", ""))
    return number is not None and int(number.group()) > 0


def refuse(operation: str, remedy: str = "call it outside of the function with jit_compile=True; "
           "such functions may compute what stands before and after it") -> None:
    """While TensorFlow traces what XLA is to compile: raises ValueError for an operation, by its
    name in the native library, that XLA cannot compile."""
    import tensorflow as tf
    from tensorflow.python.ops import control_flow_util

    if not control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph()):
        return
    is_built = operation == FOR_XLA and not tf.__version__.startswith(NOT_BUILT)
    if is_built and is_enabled() and tf.config.list_physical_devices("GPU"):
        return
    only = "; on GPUs HOROVOD_ENABLE_XLA_OPS=1 lets XLA compile it" if is_built else ""
    raise ValueError(f"XLA cannot compile Horovod's operations here ({operation}): {remedy}{only}")
