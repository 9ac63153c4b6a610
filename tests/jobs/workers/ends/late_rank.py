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
from common import RANK, meet, report, running, start_mpi, wait_until
from horovod.torch.mpi_ops import _basics

import horovod_opt

STEPS, MOST_STEPS = 4, 100
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


def total(step: int, name: str = "step") -> list[float]:
    return hvd.allreduce(torch.full((3,), float(RANK + step)), name=name, op=hvd.Sum).tolist()


def has_waited(before: horovod_opt.Stats, step: int) -> bool:
    """Rank 0, as long as rank 1 was late in STEPS steps. On a busy machine it is late itself."""
    waited = horovod_opt.stats().wait_seconds - before.wait_seconds
    enough = torch.tensor(float(RANK == 0 and waited > 0.9 * STEPS * LATE_SECONDS))
    return hvd.allreduce(enough, name=f"enough {step}", op=hvd.Sum).item() > 0


def wait_in(modes: list[str]) -> None:
    results = {}
    start_mpi(_basics.MPI_LIB_CTYPES)
    for mode in modes:
        for how in "busy", "stopped":
            with running(hvd, mode):
                hvd.barrier()
                before = horovod_opt.stats()
                sums = []
                for step in range(MOST_STEPS):
                    if RANK == 1:
                        be_late(how)
                    # What comes after STEPS steps has names that do not recur: topo plans no call.
                    sums.append(total(step, "step" if step < STEPS else f"step {step}"))
                    if step >= STEPS - 1 and (how == "busy" or has_waited(before, step)):
                        break
                after = horovod_opt.stats()
                if "gs" in mode:
                    wait_until(lambda: horovod_opt.stats().cycles_slept > 0, "a cycle that sleeps")
                hvd.barrier()  # the first that shuts down ends the cycles of all
            results[f"{mode} {how}"] = {
                "sums": sums,
                "before": dataclasses.asdict(before),
                "after": dataclasses.asdict(after),
                "end": dataclasses.asdict(horovod_opt.stats()),
            }
    report(**results)


def pause(seconds: float) -> None:
    meet("start")  # Gloo does not wait long for a rank that still imports
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
