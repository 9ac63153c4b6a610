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
    sent, kept = bfloat16.BF16Compressor.compress(tensor)
    assert sent.dtype == tf.bfloat16
    got = bfloat16.BF16Compressor.decompress(sent, kept)
    assert got.dtype == tensor.dtype
    assert got.numpy().tolist() == [1.0, -2.5, 0.0, 256.0]


def test_other_types_stay():
    sent, kept = bfloat16.BF16Compressor.compress(tf.constant([257, -1]))
    assert sent.dtype == tf.int32
    assert bfloat16.BF16Compressor.decompress(sent, kept).numpy().tolist() == [257, -1]
