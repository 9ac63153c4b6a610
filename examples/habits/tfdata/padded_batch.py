"""tf.data's .padded_batch(): .map() of a batch, which pads its samples.

    horovodrun -np 2 python examples/habits/tfdata/padded_batch.py
"""

import sys
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say

SAMPLES = 40


def write(folder: Path) -> None:
    """Record n has n + 1 bytes of the value n."""
    with tf.io.TFRecordWriter(str(folder / "train.tfrecord")) as writer:
        for number in range(SAMPLES):
            writer.write(bytes([number]) * (number + 1))


def pad(records):
    """int32[k, longest], filled up with -1."""
    lengths = tf.strings.length(records)
    values = tf.cast(tf.io.decode_raw(records, tf.uint8, fixed_length=SAMPLES), tf.int32)
    values = values[:, :tf.reduce_max(lengths)]
    return tf.where(tf.sequence_mask(lengths), values, -1)


with folder_of(hvd, write) as folder:
    seen = []
    with hio.open(folder / "train.tfrecord", seed=1) as data:
        for batch in hio.tensorflow.dataset(data, 4, epochs=1).map(pad):
            rows = batch.numpy()
            assert ((rows >= 0).sum(axis=1) == rows[:, 0] + 1).all()
            seen += rows[:, 0].tolist()
    assert gather(hvd, seen) == list(range(SAMPLES))
    say(hvd, f"{SAMPLES} sequences of other lengths, padded in batches")
