"""ZeRO-1: the optimizer's state is divided among the ranks (doi:10.1109/SC41405.2020.00024, P_os).

The gradients of all parameters are one tensor. Each rank gets its part of their mean by a
reducescatter, updates its part of the parameters with momentum, and all parts are gathered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dense_torch
import steps
import torch
from rank import Rank
from torch.nn.functional import cross_entropy
from training import LEARNING_RATE

MOMENTUM = 0.9


def flatten(parameters: list[torch.nn.Parameter], parts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Makes parameters and their gradients views of these two, whose length `parts` divides."""
    length = sum(parameter.numel() for parameter in parameters)
    values = torch.zeros(-(-length // parts) * parts)
    gradients = torch.zeros_like(values)
    start = 0
    for parameter in parameters:
        place = slice(start, start + parameter.numel())
        values[place] = parameter.detach().reshape(-1)
        parameter.data = values[place].view_as(parameter)
        parameter.grad = gradients[place].view_as(parameter)
        start = place.stop
    return values, gradients


def build(rank: Rank) -> Callable[[], Any]:
    dense_torch.start()
    model = dense_torch.dense(steps.DENSE_WIDTHS)
    values, gradients = flatten(list(model.parameters()), rank.size)
    part = values.chunk(rank.size)[rank.rank]
    velocity = torch.zeros_like(part)
    data, classes = map(torch.from_numpy, steps.rows(rank.rank))

    def step() -> float:
        gradients.zero_()
        loss = cross_entropy(model(data), classes)
        loss.backward()
        velocity.mul_(MOMENTUM).add_(
            rank.hvd.reducescatter(gradients, op=rank.hvd.Average, name="gradients"))
        values.copy_(rank.hvd.allgather(part - LEARNING_RATE * velocity, name="parameters"))
        return loss.item()

    return step


if __name__ == "__main__":
    steps.run("zero1_torch", "torch", build)
