"""Faults that leave their rank alive, one after the other in the same processes, in every mode."""

import faulthandler
import os
import resource
import subprocess
import sys
import time

import horovod.torch as hvd
import torch
from common import RANK, STALL_LIMITS, report, running, start_mpi, wait_until
from fault_common import fail, network, train
from horovod.torch.mpi_ops import _basics

MIB = 1 << 20
STOPPED_SECONDS = 5


def be_stopped() -> None:
    me = os.getpid()
    subprocess.run(
        ["sh", "-c", f"kill -STOP {me}; sleep {STOPPED_SECONDS}; kill -CONT {me}"], check=True
    )


def run_out_of_memory() -> None:
    """Nothing is left for any thread of the process until the exception has been handled."""
    pages = int(open("/proc/self/statm").read().split()[0])
    unlimited = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + 64 * MIB
    resource.setrlimit(resource.RLIMIT_AS, (limit, unlimited[1]))
    try:
        hoard = []
        while True:
            hoard.append(bytearray(MIB))
    finally:
        time.sleep(0.5)  # Horovod's threads go on meanwhile
        resource.setrlimit(resource.RLIMIT_AS, unlimited)


def call_alone() -> None:
    handle = hvd.allreduce_async(torch.ones(3), name="alone")
    wait_until(lambda: hvd.poll(handle), "the stall is noticed")
    hvd.synchronize(handle)


def other_network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(8, 9), torch.nn.Tanh(), torch.nn.Linear(9, 4))


FAULTS = {
    "nothing": {},
    "stopped": {"in_backward": be_stopped},
    "raises": {"in_backward": fail},
    "memory": {"in_backward": run_out_of_memory},
    "shape": {"of_loss": lambda loss: loss.reshape(1).repeat(2)},
    "type": {"of_loss": lambda loss: loss.double()},
    "alone": {"in_backward": call_alone},
}

faulthandler.dump_traceback_later(120)
torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
outcomes = {}
for mode in sys.argv[2:]:
    for fault, how in FAULTS.items():
        with running(hvd, mode, **(STALL_LIMITS if fault == "alone" else {})):
            outcomes[f"{mode} {fault}"] = train(f"{mode} {fault}", **how)
    with running(hvd, mode):
        model = other_network() if RANK == hvd.size() - 1 else network()
        outcomes[f"{mode} model"] = train(f"{mode} model", model=model)
report(**outcomes)
