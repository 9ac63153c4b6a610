"""PyTorch's memory layouts of tensors, parameters and gradients."""

from __future__ import annotations

import torch
from common import RANK
from programs import EACH_ITS_OWN, EXPANDED, LAYOUTS, ROW


def lay_out(flat: torch.Tensor, layout: str) -> torch.Tensor:
    """The same elements, in rows if there is a layout. EXPANDED are all rows like the first."""
    if not layout:
        return flat
    tensor = flat.reshape(-1, *ROW)
    if layout == EXPANDED:
        return tensor[:1].expand(tensor.shape)
    if layout == EACH_ITS_OWN:
        layout = LAYOUTS[RANK % len(LAYOUTS)]
    if layout == "channels_last":
        return tensor.contiguous(memory_format=torch.channels_last)
    if layout == "transposed":
        return tensor.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    if layout == "sliced":
        memory = torch.zeros(len(tensor), 2 * ROW[0], *ROW[1:]).to(tensor.dtype)
        memory[:, ::2] = tensor
        return memory[:, ::2]
    if layout == "view":
        memory = torch.zeros(flat.numel() + 5).to(tensor.dtype)
        memory[3:-2] = flat
        return memory[3:-2].view(tensor.shape)
    return tensor


def place_gradients(parameters: list[torch.nn.Parameter], where: str) -> None:
    """Zeros that backward passes add to: `views` of one tensor, or in `another order`."""
    memory = torch.zeros(sum(parameter.numel() for parameter in parameters))
    start = 0
    for parameter in parameters:
        if where == "views":
            parameter.grad = memory.as_strided(parameter.size(), parameter.stride(), start)
        elif parameter.dim() > 1:
            parameter.grad = torch.zeros_like(
                parameter.detach().permute(2, 0, 3, 1), memory_format=torch.contiguous_format
            ).permute(1, 3, 0, 2)
        start += parameter.numel()


def flattened(tensor: torch.Tensor) -> torch.Tensor:
    """Its elements, whatever their order in memory; a copy."""
    return tensor.detach().contiguous().reshape(-1).clone()
