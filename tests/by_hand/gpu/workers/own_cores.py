"""In each mode, the CPUs of the background thread and of all others. Arguments: modes."""

from __future__ import annotations

import os
import sys

import horovod.torch as hvd
import torch
from common import graph_plans, report, running, start_mpi
from horovod.torch.mpi_ops import _basics

STEPS = 6


def cpus_of_threads() -> tuple[list[int], list[int]]:
    """Of hvd-background and those that it has started (hvd-...), and of all others."""
    background, others = set(), set()
    for task in map(int, os.listdir("/proc/self/task")):
        try:
            with open(f"/proc/self/task/{task}/comm") as file:
                own = file.read().startswith("hvd-")
            (background if own else others).update(os.sched_getaffinity(task))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended meanwhile
    return sorted(background), sorted(others)


def train() -> None:
    layer = torch.nn.Linear(8, 8)
    sgd = hvd.DistributedOptimizer(torch.optim.SGD(layer.parameters(), lr=0.1),
                                   named_parameters=layer.named_parameters())
    for _ in range(STEPS):
        sgd.zero_grad()
        layer(torch.ones(4, 8)).sum().backward()
        sgd.step()


reports = {}
start_mpi(_basics.MPI_LIB_CTYPES)
for mode in sys.argv[2:]:
    with running(hvd, mode):
        train()
        background, others = cpus_of_threads()
        reports[mode] = {"background": background, "others": others,
                         "states": [plan.state for plan in graph_plans()]}
        hvd.barrier()  # the first that shuts down ends the background thread of all
report(**reports)
