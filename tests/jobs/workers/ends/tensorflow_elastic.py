"""hvd.elastic of TensorFlow: what run() makes of errors, and what a state's ranks agree on.

The second argument says which: errors|state.
"""

from __future__ import annotations

import sys

import horovod.tensorflow as hvd
import tensorflow as tf
from common import RANK, report
from horovod.tensorflow import elastic

ERRORS = {
    "shut down": tf.errors.UnknownError(None, None, "Horovod has been shut down. [[{{node a}}]]"),
    "peer": tf.errors.UnknownError(
        None, None, "[../third_party/gloo/gloo/transport/tcp/pair.cc:589] Read error [127.0.0.1]"
        ":1: Connection reset by peer\n\t [[{{node a}}]] [Op:__inference_once_2099]"),
    "planned": tf.errors.UnknownError(
        None, None, "Horovod: a planned reduction failed: x\n\t [[{{node a}}]]"),
    "other": tf.errors.UnknownError(None, None, "Failed to get convolution algorithm."),
    "of the script": KeyError("a bug"),
}


def kind_of(error: Exception) -> str:
    """What run() makes of an error of its function, by name."""
    def train(state: object) -> None:
        raise error

    try:
        elastic.run(train)(None)
    except Exception as raised:
        return type(raised).__name__
    return "nothing"


def report_errors() -> None:
    elastic.run_fn = lambda function, reset: function  # what follows an error is not of interest
    report(errors={name: kind_of(error) for name, error in ERRORS.items()})


def report_state() -> None:
    """The ranks make a state of variables, each when it likes, and sync() it; the variable after
    each."""
    hvd.init()
    variable = tf.Variable([RANK + 1.0])

    def make() -> elastic.TensorFlowState:
        return elastic.TensorFlowState([variable], batch=RANK, losses=[RANK], seen={"by": {RANK}})

    def meet() -> None:
        hvd.allreduce(tf.zeros([1]), name="meeting")

    # As a worker that comes later: the other one is past it by then.
    if RANK == 0:
        state = make()
        meet()
    else:
        meet()
        state = make()
    at_first = variable.numpy().tolist()
    state.sync()
    synced = variable.numpy().tolist()
    for _ in range(2):  # what is handed out is not what is kept
        variable.assign([9.0])
        state.losses.append(9)
        state.seen["by"].add(9)
        state.restore()
    report(made=at_first, synced=synced, restored=variable.numpy().tolist(), batch=state.batch,
           losses=state.losses, seen=sorted(state.seen["by"]))


{"errors": report_errors, "state": report_state}[sys.argv[2]]()
