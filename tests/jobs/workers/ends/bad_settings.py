"""Starts Horovod with settings that cannot be used; reports what hvd.init() raised.

The second argument lists attempts, each of them one dict of environment variables per rank. After
the last one Horovod starts with the settings that the job was given.
"""

import json
import os
import sys

import horovod.torch as hvd
import torch
from common import RANK, report, start_mpi
from horovod.torch.mpi_ops import _basics

from horovod_opt import SettingsError
from horovod_opt.launcher import built

BUILD = built.identity()


def train() -> str:
    """With groups, whose order rank 0 tells the others: all ranks have to ask for it."""
    weights = [torch.nn.Parameter(torch.zeros(2)) for _ in range(3)]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(weights, lr=1.0), [(f"w{i}", weight) for i, weight in enumerate(weights)],
        op=hvd.Sum, groups=2)
    sum(((RANK + 1) * weight).sum() for weight in weights).backward()
    optimizer.step()
    return f"trained to {weights[0][0].item():g}"


def attempt(environment: dict[str, str]) -> str:
    os.environ.update(environment)
    built.identity = lambda: environment.get("BUILT_OF", BUILD)
    try:
        hvd.init()
        return f"summed {hvd.allreduce(torch.tensor([RANK + 1]), op=hvd.Sum).item()}, {train()}"
    except SettingsError as error:
        return f"SettingsError: {error}"
    finally:
        hvd.shutdown()
        for name in environment:
            del os.environ[name]


start_mpi(_basics.MPI_LIB_CTYPES)
attempts = json.loads(sys.argv[2])
report(outcomes=[attempt(by_rank[RANK]) for by_rank in attempts], at_last=attempt({}))
