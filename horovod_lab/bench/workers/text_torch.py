"""The text model of text.py in PyTorch: the gradient of its embedding is sparse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import inputs
import steps
import torch
import torch_layers
from rank import Rank
from torch import nn


class Text(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(inputs.VOCABULARY, inputs.EMBEDDING, sparse=True)
        self.layers = torch_layers.dense(inputs.TEXT_WIDTHS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.layers(self.table(tokens).mean(1))


def build(rank: Rank) -> Callable[[], Any]:
    torch_layers.start()
    model = Text()
    optimizer = torch_layers.optimizer(rank, model)
    tokens, classes = map(torch.from_numpy, inputs.texts(rank.rank))
    return torch_layers.training_step(
        lambda: nn.functional.cross_entropy(model(tokens), classes), optimizer)


if __name__ == "__main__":
    steps.run("text_torch", "torch", build)
