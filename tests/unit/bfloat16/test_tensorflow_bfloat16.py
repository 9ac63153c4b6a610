"""hvd.Compression.bf16 in TensorFlow."""

from __future__ import annotations

import importlib

import pytest

tf = pytest.importorskip("tensorflow")

bfloat16 = importlib.import_module("horovod_opt.bfloat16.tensorflow")


@pytest.mark.parametrize("kind", ["constant", "Variable"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floats_are_sent_as_bfloat16(dtype, kind):
    tensor = getattr(tf, kind)(tf.cast([1.0, -2.5, 0.0, 257.0], dtype))
    payload, context = bfloat16.BF16Compressor.compress(tensor)
    assert payload.dtype == tf.bfloat16
    result = bfloat16.BF16Compressor.decompress(payload, context)
    assert result.dtype == tensor.dtype
    assert result.numpy().tolist() == [1.0, -2.5, 0.0, 256.0]


def test_other_types_stay():
    payload, context = bfloat16.BF16Compressor.compress(tf.constant([257, -1]))
    assert payload.dtype == tf.int32
    assert bfloat16.BF16Compressor.decompress(payload, context).numpy().tolist() == [257, -1]
