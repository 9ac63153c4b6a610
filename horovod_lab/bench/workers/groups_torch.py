"""Dense layers in PyTorch whose gradients are reduced in a few groups: `num_groups`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import inputs
import steps
import torch
import torch_layers
from rank import Rank
from torch.nn.functional import cross_entropy

GROUPS = 4


def build(rank: Rank) -> Callable[[], Any]:
    torch_layers.start()
    model = torch_layers.dense(inputs.DENSE_WIDTHS)
    optimizer = torch_layers.optimizer(rank, model, num_groups=GROUPS)
    values, classes = map(torch.from_numpy, inputs.rows(rank.rank))
    return torch_layers.training_step(lambda: cross_entropy(model(values), classes), optimizer)


if __name__ == "__main__":
    steps.run("groups_torch", "torch", build)
