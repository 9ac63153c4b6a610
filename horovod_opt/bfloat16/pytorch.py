"""bfloat16 in PyTorch: hvd.Compression.bf16."""

from __future__ import annotations

import torch


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
