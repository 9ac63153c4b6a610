"""tf.data's .filter(f): `choose=` of open, by key, number or size; by contents, the weight 0.

    horovodrun -np 2 python examples/habits/tfdata/filter.py

A sample that does not count has the weight 0 in the loss: steps stay equal on all ranks.
"""

import sys
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, digits, write_records

FEATURES = {name: tf.io.FixedLenFeature([], tf.int64) for name in ("label", "number")}


def parse(records):
    """Numbers, labels, and weights of samples: 0 but for labels below 5."""
    examples = tf.io.parse_example(records, FEATURES)
    return examples["number"], examples["label"], tf.cast(examples["label"] < 5, tf.float32)


with folder_of(hvd, write_records) as folder:
    with hio.open(f"{folder}/*.tfrecord", choose=lambda table: range(0, SAMPLES, 2)) as data:
        count = sum(len(batch) for batch in hio.tensorflow.dataset(data, 8, epochs=1))
    assert sum(hvd.allgather_object(count)) == SAMPLES // 2
    seen = []
    with hio.open(f"{folder}/*.tfrecord", seed=1) as data:
        for numbers, labels, weights in hio.tensorflow.dataset(data, 8, epochs=1).map(parse):
            seen += zip(numbers.numpy().tolist(), weights.numpy().tolist())
    assert gather(hvd, seen) == [
        (number, float(label < 5)) for number, (_, label) in enumerate(digits())]
    say(hvd, f"{SAMPLES // 2} samples by number; {sum(label < 5 for _, label in digits())} of "
             f"{SAMPLES} count by their label")
