"""Convolutions with hvd.SyncBatchNorm in PyTorch, on the CPU.

hvd.SyncBatchNorm takes tensors on a GPU only, since PyTorch has the operators that it needs for
GPUs only. Here it gets them for the CPU (batch_norm_cpu.py); what it asks of Horovod is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import batch_norm_cpu
import steps
import torch
import torch_layers
from rank import Rank
from torch import nn

LAYERS, CHANNELS, IMAGES, PIXELS, CLASSES = 4, 16, 8, 16, 10


def build(rank: Rank) -> Callable[[], Any]:
    torch_layers.start()
    kernels = batch_norm_cpu.register()

    class SyncBatchNorm(rank.hvd.SyncBatchNorm):
        kept = kernels  # registered as long as somebody holds them

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self._maybe_run_sync_bn(values)

    layers: list[nn.Module] = []
    for number in range(LAYERS):
        layers += [nn.Conv2d(CHANNELS if number else 3, CHANNELS, 3, padding=1, bias=False),
                   SyncBatchNorm(CHANNELS), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(CHANNELS, CLASSES))
    optimizer = torch_layers.optimizer(rank, model)
    own = torch.Generator().manual_seed(rank.rank)
    images = torch.rand(IMAGES, 3, PIXELS, PIXELS, generator=own)
    classes = torch.arange(IMAGES)
    return torch_layers.training_step(
        lambda: nn.functional.cross_entropy(model(images), classes), optimizer)


if __name__ == "__main__":
    steps.run("sync_batch_norm_torch", "torch", build)
