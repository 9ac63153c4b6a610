"""The last rank sends something else than planned in one step; the script catches and goes on.

Argument: as JSON, by kind, the settings in which each case happens; kind "off" is mode off.
"""

import faulthandler
import json
import sys

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from common import RANK, graph_plans, report, running, start_mpi
from horovod.tensorflow.mpi_ops import _basics

STEPS, FAULT = 25, 15


def training(name: str, pretended: bool):
    """Three reductions: of the argument, of the sum, and one that needs neither. If `pretended`,
    the graph says [3] of the first, whatever it is."""

    @tf.function(autograph=False)
    def trained(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        sent = x
        if pretended:
            sent = tf.numpy_function(lambda array: array, [x], tf.float32)
            sent.set_shape([3])
        first = hvd.allreduce(sent, op=hvd.Sum, name=f"{name}.first")
        second = hvd.allreduce(tf.reduce_sum(first), op=hvd.Sum, name=f"{name}.second")
        third = tf.ones([5]) * tf.cast(tf.reduce_sum(x), tf.float32)
        return first, second, hvd.allreduce(third, op=hvd.Sum, name=f"{name}.other")

    if pretended:  # one graph, whatever comes
        return trained.get_concrete_function(tf.TensorSpec([None], tf.float32))
    return trained


def value(size: int, step: int, dtype: str = "float32") -> tf.Tensor:
    return tf.cast(tf.constant(np.full(size, RANK + step)), dtype)


def run(name: str, faulty, pretended: bool, everywhere: bool = False) -> dict:
    """What each step gave. `faulty(step)` is what the last rank, or each, sends in step FAULT."""
    trained = training(name, pretended)
    at_fault = everywhere or RANK == hvd.size() - 1
    outcomes: list[object] = []
    for step in range(STEPS):
        sent = faulty(step) if step == FAULT and at_fault else value(3, step)
        try:
            outcomes.append([float(tensor.numpy().sum()) for tensor in trained(sent)])
        except tf.errors.OpError as error:
            outcomes.append(f"{type(error).__name__}: {error.message}")
    first = f"{name}.first"
    plans = [plan for plan in graph_plans() if plan.iterations
             and any(first in slot for bucket in plan.buckets for slot in bucket)]
    return {"seen": outcomes, "states": [plan.state for plan in plans],
            "reasons": [plan.reason for plan in plans],
            "planned_iterations": [plan.iterations for plan in plans]}


def cases(kind: str) -> dict[str, dict]:
    return {
        "shape": run(f"{kind}.shape", lambda step: value(4, step), pretended=True),
        "everywhere": run(f"{kind}.everywhere", lambda step: value(4, step), pretended=True,
                          everywhere=True),
        "retraced shape": run(f"{kind}.retraced", lambda step: value(4, step), pretended=False),
        "retraced type": run(f"{kind}.type", lambda step: value(3, step, "float64"),
                             pretended=False),
        "retraced bfloat16": run(f"{kind}.bfloat16", lambda step: value(3, step, "bfloat16"),
                                 pretended=False),
    }


faulthandler.dump_traceback_later(140)
start_mpi(_basics.MPI_LIB_CTYPES)
reports: dict[str, object] = {}
for kind, settings in json.loads(sys.argv[2]).items():
    with running(hvd, "off" if kind == "off" else "topo", **settings):
        reports[kind] = cases(kind)
report(**reports)
