"""A gradient in a tf.function that is sparse on the last rank from some step on.

Reports the errors by case, and what was wrong in the other steps (nothing).
"""

from __future__ import annotations

import faulthandler

import horovod.tensorflow as hvd
import tensorflow as tf
from common import RANK, report, running, start_mpi
from horovod.tensorflow.mpi_ops import _basics

STEPS = 12  # until everything is planned
ROWS = 20


def gradient(is_sparse: tf.Tensor | bool):
    if is_sparse:
        return tf.IndexedSlices(tf.ones([2, 3]), tf.constant([4, 5], tf.int64),
                                tf.constant([ROWS, 3], tf.int64))
    return tf.ones([ROWS, 3])


def step(is_sparse: bool):
    """A function of its own each: the two have different graphs, as after a retracing."""

    @tf.function
    def reduced(scale: tf.Tensor) -> tf.Tensor:
        reduced_gradient = hvd.allreduce(gradient(is_sparse), op=hvd.Sum, name="gradient")
        return tf.convert_to_tensor(reduced_gradient) * scale

    return reduced


def wrong_steps(reduced, expected: float) -> list[str]:
    rows = [reduced(tf.constant(1.0)).numpy()[4:6] for _ in range(STEPS)]
    return [f"step {i}: {part.tolist()}" for i, part in enumerate(rows)
            if not (part == expected).all()]


def error_of(reduced) -> str:
    try:
        reduced(tf.constant(1.0))
    except tf.errors.OpError as error:
        return str(error)
    return "no error"


faulthandler.dump_traceback_later(150)
tf.config.threading.set_inter_op_parallelism_threads(2)
start_mpi(_basics.MPI_LIB_CTYPES)
with running(hvd, "topo", HOROVOD_STALL_CHECK_TIME_SECONDS="1"):
    last = hvd.size() - 1 == RANK
    problems = wrong_steps(step(False), float(hvd.size()))
    errors = {"dense before": error_of(step(last))}
    problems += wrong_steps(step(True), float(hvd.size()))
    problems += wrong_steps(step(False), float(hvd.size()))
report(errors=errors, wrong=problems)
