"""The last rank is killed in the middle of a planned iteration; the others report what they got."""

import os
import signal

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from common import RANK, graph_plans, report, report_in_any_case

END = 12


def die(total: np.ndarray, step: np.ndarray) -> np.ndarray:
    if RANK == hvd.size() - 1 and step == END:
        os.kill(os.getpid(), signal.SIGKILL)
    return total


@tf.function(autograph=False)
def trained(mine: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    total = hvd.allreduce(mine, op=hvd.Sum, name="first")
    total = tf.ensure_shape(tf.numpy_function(die, [total, step], tf.float32), mine.shape)
    return hvd.allreduce(total, op=hvd.Sum, name="second")


report_in_any_case()
hvd.init()
step, outcome = 0, "no error"
try:
    for step in range(1000):
        trained(tf.fill([3], float(RANK + step)), tf.constant(step))
except tf.errors.OpError as error:
    outcome = str(error)
    raise
finally:
    report(outcome=outcome, step=step, states=[plan.state for plan in graph_plans()])
