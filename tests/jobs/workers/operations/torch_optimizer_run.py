"""What the programs of torch_optimizer.py run in: a network, batches, and a wrapped optimizer or
not."""

from __future__ import annotations

from collections.abc import Callable

import horovod.torch as hvd
import torch
from common import RANK

SIZE = 2
STEPS = 5
Program = Callable[["Run"], object]


def draw(*key: int, shape: tuple[int, ...] = (4, 3)) -> torch.Tensor:
    seed = sum(part * 1000 ** place for place, part in enumerate(key))
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Run:
    """What a program needs: a network, batches, and a wrapper for its optimizer."""

    def __init__(self, distributed: bool):
        self.distributed = distributed
        self.ranks = [RANK] if distributed else range(SIZE)
        torch.manual_seed(1)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).double()

    def wrap(self, optimizer: torch.optim.Optimizer, **how: object) -> torch.optim.Optimizer:
        return hvd.DistributedOptimizer(optimizer, **how) if self.distributed else optimizer

    def sgd(self, parameters: object = None, **how: object) -> torch.optim.Optimizer:
        parameters = self.net.parameters() if parameters is None else parameters
        return self.wrap(torch.optim.SGD(
            parameters, **{"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01, **how}))

    def loss(self, step: int, net: Callable | None = None, shape: tuple[int, ...] = (4, 3)
             ) -> torch.Tensor:
        net = net or self.net
        losses = [net(draw(step, rank, shape=shape)).square().mean() for rank in self.ranks]
        return sum(losses) / len(losses)

    def train(self, optimizer: torch.optim.Optimizer, steps: int = STEPS, first: int = 0,
              shape: tuple[int, ...] = (4, 3)) -> list:
        for step in range(first, first + steps):
            optimizer.zero_grad()
            self.loss(step, shape=shape).backward()
            optimizer.step()
        return self.weights()

    def weights(self) -> list:
        return [parameter.detach().clone() for parameter in self.net.parameters()]


def same(first: object, second: object) -> bool:
    if torch.is_tensor(first):
        return torch.allclose(first.double(), second.double(), rtol=1e-7, atol=1e-10)
    if isinstance(first, dict):
        return list(first) == list(second) and same(list(first.values()), list(second.values()))
    if isinstance(first, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, float) and isinstance(second, float):
        return abs(first - second) <= 1e-7 * max(1.0, abs(second))
    return first == second
