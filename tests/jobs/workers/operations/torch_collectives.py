"""Collectives of PyTorch: many at once, and after a join. The second argument says which:

    many MODE ...   10,000 tiny allreduces in each mode; reports how many were wrong
    join            rank 0 has joined while the others gather; each reports its errors, and a sum
"""

from __future__ import annotations

import sys

import horovod.torch as hvd
import torch
from common import RANK, report, running, start_mpi
from horovod.torch.mpi_ops import _basics

COUNT, GATHERED = 10_000, 200


def count_wrong() -> int:
    handles = [
        hvd.allreduce_async(torch.tensor([float(i + RANK)]), name=f"tiny.{i}", op=hvd.Sum)
        for i in range(COUNT)
    ]
    sums = [hvd.synchronize(handle).item() for handle in handles]
    ranks = hvd.size()
    return sum(total != ranks * i + ranks * (ranks - 1) / 2 for i, total in enumerate(sums))


def reduce_many(modes: list[str]) -> None:
    wrong = {}
    start_mpi(_basics.MPI_LIB_CTYPES)
    for mode in modes:
        with running(hvd, mode):
            wrong[mode] = count_wrong()
    report(**wrong)


def join() -> None:
    hvd.init()
    errors: dict[str, int] = {}
    if RANK != 0:
        for i in range(GATHERED):
            try:
                hvd.allgather(torch.ones(RANK + 1, 2), name=f"gathered.{i}")
            except hvd.HorovodInternalError as error:
                text, _, _ = str(error).partition(" Tensor 'allgather.gathered.")
                errors[text] = errors.get(text, 0) + 1
    hvd.join()
    total = hvd.allreduce(torch.tensor([RANK + 1.0]), op=hvd.Sum, name="after").item()
    report(errors=errors, total=total)


if sys.argv[2] == "join":
    join()
else:
    reduce_many(sys.argv[3:])
