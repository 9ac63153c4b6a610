"""What goes wrong in the middle of a planned iteration, one after the other in the same processes.

The last rank is at fault; each rank reports what it got. Horovod starts anew for each fault.
Argument: as JSON, by kind, the settings in which all faults happen; or `killed`: the last rank is,
and nothing else happens.
"""

import faulthandler
import json
import os
import re
import signal
import sys
import threading

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from common import (
    FOLDER,
    RANK,
    SIZE,
    STALL_LIMITS,
    graph_plans,
    report,
    report_in_any_case,
    running,
    start_mpi,
    touch,
    wait_for_output,
    wait_for_ranks,
)
from horovod.tensorflow.mpi_ops import _basics

import horovod_opt

STEPS, FAULT, AGAIN = 20, 12, 30
CHECK = {"HOROVOD_STALL_CHECK_TIME_SECONDS": "1"}


def training(name: str, between):
    """A step of two reductions; on the last rank, `between` is called with the first one's sum."""

    def call(total: np.ndarray, step: np.ndarray) -> np.ndarray:
        if RANK == hvd.size() - 1 and step == FAULT:
            between()
        return total

    @tf.function(autograph=False)
    def trained(mine: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        total = hvd.allreduce(mine, op=hvd.Sum, name=f"{name}.first")
        total = tf.ensure_shape(tf.numpy_function(call, [total, step], tf.float32), mine.shape)
        return hvd.allreduce(total, op=hvd.Sum, name=f"{name}.second")

    return trained


def outcome(name: str, between) -> dict:
    """How far training came, why no further, and what is said to those who try again after others
    have shut down. Steps of the next life may have the memory of those that have failed here."""
    trained = training(name, between)
    sums = []

    def error_of(step: int) -> str:
        try:
            sums.append(trained(tf.fill([3], float(RANK + step)), tf.constant(step)).numpy())
        except tf.errors.OpError as problem:
            return f"{type(problem).__name__}: {problem}"
        return ""

    error = next(filter(None, map(error_of, range(STEPS))), "")
    touch(name)
    again = [error_of(STEPS) for _ in range(AGAIN)] if "has been shut down" in error else []
    states = [plan.state for plan in horovod_opt.plans() if plan.name == "trained"]
    return {"sums": [list(map(float, total)) for total in sums], "error": error, "again": again,
            "states": states}


def fail() -> None:
    raise ValueError("a bug in the training script")


def shutdown() -> None:
    """From another thread, while this one is in the middle of the iteration."""
    thread = threading.Thread(target=hvd.shutdown)
    thread.start()
    thread.join()


def held() -> dict[str, int]:
    """What a life of Horovod must not leave behind: open files, mapped files that have no name."""
    mapped = {line.split()[4] for line in open("/proc/self/maps") if "(deleted)" in line}
    return {"files": len(os.listdir("/proc/self/fd")), "mapped": len(mapped)}


def outcomes(kind: str, settings: dict[str, str]) -> dict[str, dict]:
    def run(name: str, between, **environment: str) -> dict:
        with running(hvd, "topo", **settings, **environment):
            life = outcome(f"{kind}.{name}", between)
        return {**life, "held": held()}

    missing = re.escape(f"{kind}.late.second (plan trained, iteration {FAULT + 1}): missing")
    return {
        "raise": run("raise", fail),
        "shutdown": run("shutdown", shutdown),
        "late": run("late", lambda: wait_for_output(missing), **CHECK),
        "never": run("never", lambda: wait_for_ranks(f"{kind}.never", range(SIZE - 1)),
                     **STALL_LIMITS),  # until they have the error
        "well": run("well", lambda: None, HOROVOD_TIMELINE=str(FOLDER / f"{kind}.json")),
    }


def be_killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def train_until_killed() -> None:
    report_in_any_case()
    hvd.init()
    trained = training("killed", be_killed)
    step, outcome = 0, "no error"
    try:
        for step in range(1000):
            trained(tf.fill([3], float(RANK + step)), tf.constant(step))
    except tf.errors.OpError as error:
        outcome = str(error)
        raise
    finally:
        report(outcome=outcome, step=step, states=[plan.state for plan in graph_plans()])


if sys.argv[2] == "killed":
    train_until_killed()
else:
    faulthandler.dump_traceback_later(140)
    start_mpi(_basics.MPI_LIB_CTYPES)
    report(**{kind: outcomes(kind, settings)
              for kind, settings in json.loads(sys.argv[2]).items()})
