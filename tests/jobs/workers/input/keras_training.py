"""What the programs with Keras make of their records."""

from __future__ import annotations

import tensorflow as tf


def parse(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Of tf.string[k]: inputs, float32[k, 1], and the numbers that the records begin with,
    int32[k], as what is to be learnt."""
    numbers = tf.map_fn(lambda one: tf.io.decode_raw(tf.strings.substr(one, 0, 4), tf.int32)[0],
                        records, fn_output_signature=tf.int32)
    return tf.cast(numbers[:, None], tf.float32) / 1000, numbers
