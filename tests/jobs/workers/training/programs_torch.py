"""A GAN and a compiled model; with the argument `large`, a gradient of gigabytes instead."""

from __future__ import annotations

import sys

import horovod.torch as hvd
import numpy as np
import torch
from common import RANK
from horovod.torch.mpi_ops import _basics
from programs_common import compare
from torch import nn

STEPS = 12
NUMBERS = 650_000_000  # of 32 bits
LARGE_STEPS = 5  # the first two are negotiated


def weights(*nets: nn.Module) -> list[np.ndarray]:
    return [parameter.detach().numpy().copy() for net in nets for parameter in net.parameters()]


def start(*nets: nn.Module) -> torch.Generator:
    """The weights of rank 0, and this rank's own data."""
    for net in nets:
        hvd.broadcast_parameters(net.state_dict(), root_rank=0)
    return torch.Generator().manual_seed(RANK + 1)


def gan() -> list[np.ndarray]:
    """Two optimizers. That of the discriminator adds up two backward passes, sends 16 bits and has
    its gradients clipped; its weights are frozen while those of the generator are trained."""
    torch.manual_seed(RANK)
    generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 6))
    judge = nn.Sequential(nn.Linear(6, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    random = start(generator, judge)
    generates = hvd.DistributedOptimizer(
        torch.optim.Adam(generator.parameters(), lr=0.01, betas=(0.5, 0.999)),
        named_parameters=generator.named_parameters(prefix="generator"))
    judges = hvd.DistributedOptimizer(
        torch.optim.Adam(judge.parameters(), lr=0.01, betas=(0.5, 0.999)),
        named_parameters=judge.named_parameters(prefix="judge"),
        compression=hvd.Compression.fp16, backward_passes_per_step=2)
    loss = nn.BCEWithLogitsLoss()
    for _ in range(STEPS):
        real = torch.randn(8, 6, generator=random) + 2
        fake = generator(torch.randn(8, 4, generator=random))

        judges.zero_grad(set_to_none=True)
        loss(judge(real), torch.ones(8, 1)).backward()
        loss(judge(fake.detach()), torch.zeros(8, 1)).backward()
        judges.synchronize()
        nn.utils.clip_grad_norm_(judge.parameters(), 0.5)
        with judges.skip_synchronize():
            judges.step()

        judge.requires_grad_(False)
        generates.zero_grad()
        loss(judge(fake), torch.ones(8, 1)).backward()
        generates.step()
        judge.requires_grad_(True)
    return weights(generator, judge)


def compiled() -> list[np.ndarray]:
    """The backward pass is one function: all gradients are there at its end. A last batch that is
    smaller compiles it anew. (Traced as for inductor, whose C++ takes minutes on a busy machine.)
    """
    torch.manual_seed(RANK)
    net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 3))
    random = start(net)
    optimizer = hvd.DistributedOptimizer(torch.optim.AdamW(net.parameters(), lr=0.01),
                                         named_parameters=net.named_parameters())
    fast = torch.compile(net, backend="aot_eager")
    for step in range(STEPS):
        rows = 5 if step % 4 == 3 else 8
        data = torch.randn(rows, 6, generator=random)
        optimizer.zero_grad()
        nn.functional.cross_entropy(fast(data), torch.arange(rows) % 3).backward()
        optimizer.step()
    return weights(net)


def large() -> list[np.ndarray]:
    """A gradient of 2.6 GB, more bytes than 32 bits count. Returns some of the weights, the first
    and the last ones among them."""
    weight = torch.nn.Parameter(torch.zeros(NUMBERS))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([weight], lr=0.5, foreach=False), named_parameters=[("large", weight)])
    scale = torch.ones(())
    for step in range(LARGE_STEPS):
        optimizer.zero_grad()
        (weight.sum() * (scale + RANK + step)).backward()
        optimizer.step()
    numbers = weight.detach()
    assert bool((numbers == numbers[0]).all())
    return [part.numpy().copy() for part in (numbers[:8], numbers[::10_000_019], numbers[-8:])]


torch.set_num_threads(1)
compare(hvd, _basics.MPI_LIB_CTYPES, [large] if "large" in sys.argv[2:] else [gan, compiled])
