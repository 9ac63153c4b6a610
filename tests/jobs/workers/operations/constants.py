"""Collectives of constants: each call runs them, and ranks with different graphs do not wait for
each other while TensorFlow optimizes them. Reports how often, and the results."""

from __future__ import annotations

import horovod.tensorflow as hvd
import tensorflow as tf
from common import RANK, graph_plans, report

import horovod_opt

CALLS = 6


@tf.function(autograph=False)
def alike() -> tf.Tensor:
    return hvd.allreduce(tf.constant([RANK + 1.0, 2.0]), op=hvd.Sum, name="alike")


@tf.function(autograph=False)
def constant_on_one(mine: tf.Tensor) -> tf.Tensor:
    summand = tf.constant([5.0]) if RANK == 0 else mine
    return hvd.allreduce(summand, op=hvd.Sum, name="on_one")


@tf.function(autograph=False)
def in_different_orders() -> list[tf.Tensor]:
    """Gathered from constants of different names on each rank, by which the optimizer may go."""
    gathered = {}
    for name in sorted("abcdefgh", reverse=RANK == 0):
        rows = tf.identity(tf.range(RANK + 2), name=f"rows.{name}")
        gathered[name] = hvd.allgather(rows, name=f"gathered.{name}")
    return [gathered[name] for name in sorted(gathered)]


@tf.function(autograph=False)
def in_a_loop() -> tf.Tensor:
    """As many turns at once as TensorFlow likes: it evaluates the sum before any."""
    def body(turn: tf.Tensor, total: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return turn + 1, total + hvd.allreduce(tf.constant([RANK + 1.0]), op=hvd.Sum, name="turn")

    return tf.while_loop(lambda turn, _: turn < 20, body, (0, tf.zeros([1])))[1]


@tf.function(autograph=False)
def group_on_one(mine: tf.Tensor, grouped: bool) -> list[tf.Tensor]:
    """Its tensors are called singly, under the same names, where it is not `grouped`."""
    if grouped:
        return hvd.grouped_allreduce([mine, 2 * mine], op=hvd.Sum, name="halves")
    return [hvd.allreduce(tensor, op=hvd.Sum, name=f"halves_{number}of2")
            for number, tensor in enumerate((mine, 2 * mine), 1)]


def halves(call: int, grouped: bool) -> list[list[float]]:
    sums = group_on_one(tf.fill([3], float(call + RANK)), grouped)
    return [tensor.numpy().tolist() for tensor in sums]


hvd.init()
before = horovod_opt.stats().steps
sums = [alike().numpy().tolist() for _ in range(CALLS)]
report(
    sums=sums, steps=horovod_opt.stats().steps - before,
    mixed=[constant_on_one(tf.constant([float(call)])).numpy().tolist() for call in range(CALLS)],
    loops=[in_a_loop().numpy().tolist() for _ in range(CALLS)],
    gathered=[[tensor.numpy().tolist() for tensor in in_different_orders()] for _ in range(CALLS)],
    plans=[plan.state for plan in graph_plans()],
    # At last all ranks call the group, which may be planned then.
    halves=[halves(call, RANK == 0 or call >= 2 * CALLS) for call in range(4 * CALLS)])
