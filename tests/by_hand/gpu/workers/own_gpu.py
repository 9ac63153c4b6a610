"""The GPU of a rank."""

from __future__ import annotations

import os

import horovod.torch as hvd
import torch


def choose() -> int:
    """By number; after hvd.init(). NCCL refuses two ranks of a host on one GPU; so where there are
    fewer GPUs than ranks, each rank says that it is a host, and they exchange data over sockets."""
    gpus = torch.cuda.device_count()
    if hvd.local_size() > gpus:
        os.environ.update(NCCL_HOSTID=f"rank-{hvd.rank()}", NCCL_SOCKET_IFNAME="lo")
    torch.cuda.set_device(hvd.local_rank() % gpus)
    return torch.cuda.current_device()
