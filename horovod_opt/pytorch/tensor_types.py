"""Which tensors of PyTorch upstream's operations take: of all types that a rank can send. What
cannot be reduced, and splits that do not fit, all ranks refuse together."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

# By name, as Tensor.type() has them after "torch." or "torch.cuda."; some are of later versions.
# csrc/binding/hooks/torch_types.h has them, too.
TYPES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "uint16": "UInt16", "int16": "Short",
    "uint32": "UInt32", "int32": "Int", "uint64": "UInt64", "int64": "Long", "float16": "Half",
    "bfloat16": "BFloat16", "float32": "Float", "float64": "Double", "complex32": "ComplexHalf",
    "complex64": "ComplexFloat", "complex128": "ComplexDouble", "float8_e4m3fn": "Float8_e4m3fn",
    "float8_e5m2": "Float8_e5m2", "float8_e4m3fnuz": "Float8_e4m3fnuz",
    "float8_e5m2fnuz": "Float8_e5m2fnuz", "float8_e8m0fnu": "Float8_e8m0fnu",
    "float4_e2m1fn_x2": "Float4_e2m1fn_x2",
}


def add_operations(library: ModuleType) -> None:
    """Upstream looks operations up by the type of the tensor; those of float16 take any type."""
    for name in dir(library):
        if name.endswith("_HalfTensor"):
            for text in TYPES.values():
                setattr(library, f"{name[:-len('HalfTensor')]}{text}Tensor", getattr(library, name))


def splits_tensor(splits: Any) -> torch.Tensor:
    """Of an alltoall's argument: a tensor as it is, in one piece; else one of int32 if the numbers
    are integers that it holds. Others stay, so that all ranks refuse them, and not this one."""
    if splits is None:
        return torch.empty(0, dtype=torch.int32)
    if isinstance(splits, torch.Tensor):
        return splits.contiguous()
    numbers = torch.as_tensor(splits)
    if numbers.numel() == 0:
        return numbers.to(torch.int32)
    bounds = torch.iinfo(torch.int32)
    is_integer = not (numbers.is_floating_point() or numbers.is_complex())
    fits = is_integer and bounds.min <= numbers.min() and numbers.max() <= bounds.max
    return numbers.to(torch.int32) if fits else numbers
