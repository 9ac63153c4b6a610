"""Steps of a function of TensorFlow that fail between its collectives, and the steps after that.

Reports by mode and case: the errors, by their kind, what was wrong in the sums (nothing), and the
states of the function's plan.
"""

from __future__ import annotations

import faulthandler
import sys

import horovod.tensorflow as hvd
import tensorflow as tf
from common import RANK, graph_plans, report, running, start_mpi
from horovod.tensorflow.mpi_ops import _basics

STEPS, FAULTS = 40, (10, 24)


def chain(own: tf.Tensor, bad: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """The second sum needs the first."""
    first = hvd.allreduce(own, op=hvd.Sum, name="chain.first")
    with tf.control_dependencies([tf.debugging.assert_less(bad + 0 * first[0], 1.0)]):
        second = hvd.allreduce(own * 2 + first * 0, op=hvd.Sum, name="chain.second")
    return first, second


def fork(own: tf.Tensor, bad: tf.Tensor) -> tuple[tf.Tensor, ...]:
    """Each by itself: it is open which of them have been sent when the step fails."""
    first = hvd.allreduce(own, op=hvd.Sum, name="fork.first")
    with tf.control_dependencies([tf.debugging.assert_less(bad, 1.0)]):
        second = hvd.allreduce(own * 2, op=hvd.Sum, name="fork.second")
    return first, second


def run(function, fails: bool) -> dict:
    """`fails`: on this rank."""
    total = hvd.size() * (hvd.size() + 1) / 2
    errors, wrong = [], []
    for step in range(STEPS):
        bad = 2.0 if fails and step in FAULTS else 0.0
        try:
            sums = function(tf.fill([3], float(step * (RANK + 1))), tf.constant(bad))
        except tf.errors.OpError as error:
            errors.append(f"{type(error).__name__}: {error}")
            continue
        for factor, result in enumerate(sums, 1):
            if result.numpy().tolist() != [factor * step * total] * 3:
                wrong.append([step, result.numpy().tolist(), factor * step * total])
    return {"errors": errors, "wrong": wrong}


CASES = {"all fail": lambda: True, "one fails": lambda: hvd.size() - 1 == RANK}

faulthandler.dump_traceback_later(120)
start_mpi(_basics.MPI_LIB_CTYPES)
results = {}
for mode in sys.argv[2:]:
    for case, fails in CASES.items():
        # In mode off ranks wait for ever for what others have not sent.
        functions = (chain, fork) if mode != "off" else (chain,) if case == "all fail" else ()
        for function in functions:
            with running(hvd, mode):
                name = function.__name__
                result = run(tf.function(function), fails())  # traced anew, in this mode
                states = [plan.state for plan in graph_plans() if plan.name.endswith(name)]
                results[f"{mode} {case} {name}"] = {**result, "states": states}
report(**results)
