"""bfloat16 in PyTorch: the operations, and hvd.Compression.bf16."""

from __future__ import annotations

from types import ModuleType

import torch


def add_operations(library: ModuleType) -> None:
    """Upstream looks operations up by the type of the tensor; those of float16 take any type."""
    for name in dir(library):
        if name.endswith("_HalfTensor"):
            of_bfloat16 = name[:-len("HalfTensor")] + "BFloat16Tensor"
            setattr(library, of_bfloat16, getattr(library, name))


class BF16Compressor:
    """Sends floating-point tensors of any type as bfloat16."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.dtype]:
        """What is sent, and the type that decompress() needs."""
        payload = tensor.to(torch.bfloat16) if tensor.dtype.is_floating_point else tensor
        return payload, tensor.dtype

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: torch.dtype) -> torch.Tensor:
        return tensor.to(ctx)
