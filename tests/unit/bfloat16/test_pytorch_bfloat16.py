"""hvd.Compression.bf16 in PyTorch, and upstream's operations by the type of a tensor."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

bfloat16 = importlib.import_module("horovod_opt.bfloat16.pytorch")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floats_are_sent_as_bfloat16(dtype):
    tensor = torch.tensor([1.0, -2.5, 0.0, 257.0], dtype=getattr(torch, dtype))
    payload, context = bfloat16.BF16Compressor.compress(tensor)
    assert payload.dtype == torch.bfloat16
    result = bfloat16.BF16Compressor.decompress(payload, context)
    assert result.dtype == tensor.dtype
    assert result.tolist() == [1.0, -2.5, 0.0, 256.0]


def test_other_types_stay():
    tensor = torch.tensor([257, -1])
    payload, context = bfloat16.BF16Compressor.compress(tensor)
    assert payload is tensor
    assert torch.equal(bfloat16.BF16Compressor.decompress(payload, context), tensor)


def test_operations_of_float16_are_those_of_bfloat16():
    library = ModuleType("library")
    names = ("allreduce_async_torch_HalfTensor", "allgather_async_torch_cuda_HalfTensor",
             "allreduce_async_torch_FloatTensor", "join")
    for name in names:
        setattr(library, name, object())
    before = {*vars(library)}
    bfloat16.add_operations(library)
    assert {*vars(library)} - before == {"allreduce_async_torch_BFloat16Tensor",
                                         "allgather_async_torch_cuda_BFloat16Tensor"}
    for device in "allreduce_async_torch", "allgather_async_torch_cuda":
        assert getattr(library, f"{device}_BFloat16Tensor") is getattr(
            library, f"{device}_HalfTensor")
