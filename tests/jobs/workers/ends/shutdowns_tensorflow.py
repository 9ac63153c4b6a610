"""In each mode, what calls of TensorFlow get when Horovod shuts down, and what is left after that.

Like shutdowns.py. Rank 0 shuts down in every case; three ranks.
"""

from __future__ import annotations

import faulthandler
import sys
import threading
import time
from collections.abc import Callable

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from common import RANK, report, running, start_mpi
from horovod.tensorflow.mpi_ops import _basics

ONE, SEVERAL = tf.ones([1]), tf.ones([2])
SHUT_DOWN = "Horovod has been shut down"


def error_of(call: Callable[[], object]) -> str:
    """Horovod's part of the message: TensorFlow puts the operation around it."""
    try:
        call()
    except Exception as error:
        return SHUT_DOWN if SHUT_DOWN in str(error) else f"{type(error).__name__}: {error}"
    return ""


def begin_anew(mode: str) -> float:
    with running(hvd, mode):
        return float(hvd.allreduce(tf.constant([1.0 + RANK]), op=hvd.Sum, name="anew")[0])


def joined(mode: str) -> dict:
    """Ranks 1 and 2 have joined."""
    with running(hvd, mode):
        error = ""
        if RANK == 0:
            # They take part with zeros, so they have joined when it ends.
            hvd.allreduce(ONE, name="without them")
        else:
            error = error_of(hvd.join)
    return {"error": error, "sum": begin_anew(mode)}


def waiting(mode: str) -> dict:
    """By another thread of rank 0 while this one waits."""
    called = threading.Event()

    def note(one: np.ndarray) -> np.ndarray:
        called.set()
        return one

    def shut_down() -> None:
        called.wait()
        time.sleep(0.3)
        hvd.shutdown()

    # In a graph: TensorFlow gives eager operations names of its own, the same on all ranks.
    def call() -> tf.Tensor:
        one = tf.ensure_shape(tf.numpy_function(note, [ONE], tf.float32), [1])
        return hvd.allreduce(one, op=hvd.Sum, name=f"alone.{RANK}")

    with running(hvd, mode):
        alone = tf.function(call).get_concrete_function()
        if RANK == 0:
            thread = threading.Thread(target=shut_down)
            thread.start()
        error = error_of(alone)
        if RANK == 0:
            thread.join()
    return {"error": error, "sum": begin_anew(mode)}


def process_set(mode: str) -> dict:
    """The others have a process set, and call what there is."""
    both = hvd.ProcessSet([1, 2])
    errors = {}
    with running(hvd, mode, [both]):
        hvd.allreduce(ONE, name="met")
        if RANK > 0:
            # Average asks for the number of ranks.
            average = tf.function(lambda: hvd.allreduce(ONE, name="graph", process_set=both))
            while not error_of(average):
                pass
            for name, call in {
                "graph": average,
                "allreduce": lambda: hvd.allreduce(ONE, process_set=both),
                "grouped": lambda: hvd.grouped_allreduce([ONE, ONE], process_set=both),
                "allgather": lambda: hvd.allgather(ONE, process_set=both),
                "broadcast": lambda: hvd.broadcast(ONE, 1, process_set=both),
                "alltoall": lambda: hvd.alltoall(SEVERAL, process_set=both),
                "reducescatter": lambda: hvd.reducescatter(SEVERAL, process_set=both),
                "join": hvd.join,
            }.items():
                errors[name] = error_of(call)
            errors["set"] = [both.size(), both.rank(), both.included()]
    return {"seen": errors, "sum": begin_anew(mode)}


CASES = (joined, waiting, process_set)

faulthandler.dump_traceback_later(120)
start_mpi(_basics.MPI_LIB_CTYPES)
modes = sys.argv[2].split()
only = sys.argv[3:] or [case.__name__ for case in CASES]
outcomes = {}
for mode in modes:
    for case in CASES:
        if case.__name__ in only:
            outcomes[f"{mode} {case.__name__}"] = case(mode)
            report(**outcomes)
