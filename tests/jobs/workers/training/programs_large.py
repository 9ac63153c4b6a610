"""A gradient of 2.6 GB, more bytes than 32 bits count."""

from __future__ import annotations

import horovod.torch as hvd
import numpy as np
import torch
from common import RANK
from horovod.torch.mpi_ops import _basics
from programs_common import compare

NUMBERS = 650_000_000  # of 32 bits
STEPS = 5  # the first two are negotiated


def large() -> list[np.ndarray]:
    """Returns some of the weights, the first and the last ones among them."""
    weight = torch.nn.Parameter(torch.zeros(NUMBERS))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([weight], lr=0.5, foreach=False), named_parameters=[("large", weight)])
    scale = torch.ones(())
    for step in range(STEPS):
        optimizer.zero_grad()
        (weight.sum() * (scale + RANK + step)).backward()
        optimizer.step()
    found = weight.detach()
    assert bool((found == found[0]).all())
    return [found[:8].numpy().copy(), found[::10_000_019].numpy().copy(), found[-8:].numpy().copy()]


torch.set_num_threads(1)
compare(hvd, _basics.MPI_LIB_CTYPES, [large])
