"""tf.data's .map(parse_single_example, AUTOTUNE): `decode=` of dataset, or .map(parse) of batches.

    horovodrun -np 2 python examples/habits/tfdata/parse_example.py
"""

import sys
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_records

FEATURES = {"image": tf.io.FixedLenFeature([], tf.string),
            "number": tf.io.FixedLenFeature([], tf.int64)}


def decode(record):
    """(8, 8, 1) pixels, and which digit it is, of one record."""
    example = tf.io.parse_single_example(record, FEATURES)
    pixels = tf.ensure_shape(tf.io.decode_png(example["image"], channels=1), (8, 8, 1))
    return pixels, example["number"]


def parse(records):
    """Numbers alone, of all records of a batch."""
    return tf.io.parse_example(records, FEATURES)["number"]


with folder_of(hvd, write_records) as folder:
    with hio.open(f"{folder}/*.tfrecord", seed=1) as data:
        decoded = []
        for images, numbers in hio.tensorflow.dataset(data, 8, decode=decode, epochs=1):
            assert images.shape == (len(numbers), 8, 8, 1)
            decoded += numbers.numpy().tolist()
    with hio.open(f"{folder}/*.tfrecord", seed=1) as data:
        parsed = [number for batch in hio.tensorflow.dataset(data, 8, epochs=1).map(parse)
                  for number in batch.numpy().tolist()]
    assert decoded == parsed and gather(hvd, parsed) == list(range(SAMPLES))
    say(hvd, f"{SAMPLES} examples, decoded one by one and in batches")
