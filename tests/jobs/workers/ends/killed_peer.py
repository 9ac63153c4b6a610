"""Rank 2 is killed while the others call; they have process sets, and live to report."""

import os
import signal

import horovod.torch as hvd
import torch
from common import RANK, report

# The launcher ends the others by SIGTERM, and SIGKILL some seconds later.
signal.signal(signal.SIGTERM, signal.SIG_IGN)


def error_of(call) -> str:
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition('.')[0]}"
    return ""


def work() -> None:
    for step in range(1000):
        if RANK == 2 and step == 10:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.allreduce(torch.ones(1), name="step")


both = hvd.ProcessSet([0, 1])
hvd.init(process_sets=[both, hvd.ProcessSet([1, 2])])
errors = {"error": error_of(work)}
errors["set"] = error_of(lambda: hvd.allreduce(torch.ones(1), process_set=both))
hvd.shutdown()
report(**errors)
