"""Planned sums of tensors whose data comes late; reports the wrong ones, by step."""

from __future__ import annotations

import ast
import ctypes
import sys

import horovod.torch as hvd
import torch
from common import RANK, report, running, start_mpi
from horovod.torch.mpi_ops import _basics

import horovod_opt
from graph_analysis.reductions import DTYPES, SUM

STEPS = 20  # the buckets are rebuilt in one of them
TENSORS, ELEMENTS, LATE_MS = 3, 1000, 3
FIRST_KEY = 1
FLOAT32 = DTYPES["float32"].number

library_file, settings = sys.argv[2], ast.literal_eval(sys.argv[3])
library = ctypes.CDLL(library_file)
library.late_data_sum.restype = ctypes.c_bool
library.late_data_sum.argtypes = [ctypes.c_int64, ctypes.c_int, ctypes.c_int64, ctypes.c_float,
                                  ctypes.c_int, ctypes.POINTER(ctypes.c_float)]


def add_plan() -> None:
    """Two tensors that are fused, and one that is not."""
    slots = [f"slot\t{FIRST_KEY + i}\t{4 * ELEMENTS}\t{FLOAT32}\t{SUM}\t1.0\t1.0\t-\tkey.{i}"
             for i in range(TENSORS)]
    text = "\n".join(["plan\tlate\t1000000\t0\tlate data", *slots, "bucket\t0,1", "bucket\t2", ""])
    problem = _basics.MPI_LIB_CTYPES.horovod_opt_add_plan(text.encode())
    assert not problem, problem


def wrong_sums(number: int) -> list[float]:
    """The first element of each tensor, if any of its elements is wrong. `number`: of the step."""
    results = (ctypes.c_float * (TENSORS * ELEMENTS))()
    value = float(number * (1 + RANK))
    assert library.late_data_sum(FIRST_KEY, TENSORS, ELEMENTS, value, LATE_MS, results)
    sums = torch.tensor(list(results)).reshape(TENSORS, ELEMENTS)
    expected = number * sum(range(1, 1 + hvd.size()))
    return [] if bool((sums == expected).all()) else sums[:, 0].tolist()


def observe() -> dict:
    add_plan()
    before = horovod_opt.stats().planned_iterations
    wrong = {}
    for number in range(1, STEPS + 1):
        found = wrong_sums(number)
        if found:
            wrong[number] = found
        # Autotuning needs what is negotiated, under one name: no call that recurs.
        hvd.allreduce(torch.zeros(number), name="negotiated")
    (plan,) = horovod_opt.plans()
    planned = horovod_opt.stats().planned_iterations - before
    return {"steps": STEPS, "planned_iterations": planned, "state": plan.state, "wrong": wrong}


torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
reports = {}
for name, variables in settings.items():
    with running(hvd, "topo", **variables):
        reports[name] = observe()
report(**reports)
