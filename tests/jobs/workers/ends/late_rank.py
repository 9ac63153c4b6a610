"""One rank is late in every step; in each mode, how the other waited."""

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


def be_late(how: str) -> None:
    if how == "busy":  # in the training script: the background thread runs on
        time.sleep(LATE_SECONDS)
    else:  # the whole process, its background thread included
        me = os.getpid()
        subprocess.run(
            ["sh", "-c", f"kill -STOP {me}; sleep {LATE_SECONDS}; kill -CONT {me}"], check=True
        )


results = {}
start_mpi(_basics.MPI_LIB_CTYPES)
for mode in sys.argv[2:]:
    for how in "busy", "stopped":
        with running(hvd, mode):
            hvd.barrier()
            before = horovod_opt.stats()
            sums = []
            for step in range(STEPS):
                if RANK == 1:
                    be_late(how)
                own = torch.full((3,), float(RANK + step))
                sums.append(hvd.allreduce(own, name="step", op=hvd.Sum).tolist())
            after = horovod_opt.stats()
        results[f"{mode} {how}"] = {
            "sums": sums,
            "before": dataclasses.asdict(before),
            "after": dataclasses.asdict(after),
        }
report(**results)
