"""Planned sums of tensors on GPU 0 (or of the local rank) whose data comes one after the other:
when, by whom and in which order they are reduced, and whether they are right.

Arguments: library of late tensors, steps, settings of Horovod by name (JSON).
"""

from __future__ import annotations

import json
import os
import statistics
import sys

import horovod.torch as hvd
import torch
from common import RANK, graph_plans, report, running, start_mpi
from horovod.torch.mpi_ops import _basics
from late_gradients import NO_LIBRARY, choose_gpu, device_of, late_tensors

import horovod_opt

ELEMENTS = (1000, 1400, 2000, 2600, 3100, 3600)
BUCKETS = ((0, 1), (2,), (3,), (4,), (5,))  # no two of them have as many elements
LATE_US = (2000,) * len(ELEMENTS)
THRESHOLD = "12288"  # bytes, for these buckets
LAST = 10  # steps that are looked at

library, steps, settings = sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])


def background_thread() -> int:
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as name:
            if name.read().strip() == "hvd-background":
                return int(task)
    return 0


def elements_of(buckets) -> list[int]:
    """Of each bucket; its tensors are called *key.N, from 1 on."""
    numbers = [[int(name.rpartition(".")[2]) - 1 for name in bucket] for bucket in buckets]
    return [sum(ELEMENTS[number] for number in bucket) for bucket in numbers]


def observe() -> dict:
    gpu = choose_gpu() if library == NO_LIBRARY else 0
    tensors = late_tensors(library, ELEMENTS, LATE_US, [gpu] * len(ELEMENTS), BUCKETS)
    before = horovod_opt.stats().planned_iterations
    wrong, ahead, in_order, by_one = 0, [], 0, 0
    for step in range(1, steps + 1):
        mine, total = step * (1 + RANK), step * sum(range(1, 1 + hvd.size()))
        sums = tensors.sums([torch.full((elements,), float(mine)) for elements in ELEMENTS])
        wrong += any(bool((tensor != total).any()) for tensor in sums)
        ahead.append(tensors.ahead_ms)
        in_order += getattr(tensors, "places", None) == list(range(len(ELEMENTS)))
        by_one += all(getattr(tensors, "by_background", ()))
        # Negotiated, since it has another size in each step: through the same communicator.
        hvd.allreduce(torch.ones(step, device=device_of(library, gpu)), name="negotiated")
    (plan,) = graph_plans()
    return {"wrong": wrong, "state": plan.state, "reason": plan.reason,
            "planned": horovod_opt.stats().planned_iterations - before,
            "ahead_ms": statistics.median(ahead[-LAST:]), "buckets": elements_of(plan.buckets),
            "in_order": in_order, "by_background": by_one, "thread": background_thread()}


torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
reports = {}
for name, variables in settings.items():
    with running(hvd, "topo", HOROVOD_FUSION_THRESHOLD=THRESHOLD, **variables):
        reports[name] = observe()
report(**reports)
