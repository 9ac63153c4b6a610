"""Functions that XLA compiles beside Horovod's operations, and with them, which is refused.

Reports what the first compute, how often ranks negotiated meanwhile, and the errors of the others.
"""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from common import report

import horovod_opt

STEPS = 20

hvd.init()
rank, size = hvd.rank(), hvd.size()
ones = tf.ones([size, 2])
OPERATIONS = {
    "allreduce": lambda: hvd.allreduce(ones, name="a"),
    "grouped_allreduce": lambda: hvd.grouped_allreduce([ones, ones], name="ga"),
    "allgather": lambda: hvd.allgather(ones, name="g"),
    "grouped_allgather": lambda: hvd.grouped_allgather([ones, ones], name="gg"),
    "broadcast": lambda: hvd.broadcast(ones, 0, name="b"),
    "alltoall": lambda: hvd.alltoall(ones, name="t"),
    "reducescatter": lambda: hvd.reducescatter(ones, name="r"),
    "size": hvd.size_op,
}


def refusal(operation) -> str:
    try:
        tf.function(operation, jit_compile=True)()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "compiled"


def in_a_branch() -> str:
    """Traced in a graph of its own within the function."""
    return refusal(lambda: tf.cond(tf.reduce_sum(ones) > 0,
                                   lambda: hvd.allreduce(ones, name="branch"), lambda: ones))


@tf.function(jit_compile=True)
def gradient(weights: tf.Tensor, data: tf.Tensor) -> tf.Tensor:
    return 2 * tf.linalg.matvec(data, tf.linalg.matvec(data, weights), transpose_a=True)


@tf.function(jit_compile=True)
def updated(weights: tf.Tensor, slope: tf.Tensor) -> tf.Tensor:
    return weights - 0.01 * slope


@tf.function
def step(weights: tf.Tensor, data: tf.Tensor) -> tf.Tensor:
    return updated(weights, hvd.allreduce(gradient(weights, data), name="slope"))


def train() -> dict:
    data = [np.random.default_rng(part).standard_normal((4, 3)) for part in range(size)]
    weights, expected = tf.ones([3], tf.float64), np.ones(3)
    for _ in range(STEPS):
        weights = step(weights, tf.constant(data[rank]))
        expected -= 0.01 * sum(2 * part.T @ (part @ expected) for part in data) / size
    return {"weights": weights.numpy().tolist(), "expected": expected.tolist(),
            "planned": horovod_opt.stats().planned_iterations}


refused = {name: refusal(operation) for name, operation in OPERATIONS.items()}
branch = in_a_branch()
report(refused=refused, branch=branch, trained=train())
