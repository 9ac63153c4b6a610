"""In each mode, rank 0 shuts Horovod down while the others still call collectives."""

import sys
import time

import horovod.torch as hvd
import torch
from common import RANK, report, running, start_mpi
from horovod.torch.mpi_ops import _basics

outcomes = {}
start_mpi(_basics.MPI_LIB_CTYPES)
for mode in sys.argv[2:]:
    outcomes[mode] = "no error"
    with running(hvd, mode):
        try:
            for step in range(100 if RANK else 5):
                hvd.allreduce(torch.ones(4), name="step")
                time.sleep(0.01)
        except hvd.HorovodInternalError as error:
            outcomes[mode] = f"HorovodInternalError: {error}"
report(**outcomes)
