"""One rank is late, and the other waits. The second argument says how:

    modes MODE ...   rank 1, in each step; in each mode, how the other waited
    pause SECONDS    rank 0, once in the middle of training, as for a validation
"""

import dataclasses
import os
import subprocess
import sys
import time

import horovod.torch as hvd
import torch
from common import RANK, report, running, start_mpi
from horovod.torch.mpi_ops import _basics

import horovod_opt

STEPS = 4
LATE_SECONDS = 0.3
PAUSED_STEPS, PAUSES_IN = 60, 50


def be_late(how: str) -> None:
    if how == "busy":  # in the training script: the background thread runs on
        time.sleep(LATE_SECONDS)
    else:  # the whole process, its background thread included
        me = os.getpid()
        subprocess.run(
            ["sh", "-c", f"kill -STOP {me}; sleep {LATE_SECONDS}; kill -CONT {me}"], check=True
        )


def total(step: int) -> list[float]:
    return hvd.allreduce(torch.full((3,), float(RANK + step)), name="step", op=hvd.Sum).tolist()


def wait_in(modes: list[str]) -> None:
    results = {}
    start_mpi(_basics.MPI_LIB_CTYPES)
    for mode in modes:
        for how in "busy", "stopped":
            with running(hvd, mode):
                hvd.barrier()
                before = horovod_opt.stats()
                sums = []
                for step in range(STEPS):
                    if RANK == 1:
                        be_late(how)
                    sums.append(total(step))
                after = horovod_opt.stats()
            results[f"{mode} {how}"] = {
                "sums": sums,
                "before": dataclasses.asdict(before),
                "after": dataclasses.asdict(after),
            }
    report(**results)


def pause(seconds: float) -> None:
    hvd.init()
    sums = []
    for step in range(PAUSED_STEPS):
        if step == PAUSES_IN:
            before = horovod_opt.stats().planned_buckets
            if RANK == 0:
                time.sleep(seconds)
        sums.append(total(step))
    stats = horovod_opt.stats()
    hvd.shutdown()
    report(sums=sums, planned=[before, stats.planned_buckets], messages=stats.messages,
           agreements=stats.agreements)


if sys.argv[2] == "pause":
    pause(float(sys.argv[3]))
else:
    wait_in(sys.argv[3:])
