"""Convolutions with hvd.SyncBatchNorm in PyTorch, on the CPU.

hvd.SyncBatchNorm takes tensors on a GPU only, since PyTorch has the operators that it needs for
GPUs only. Here it gets them for the CPU; what it asks of Horovod is the same. Arguments and results
of these operators are those of PyTorch's of the same names: values are (batch, channels, ...),
statistics (channels,), those of all ranks (ranks, channels).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dense_torch
import steps
import torch
from rank import Rank
from torch import nn

LAYERS, CHANNELS, IMAGES, PIXELS, CLASSES = 4, 16, 8, 16, 10


def _dimensions(values: torch.Tensor) -> list[int]:
    """All but the channels'."""
    return [number for number in range(values.dim()) if number != 1]


def _like(statistic: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """To be multiplied with values."""
    return statistic.view(1, -1, *[1] * (values.dim() - 2))


def batch_norm_stats(values, eps):
    variance, mean = torch.var_mean(values, _dimensions(values), correction=0)
    return mean, (variance + eps).rsqrt()


def batch_norm_gather_stats_with_counts(values, means, invstds, running_mean, running_var, momentum,
                                        eps, counts):
    weights = (counts / counts.sum()).view(-1, 1)
    mean = (weights * means).sum(0)
    variance = (weights * (invstds**-2 - eps + means**2)).sum(0) - mean**2
    if running_mean is not None:
        running_mean.lerp_(mean, momentum)
        unbiased = variance * counts.sum() / (counts.sum() - 1)
        running_var.lerp_(unbiased, momentum)
    return mean, (variance + eps).rsqrt()


def batch_norm_elemt(values, weight, bias, mean, invstd, eps):
    scale = invstd if weight is None else weight * invstd
    shift = -mean * scale if bias is None else bias - mean * scale
    return values * _like(scale, values) + _like(shift, values)


def batch_norm_backward_reduce(gradients, values, mean, invstd, weight, input_g, weight_g, bias_g):
    sum_dy = gradients.sum(_dimensions(values))
    sum_dy_xmu = (gradients * (values - _like(mean, values))).sum(_dimensions(values))
    return sum_dy, sum_dy_xmu, sum_dy_xmu * invstd, sum_dy.clone()


def batch_norm_backward_elemt(gradients, values, mean, invstd, weight, sum_dy, sum_dy_xmu, counts):
    scale = invstd if weight is None else weight * invstd
    along = _like(invstd**2 * sum_dy_xmu / counts.sum(), values) * (values - _like(mean, values))
    return (gradients - _like(sum_dy / counts.sum(), values) - along) * _like(scale, values)


KERNELS = (batch_norm_stats, batch_norm_gather_stats_with_counts, batch_norm_elemt,
           batch_norm_backward_reduce, batch_norm_backward_elemt)


def register_on_cpu() -> torch.library.Library:
    """Makes them torch's for tensors on the CPU, until the result is collected."""
    library = torch.library.Library("aten", "IMPL", "CPU")
    for kernel in KERNELS:
        library.impl(kernel.__name__, kernel)
    return library


def build(rank: Rank) -> Callable[[], Any]:
    dense_torch.start()
    kernels = register_on_cpu()

    class SyncBatchNorm(rank.hvd.SyncBatchNorm):
        operators = kernels  # registered as long as somebody holds them

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self._maybe_run_sync_bn(values)

    layers: list[nn.Module] = []
    for number in range(LAYERS):
        layers += [nn.Conv2d(CHANNELS if number else 3, CHANNELS, 3, padding=1, bias=False),
                   SyncBatchNorm(CHANNELS), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                          nn.Linear(CHANNELS, CLASSES))
    optimizer = dense_torch.optimizer(rank, model)
    generator = torch.Generator().manual_seed(rank.rank)
    images = torch.rand(IMAGES, 3, PIXELS, PIXELS, generator=generator)
    classes = torch.arange(IMAGES)
    return dense_torch.training_step(
        lambda: nn.functional.cross_entropy(model(images), classes), optimizer)


if __name__ == "__main__":
    steps.run("sync_batch_norm_torch", "torch", build)
