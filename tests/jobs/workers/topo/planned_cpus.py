"""Where the threads of a rank may run: in off, in topo, and in topo where ranks are bound. Of
more than two ranks the first are a process set."""

import os

import horovod.torch as hvd
import torch
from common import RANK, report, running, start_mpi, wait_until
from horovod.torch.mpi_ops import _basics


def masks() -> dict[str, list[list[int]]]:
    """CPUs of the threads hvd-planned, and of those that are not Horovod's."""
    cpus_by_kind = {"planned": [], "others": []}
    for tid in map(int, os.listdir("/proc/self/task")):
        try:
            with open(f"/proc/self/task/{tid}/comm") as file:
                name = file.read().strip()
            cpus = sorted(os.sched_getaffinity(tid))
        except (FileNotFoundError, ProcessLookupError):
            continue  # a thread of an import that has ended meanwhile
        if name == "hvd-planned":
            cpus_by_kind["planned"].append(cpus)
        elif not name.startswith("hvd-"):
            cpus_by_kind["others"].append(cpus)
    return cpus_by_kind


def settled_masks(planned: int) -> dict[str, list[list[int]]]:
    """masks() once there are so many threads hvd-planned, which are named after they have
    settled."""
    wait_until(lambda: len(masks()["planned"]) >= planned, f"{planned} threads hvd-planned")
    return masks()


start_mpi(_basics.MPI_LIB_CTYPES)
allowed = sorted(os.sched_getaffinity(0))
masks_by_run = {}
for name, mode in (("off", "off"), ("topo", "topo"), ("bound", "topo")):
    if name == "bound":  # as a launcher can
        os.sched_setaffinity(0, {allowed[RANK % len(allowed)]})
    with running(hvd, mode, HOROVOD_DYNAMIC_PROCESS_SETS="1"):
        if hvd.size() > 2:
            pair = hvd.add_process_set([0, 1])
            for _ in range(6 if pair.included() else 0):  # its thread comes with its first plan
                hvd.allreduce(torch.ones(3), name="recurs", process_set=pair)
        hvd.barrier()
        masks_by_run[name] = settled_masks(0 if mode == "off" else 1 + (RANK < 2 < hvd.size()))
        hvd.barrier()  # the first that shuts down ends the threads of all
report(given=allowed, **masks_by_run)
