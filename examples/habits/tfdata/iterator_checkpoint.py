"""Checkpoints of an iterator: hio.keras.Resume in fit(), or data.taken and data.state_dict().

    horovodrun -np 2 python examples/habits/tfdata/iterator_checkpoint.py
"""

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import horovod.tensorflow as hvd
import keras
import tensorflow as tf

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_records

FEATURES = {name: tf.io.FixedLenFeature([], tf.int64) for name in ("label", "number")}


class Stop(keras.callbacks.Callback):
    """As a kill would, after the fourth batch."""

    def on_train_batch_end(self, batch, logs=None):
        self.model.stop_training = batch == 3


def parse(records):
    """float32[k, 1], and labels."""
    examples = tf.io.parse_example(records, FEATURES)
    return tf.cast(examples["number"], tf.float32)[:, None] / SAMPLES, examples["label"]


def train(*callbacks: keras.callbacks.Callback) -> int:
    """Steps of the optimizer so far."""
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(10)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with hio.open(f"{folder}/*.tfrecord", seed=1) as data:
        batches = hio.tensorflow.dataset(data, 4).map(parse).prefetch(2)
        resume = hio.keras.Resume(data, folder / "checkpoints", every=1)
        model.fit(batches, epochs=2, shuffle=False, verbose=0, callbacks=[resume, *callbacks])
    return int(model.optimizer.iterations)


with folder_of(hvd, write_records) as folder:
    numbers = []
    with hio.open(f"{folder}/*.tfrecord", seed=1) as data:
        for step, (_, info) in enumerate(hio.tensorflow.dataset(data, 4, with_samples=True), 1):
            numbers += info["numbers"].numpy().tolist()
            data.taken(info)
            if step == 3:
                break
        state = json.dumps(data.state_dict())
    with hio.open(f"{folder}/*.tfrecord", seed=1) as data:
        data.load_state_dict(json.loads(state))
        for _, info in hio.tensorflow.dataset(data, 3, with_samples=True, epochs=1):
            numbers += info["numbers"].numpy().tolist()
    assert gather(hvd, numbers) == list(range(SAMPLES))

    stopped, ended = train(Stop()), train()
    assert stopped == 4 and ended == 2 * -(-SAMPLES // (4 * hvd.size()))
    say(hvd, f"fit() stopped after {stopped} steps, and ended after {ended}")
