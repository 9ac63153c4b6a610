"""Planned sums of tensors whose data comes late; reports the wrong ones, by step."""

from __future__ import annotations

import ast
import sys

import horovod.torch as hvd
import torch
from common import RANK, report, running, start_mpi
from horovod.torch.mpi_ops import _basics
from late_tensors import LateTensors

import horovod_opt

STEPS = 20  # the buckets are rebuilt in one of them
ELEMENTS, LATE_US = (1000, 900, 800), (9000, 6000, 3000)

library, settings = sys.argv[2], ast.literal_eval(sys.argv[3])


def observe() -> dict:
    tensors = LateTensors(library, ELEMENTS, LATE_US)
    tensors.add_plan([[0, 1], [2]])  # two that are fused, and one that is not
    before = horovod_opt.stats().planned_iterations
    wrong, early = {}, 0
    for number in range(1, STEPS + 1):
        value, total = number * (1 + RANK), number * sum(range(1, 1 + hvd.size()))
        sums = tensors.sums([torch.full((elements,), float(value)) for elements in ELEMENTS])
        if any(bool((tensor != total).any()) for tensor in sums):
            wrong[number] = [float(tensor[0]) for tensor in sums]
        early += tensors.returned_early
        # Autotuning needs what is negotiated, under one name: no call that recurs.
        hvd.allreduce(torch.zeros(number), name="negotiated")
    (plan,) = horovod_opt.plans()
    planned = horovod_opt.stats().planned_iterations - before
    return {"steps": STEPS, "planned_iterations": planned, "state": plan.state, "wrong": wrong,
            "early": early}


torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
reports = {}
for name, variables in settings.items():
    with running(hvd, "topo", **variables):
        reports[name] = observe()
report(**reports)
