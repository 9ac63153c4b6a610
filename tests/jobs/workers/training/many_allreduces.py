"""In each mode, 10,000 tiny allreduces at once; reports how many were wrong."""

import sys

import horovod.torch as hvd
import torch
from common import RANK, report, running, start_mpi
from horovod.torch.mpi_ops import _basics

COUNT = 10_000

wrong = {}
start_mpi(_basics.MPI_LIB_CTYPES)
for mode in sys.argv[2:]:
    with running(hvd, mode):
        handles = [
            hvd.allreduce_async(torch.tensor([float(i + RANK)]), name=f"tiny.{i}", op=hvd.Sum)
            for i in range(COUNT)
        ]
        sums = [hvd.synchronize(handle).item() for handle in handles]
        ranks = hvd.size()
    right = [ranks * i + ranks * (ranks - 1) / 2 for i in range(COUNT)]
    wrong[mode] = sum(got != want for got, want in zip(sums, right))
report(**wrong)
