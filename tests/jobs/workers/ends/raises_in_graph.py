"""A part of a graph raises on the last rank while another tensor of its bucket is under way.

In each mode. Reports the error of each rank, and what became of the plan.
"""

import faulthandler
import sys
import time

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from common import RANK, graph_plans, report, running, start_mpi
from horovod.tensorflow.mpi_ops import _basics

STEPS, FAULT = 12, 8


def late(step: tf.Tensor, mine: tf.Tensor) -> tf.Tensor:
    def see(step: np.ndarray, array: np.ndarray) -> np.ndarray:
        if step == FAULT and RANK == hvd.size() - 1:
            time.sleep(1)  # the other tensor is on its way by then
            raise KeyError("a bug in the graph")
        return array

    delayed = tf.numpy_function(see, [step, mine], tf.float32)
    delayed.set_shape(mine.shape)
    return delayed


def train() -> dict:
    @tf.function(autograph=False)
    def both(step: tf.Tensor, mine: tf.Tensor) -> list[tf.Tensor]:
        return [hvd.allreduce(mine, op=hvd.Sum, name="early"),
                hvd.allreduce(late(step, 2 * mine), op=hvd.Sum, name="late")]

    right, error, step = True, "", 0
    try:
        for step in range(STEPS):
            sums = both(tf.constant(step), tf.fill([3], 1.0 + RANK))
            total = sum(range(1, hvd.size() + 1))
            right &= [tensor.numpy().tolist() for tensor in sums] == [[total] * 3, [2 * total] * 3]
    except tf.errors.OpError as problem:
        error = str(problem)
    plans = [[plan.state, plan.reason, plan.buckets] for plan in graph_plans()]
    return {"right": right, "error": error, "step": step, "plans": plans}


faulthandler.dump_traceback_later(120)
start_mpi(_basics.MPI_LIB_CTYPES)
outcomes = {}
for mode in sys.argv[2:]:
    # One bucket, however long the tensors come after each other.
    with running(hvd, mode, **({} if mode == "off" else {"HOROVOD_OPT_RECUT": "0"})):
        outcomes[mode] = train()
    report(**outcomes)
