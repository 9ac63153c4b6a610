"""MosaicML Streaming imports torchvision, whose wheel for CUDA does not fit a torch for CPUs."""

from __future__ import annotations

import contextlib

OPERATORS = ("nms", "qnms")  # that are described when it is imported


def allow() -> None:
    """Nothing here calls torchvision's operators. Where its library cannot be loaded, the import
    fails only because it describes some of them, which are declared here in its place."""
    with contextlib.suppress(RuntimeError):
        import torchvision  # noqa: F401

        return
    import torch

    allow.library = torch.library.Library("torchvision", "DEF")
    for name in OPERATORS:
        allow.library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision  # noqa: F401
