"""hvd.Compression.bf16 in both frameworks."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest


@pytest.fixture
def torch() -> ModuleType:
    return pytest.importorskip("torch")


@pytest.fixture
def tf() -> ModuleType:
    return pytest.importorskip("tensorflow")


def module_for(framework: str) -> ModuleType:
    return importlib.import_module(f"horovod_opt.bfloat16.{framework}")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floats_of_pytorch_are_sent_as_bfloat16(torch, dtype):
    compressor = module_for("pytorch").BF16Compressor
    tensor = torch.tensor([1.0, -2.5, 0.0, 257.0], dtype=getattr(torch, dtype))
    payload, context = compressor.compress(tensor)
    assert payload.dtype == torch.bfloat16
    result = compressor.decompress(payload, context)
    assert result.dtype == tensor.dtype
    assert result.tolist() == [1.0, -2.5, 0.0, 256.0]


@pytest.mark.parametrize("kind", ["constant", "Variable"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floats_of_tensorflow_are_sent_as_bfloat16(tf, dtype, kind):
    compressor = module_for("tensorflow").BF16Compressor
    tensor = getattr(tf, kind)(tf.cast([1.0, -2.5, 0.0, 257.0], dtype))
    payload, context = compressor.compress(tensor)
    assert payload.dtype == tf.bfloat16
    result = compressor.decompress(payload, context)
    assert result.dtype == tensor.dtype
    assert result.numpy().tolist() == [1.0, -2.5, 0.0, 256.0]


def test_other_types_of_pytorch_stay(torch):
    compressor = module_for("pytorch").BF16Compressor
    tensor = torch.tensor([257, -1])
    payload, context = compressor.compress(tensor)
    assert payload is tensor
    assert torch.equal(compressor.decompress(payload, context), tensor)


def test_other_types_of_tensorflow_stay(tf):
    compressor = module_for("tensorflow").BF16Compressor
    payload, context = compressor.compress(tf.constant([257, -1]))
    assert payload.dtype == tf.int32
    assert compressor.decompress(payload, context).numpy().tolist() == [257, -1]
