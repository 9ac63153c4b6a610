"""Where a tensor's sum is written: reports whether into the tensor's memory, and what those see who
read the tensor itself as well."""

from __future__ import annotations

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from common import RANK, graph_plans, report

STEPS = 6
ELEMENTS = 300_000


def address(tensor: tf.Tensor) -> tf.Tensor:
    """Where it lies. It is read no longer when that is known."""
    return tf.numpy_function(lambda array: np.int64(array.ctypes.data), [tensor], tf.int64)


@tf.function(autograph=False)
def alone(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Nobody else reads the tensor."""
    tensor = x * 2
    where = address(tensor)
    with tf.control_dependencies([where]):
        total = hvd.allreduce(tensor, op=hvd.Sum, name="alone")
    return total, where, address(total)


@tf.function(autograph=False)
def in_a_group(x: tf.Tensor) -> tuple[list[tf.Tensor], list[tf.Tensor], list[tf.Tensor]]:
    tensors = [x * 2, x * 3]
    where = [address(tensor) for tensor in tensors]
    with tf.control_dependencies(where):
        totals = hvd.grouped_allreduce(tensors, op=hvd.Sum, name="group")
    return totals, where, [address(total) for total in totals]


@tf.function(autograph=False)
def twice_in_a_group(x: tf.Tensor) -> list[tf.Tensor]:
    tensor = x * 2
    return hvd.grouped_allreduce([tensor, tensor], op=hvd.Sum, name="twice")


@tf.function(autograph=False)
def read_later(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    tensor = x * 2
    total = hvd.allreduce(tensor, op=hvd.Sum, name="read")
    with tf.control_dependencies([total]):
        return total, tensor + 1


@tf.function(autograph=False)
def argument(x: tf.Tensor) -> tf.Tensor:
    return hvd.allreduce(x, op=hvd.Sum, name="argument")


def check(expected: float, *tensors: tf.Tensor) -> bool:
    return all((tensor.numpy() == expected).all() for tensor in tensors)


hvd.init()
in_place, right = [], []
variable = tf.Variable(tf.zeros(ELEMENTS))
for step in range(STEPS):
    mine, everyone = float(RANK + step), sum(rank + step for rank in range(hvd.size()))
    x = tf.fill([ELEMENTS], mine)
    total, before, after = alone(x)
    in_place.append(bool(before == after))
    right.append(check(2 * everyone, total))
    totals, before, after = in_a_group(x)
    in_place.append(tf.reduce_all(tf.equal(before, after)).numpy().item())
    right.append(check(2 * everyone, totals[0], *twice_in_a_group(x))
                 and check(3 * everyone, totals[1]))
    total, later = read_later(x)
    right.append(check(2 * everyone, total) and check(2 * mine + 1, later))
    variable.assign(x)
    right.append(check(everyone, argument(x), argument(variable)) and check(mine, x, variable))
report(in_place=in_place, right=right, plans=sorted(plan.state for plan in graph_plans()))
