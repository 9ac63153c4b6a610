"""bfloat16 in TensorFlow and Keras: hvd.Compression.bf16."""

from __future__ import annotations

import tensorflow as tf


class BF16Compressor:
    """Sends floating-point tensors of any type as bfloat16."""

    @staticmethod
    def compress(tensor: tf.Tensor) -> tuple[tf.Tensor, tf.DType]:
        """What is sent, and the type that decompress() needs."""
        tensor = tf.convert_to_tensor(tensor)
        payload = tf.cast(tensor, tf.bfloat16) if tensor.dtype.is_floating else tensor
        return payload, tensor.dtype

    @staticmethod
    def decompress(tensor: tf.Tensor, ctx: tf.DType) -> tf.Tensor:
        return tf.cast(tensor, ctx)
