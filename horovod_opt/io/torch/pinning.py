"""Batches in pinned memory (page-locked), from which a GPU copies without waiting for the host.

PyTorch keeps such memory for later batches, and gives it out again only when copies out of it are
over, as those of `to(device, non_blocking=True)`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils.data._utils.collate import collate as collate_by
from torch.utils.data._utils.collate import collate_tensor_fn, default_collate_fn_map
from torch.utils.data._utils.pin_memory import pin_memory

# As PyTorch's DataLoader says it.
NO_GPU = ("'pin_memory' argument is set as true but no accelerator is found, then device pinned "
          "memory won't be used.")

Make = Callable[[Any], Any]  # a batch of samples


class Pinning:
    """Of the batches of one loader, by the thread that makes them. Without a GPU they are left
    where they are, with a warning."""

    def __init__(self) -> None:
        self._device = -1  # there is none
        self._has_warned = False

    def begin(self) -> None:
        """The training's thread, which has chosen its GPU, begins a loop."""
        if torch.cuda.is_available():
            self._device = torch.cuda.current_device()
        elif not self._has_warned:
            warnings.warn(NO_GPU, stacklevel=4)
            self._has_warned = True

    def pinned(self, make: Make) -> Make:
        """The same batches, pinned; what is pinned already is not copied."""
        def make_pinned(samples: Any) -> Any:
            batch = make(samples)
            return pin_memory(batch) if self._is_possible() else batch

        return make_pinned

    def collate(self, samples: Sequence[Any]) -> Any:
        """What default_collate makes, which stacks into pinned memory: no copy is made of that."""
        stack = stack_pinned if self._is_possible() else collate_tensor_fn
        return collate_by(samples,
                          collate_fn_map={**default_collate_fn_map, torch.Tensor: stack})

    def _is_possible(self) -> bool:
        """Each thread begins with GPU 0: memory pinned for that would take some of its memory for
        each process of the node."""
        if self._device >= 0 and torch.cuda.current_device() != self._device:
            torch.cuda.set_device(self._device)
        return self._device >= 0


def stack_pinned(tensors: Sequence[torch.Tensor], *, collate_fn_map: Any = None) -> torch.Tensor:
    first = tensors[0]
    if not all(tensor.layout is torch.strided and tensor.device.type == "cpu"
               and not tensor.is_nested and not tensor.requires_grad
               and tensor.shape == first.shape and tensor.dtype is first.dtype
               for tensor in tensors):
        return collate_tensor_fn(tensors, collate_fn_map=collate_fn_map)
    return torch.stack(tensors, 0, out=empty_pinned((len(tensors), *first.shape), first.dtype))


def empty_pinned(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, pin_memory=True)
