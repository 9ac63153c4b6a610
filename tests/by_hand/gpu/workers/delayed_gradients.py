"""Sums the same in mode off and in topo, and compares.

Arguments: library of late tensors, steps.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import sys

import horovod.torch as hvd
import torch
from common import RANK, report, running, start_mpi
from horovod.torch.mpi_ops import _basics
from late_gradients import NO_LIBRARY, late_tensors

import horovod_opt

ELEMENTS = (1000, 1400, 2000, 1200, 1600, 2200)
BUCKETS = ((0, 1), (2,), (3, 4), (5,))
LATE_US = (300,) * len(ELEMENTS)
OF_INTEGERS = {1, 2, 4}
THRESHOLD = "12288"  # bytes, for buckets like these
EPSILON = 2.0**-23

library, steps = sys.argv[2], int(sys.argv[3])


@functools.cache
def base(rank: int, number: int) -> torch.Tensor:
    seed = torch.Generator().manual_seed(100 * rank + number)
    if number in OF_INTEGERS:
        return torch.randint(-1000, 1000, (ELEMENTS[number],), generator=seed).float()
    return 2 * torch.rand(ELEMENTS[number], generator=seed) - 1


def values(rank: int, step: int) -> list[torch.Tensor]:
    """Other ones in each step, so that the last step's are seen to be wrong."""
    return [base(rank, number) * (1 + step % 7) for number in range(len(ELEMENTS))]


def bits(tensor: torch.Tensor) -> bytes:
    return ctypes.string_at(tensor.data_ptr(), 4 * tensor.numel())


def run() -> tuple[list[list[torch.Tensor]], dict]:
    """All sums, and what can be said of them on this rank alone."""
    tensors = late_tensors(library, ELEMENTS, LATE_US, [0 if library == NO_LIBRARY else -1] *
                        len(ELEMENTS), BUCKETS)
    before = horovod_opt.stats().planned_iterations
    sums_by_step, digest = [], hashlib.sha256()
    inexact, error, early = 0, 0.0, 0
    for step in range(steps):
        sums = tensors.sums(values(RANK, step))
        early += tensors.returned_early and step >= steps // 2  # planned for long
        of_each = [torch.stack(of_ranks).double() for of_ranks in
                   zip(*(values(rank, step) for rank in range(hvd.size())))]
        exact = True
        for number, (total, parts) in enumerate(zip(sums, of_each)):
            off_by = (total.double() - parts.sum(0)).abs()
            digest.update(bits(total))
            if number in OF_INTEGERS:
                exact = exact and not bool(off_by.any())
            else:
                bound = (hvd.size() - 1) * EPSILON * parts.abs().sum(0)
                error = max(error, float((off_by / bound).max()))
        inexact += not exact
        sums_by_step.append(sums)
    planned = horovod_opt.stats().planned_iterations - before
    return sums_by_step, {"digest": digest.hexdigest(), "inexact": inexact, "error": error,
                          "early": early, "planned": planned}


torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
with running(hvd, "off"):
    in_off, off = run()
with running(hvd, "topo", HOROVOD_FUSION_THRESHOLD=THRESHOLD):
    in_topo, topo = run()
same = all(torch.equal(tensor, reference) for step in zip(in_off, in_topo)
           for tensor, reference in zip(*step))
report(off=off, topo=topo, same=same)
