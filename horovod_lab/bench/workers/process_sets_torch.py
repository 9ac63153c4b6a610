"""A model over process sets in PyTorch: all ranks share a trunk, each half of them has a tower.

The halves are two process sets, which reduce the gradients of their own tower only. (With two ranks
each is a process set of one rank: all ranks together are no other set than the global one.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import inputs
import steps
import torch
import torch_layers
from rank import Rank
from torch.nn.functional import cross_entropy


def build(rank: Rank) -> Callable[[], Any]:
    torch_layers.start()
    half = rank.size // 2
    sets = [rank.hvd.add_process_set(list(ranks))
            for ranks in (range(half), range(half, rank.size))]
    mine = sets[rank.rank >= half]
    middle = len(inputs.DENSE_WIDTHS) // 2
    trunk = torch_layers.dense(inputs.DENSE_WIDTHS[:middle + 1])
    tower = torch_layers.dense(inputs.DENSE_WIDTHS[middle:])
    optimizers = (torch_layers.optimizer(rank, trunk, "trunk."),
                  torch_layers.optimizer(rank, tower, "tower.", process_set=mine))
    values, classes = map(torch.from_numpy, inputs.rows(rank.rank))
    return torch_layers.training_step(
        lambda: cross_entropy(tower(torch.relu(trunk(values))), classes), *optimizers)


if __name__ == "__main__":
    steps.run("process_sets_torch", "torch", build, process_sets="dynamic")
