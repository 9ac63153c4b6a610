"""A small transformer encoder in PyTorch, with parameters and gradients in bfloat16."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dense_torch
import steps
import torch
from rank import Rank
from torch import nn

LAYERS, WIDTH, HEADS, FEEDFORWARD = 2, 64, 4, 128
VOCABULARY, TEXTS, TOKENS = 1_000, 4, 16


class Encoder(nn.Module):
    """Tokens (texts, length) to classes (texts, 2)."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, FEEDFORWARD, dropout=0.0,
                                           batch_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, steps.CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.table(tokens)).mean(1))


def build(rank: Rank) -> Callable[[], Any]:
    dense_torch.start()
    try:
        rank.hvd.allreduce(torch.zeros(1, dtype=torch.bfloat16), name="bfloat16")
    except ValueError as error:
        raise steps.NotSupported(str(error)) from error
    model = Encoder().to(torch.bfloat16)
    optimizer = dense_torch.optimizer(rank, model)
    tokens, classes = map(torch.from_numpy, steps.texts(rank.rank))
    tokens, classes = tokens[:TEXTS, :TOKENS] % VOCABULARY, classes[:TEXTS]
    return dense_torch.training_step(
        lambda: nn.functional.cross_entropy(model(tokens).float(), classes), optimizer)


if __name__ == "__main__":
    steps.run("transformer_torch", "torch", build)
