"""In each mode, starts Horovod and shuts it down many times; reports sums and leaked threads."""

import os
import sys

import horovod.torch as hvd
import torch
from common import report, running, start_mpi
from horovod.torch.mpi_ops import _basics

STARTS = 50

sums, threads = {}, {}
start_mpi(_basics.MPI_LIB_CTYPES)
for mode in sys.argv[2:]:
    sums[mode], threads[mode] = [], []
    for start in range(STARTS):
        with running(hvd, mode):
            sums[mode].append(hvd.allreduce(torch.tensor([start]), op=hvd.Sum).item())
        threads[mode].append(len(os.listdir("/proc/self/task")))
report(sums=sums, threads=threads)
