"""For the CPU: the operators of synchronous batch normalization that PyTorch has for GPUs only.

Arguments and results are those of PyTorch's operators of the same names. Values are (batch,
channels, ...), statistics (channels,), those of all ranks (ranks, channels).
"""

from __future__ import annotations

import torch


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


def register() -> torch.library.Library:
    """Makes them torch's for tensors on the CPU, until the result is collected."""
    library = torch.library.Library("aten", "IMPL", "CPU")
    for kernel in KERNELS:
        library.impl(kernel.__name__, kernel)
    return library
