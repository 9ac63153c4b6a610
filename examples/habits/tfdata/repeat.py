"""tf.data's .repeat(n): fit(epochs=n); .repeat() with steps_per_epoch=.

    horovodrun -np 2 python examples/habits/tfdata/repeat.py
"""

import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, say
from small_data import SAMPLES, write_records

FEATURES = {name: tf.io.FixedLenFeature([], tf.int64) for name in ("label", "number")}


def parse(records):
    """float32[k, 1], and labels."""
    examples = tf.io.parse_example(records, FEATURES)
    return tf.cast(examples["number"], tf.float32)[:, None] / SAMPLES, examples["label"]


def steps(*, repeat: bool, **options: object) -> tuple[int, tuple[int, int]]:
    """Of the optimizer, and where the training was in the data at its end."""
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(10)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with hio.open(f"{folder}/*.tfrecord", seed=1) as data:
        batches = hio.tensorflow.dataset(data, 4).map(parse)
        batches = batches.repeat() if repeat else batches
        model.fit(batches, shuffle=False, verbose=0,
                  callbacks=[hio.keras.Resume(data, folder / "checkpoints" / str(repeat))],
                  **options)
        return int(model.optimizer.iterations), (data.epoch, data.position)


with folder_of(hvd, write_records) as folder:
    by_epochs, place = steps(repeat=False, epochs=2)
    assert place == (2, 0) and by_epochs == 2 * -(-SAMPLES // (4 * hvd.size()))
    by_steps, place = steps(repeat=True, epochs=4, steps_per_epoch=by_epochs // 4)
    assert by_steps == by_epochs // 4 * 4
    say(hvd, f"two epochs are {by_epochs} steps; four of {by_epochs // 4} steps end at {place}")
