"""Dense layers for PyTorch, and a training step of any model; one intra-op thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from rank import Rank
from torch import nn
from training import LEARNING_RATE


def start() -> None:
    """One thread, so that there is no second one to hide the background thread's CPU use behind;
    the same first values on every rank."""
    torch.set_num_threads(1)
    torch.manual_seed(0)


def dense(widths: Sequence[int]) -> nn.Sequential:
    """Dense layers with ReLU between them: (batch, widths[0]) to (batch, widths[-1])."""
    layers: list[nn.Module] = []
    for inputs, outputs in zip(widths, widths[1:]):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def optimizer(rank: Rank, model: nn.Module, prefix: str = "", **options: Any
              ) -> torch.optim.Optimizer:
    """Plain SGD; `options` are for DistributedOptimizer, `prefix` tells the parameters of one model
    from those of another."""
    named = [(prefix + name, parameter) for name, parameter in model.named_parameters()]
    return rank.hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=LEARNING_RATE), named, **options)


def training_step(loss: Callable[[], torch.Tensor], *optimizers: torch.optim.Optimizer
                  ) -> Callable[[], float]:
    """Forward and backward pass, and update."""
    def step() -> float:
        for optimizer in optimizers:
            optimizer.zero_grad()
        value = loss()
        value.backward()
        for optimizer in optimizers:
            optimizer.step()
        return value.item()

    return step
