"""Trains, and reports what can be seen of the memory that ranks share in mode topo."""

import ctypes
import os
import sys
import time
from pathlib import Path

import horovod.torch as hvd
import torch
from common import RANK, report, start_mpi
from fault_common import train
from horovod.torch.mpi_ops import _basics

import horovod_opt

CLONE_NEWNET = 0x40000000


def leave_network() -> None:
    """Like a container with a network of its own; what is connected already stays so."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "cannot make a network namespace")


def open_names() -> list[str]:
    """What the descriptors of this process are."""
    names = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            names.append(os.readlink(link))
        except FileNotFoundError:  # the one that reads the folder
            continue
    return names


def mapped_files() -> set[tuple[str, str]]:
    """Inode and name. Other threads map and unmap meanwhile, and a reading may miss a line then."""
    files = set()
    for _ in range(20):
        lines = [line.split(maxsplit=5)
                 for line in Path("/proc/self/maps").read_text().splitlines()]
        files |= {(line[4], line[5]) for line in lines if len(line) == 6}
        time.sleep(0.01)
    return files


torch.set_num_threads(1)
start_mpi(_basics.MPI_LIB_CTYPES)
if RANK == 1 and "apart" in sys.argv:
    leave_network()
hvd.init()
outcome = train("training")
files = mapped_files()
report(
    **outcome,
    memory=[inode for inode, name in files if name == "/memfd:horovod-opt (deleted)"],
    shm=[name for _, name in files if name.startswith("/dev/shm/")],
    opened=[name for name in open_names() if "horovod-opt" in name],
    planned_iterations=horovod_opt.stats().planned_iterations,
)
hvd.shutdown()
