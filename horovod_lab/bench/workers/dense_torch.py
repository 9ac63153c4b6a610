"""Models of dense layers in PyTorch, with one intra-op thread.

    python dense_torch.py text_torch            the text model of dense.py: a sparse gradient
    python dense_torch.py groups_torch          gradients are reduced in groups: `num_groups`
    python dense_torch.py process_sets_torch    all ranks share a trunk, each half has a tower

The halves are two process sets, which reduce the gradients of their own tower only. (With two ranks
each is a process set of one rank: all ranks together are no other set than the global one.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import steps
import torch
from rank import Rank
from torch import nn
from torch.nn.functional import cross_entropy
from training import LEARNING_RATE

GROUPS = 4


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
    parameters = [(prefix + name, parameter) for name, parameter in model.named_parameters()]
    return rank.hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=LEARNING_RATE), parameters, **options)


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


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(steps.VOCABULARY, steps.EMBEDDING, sparse=True)
        self.layers = dense(steps.TEXT_WIDTHS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.layers(self.table(tokens).mean(1))


def text(rank: Rank) -> Callable[[], Any]:
    start()
    model = Text()
    tokens, classes = map(torch.from_numpy, steps.texts(rank.rank))
    return training_step(lambda: cross_entropy(model(tokens), classes), optimizer(rank, model))


def groups(rank: Rank) -> Callable[[], Any]:
    start()
    model = dense(steps.DENSE_WIDTHS)
    values, classes = map(torch.from_numpy, steps.rows(rank.rank))
    return training_step(lambda: cross_entropy(model(values), classes),
                         optimizer(rank, model, num_groups=GROUPS))


def process_sets(rank: Rank) -> Callable[[], Any]:
    start()
    half = rank.size // 2
    lower, upper = (rank.hvd.add_process_set(list(ranks))
                    for ranks in (range(half), range(half, rank.size)))
    middle = len(steps.DENSE_WIDTHS) // 2
    trunk = dense(steps.DENSE_WIDTHS[:middle + 1])
    tower = dense(steps.DENSE_WIDTHS[middle:])
    optimizers = (optimizer(rank, trunk, "trunk."),
                  optimizer(rank, tower, "tower.",
                            process_set=upper if rank.rank >= half else lower))
    values, classes = map(torch.from_numpy, steps.rows(rank.rank))
    return training_step(
        lambda: cross_entropy(tower(torch.relu(trunk(values))), classes), *optimizers)


if __name__ == "__main__":
    steps.run_workload(
        {"text_torch": text, "groups_torch": groups, "process_sets_torch": process_sets}, "torch",
        {"process_sets_torch": {"process_sets": "dynamic"}})
