"""The last rank has trouble when the thread that reduces planned tensors reads one of its own.

Arguments: the library, the device of the other tensor (-1: main memory), the trouble.
"""

import ctypes
import signal
import sys

import horovod.torch as hvd
from common import RANK, report, running
from horovod.torch.mpi_ops import _basics

import horovod_opt
from graph_analysis.reductions import DTYPES, SUM

FAULT = 6
FLOAT32 = DTYPES["float32"].number
library_file, device, trouble = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
library = ctypes.CDLL(library_file)
library.troubled_sum.restype = ctypes.c_char_p


def add_plan() -> None:
    slots = [f"slot\t{key}\t40\t{FLOAT32}\t{SUM}\t1.0\t1.0\t-\tkey.{key}" for key in (1, 2)]
    text = "\n".join(["plan\ttrouble\t1000\t0\ttrouble", *slots, "bucket\t0", "bucket\t1", ""])
    assert _basics.MPI_LIB_CTYPES.horovod_opt_add_plan(text.encode()) == b""


signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the launcher ends the ranks that are left
with running(hvd, "topo"):
    add_plan()
    sums = []
    for step in range(FAULT + 1):
        if step == FAULT:
            states = [plan.state for plan in horovod_opt.plans()]
        mine = trouble if step == FAULT and RANK == hvd.size() - 1 else 0
        sums.append(library.troubled_sum(device, mine).decode())
    report(seen=sums, states=states)
