"""tf.data's habits: compression_type=, sample_from_datasets and epochs of some batches, in fit().

    python examples/habits/tensorflow_gzip.py

Writes TFRecord files below --folder, by GZIP and by ZLIB, mixes them by their shares, stops fit()
and goes on where it was.
"""

import argparse
import tempfile
from pathlib import Path

import keras
import tensorflow as tf

import horovod_opt.io as hio

COUNTS = {"GZIP": 60, "ZLIB": 20}
SHARES = {"GZIP": 1, "ZLIB": 1}
EPOCHS, LOOP = 5, 6  # batches


def write_records(folder: Path) -> dict[str, float]:
    """Two files of each kind; returns their patterns and shares."""
    for label, (kind, count) in enumerate(COUNTS.items()):
        for shard in range(2):
            path = str(folder / f"{kind}-{shard}.tfrecord")
            with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(kind)) as writer:
                for number in range(shard, count, 2):
                    writer.write(bytes([label, number]))
    return {f"{folder}/{kind}-*.tfrecord": share for kind, share in SHARES.items()}


def parse(records):
    """float32[k, 1] and the kind of each record, int32[k]."""
    values = tf.cast(tf.io.decode_raw(records, tf.uint8), tf.int32)
    return tf.cast(values[:, 1:], tf.float32) / 100, values[:, 0]


class Stop(keras.callbacks.Callback):
    """As a kill would, within the third epoch."""

    def on_train_batch_end(self, batch, logs=None):
        self.model.stop_training = self.seen == 2 and batch == 1

    def on_epoch_begin(self, epoch, logs=None):
        self.seen = epoch


def train(shares: dict[str, float], checkpoints: str, *callbacks) -> tuple[int, hio.Data]:
    """Steps of the optimizer so far."""
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(2)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with hio.open(shares, seed=1) as data:
        batches = hio.tensorflow.dataset(data, 8, epoch_batches=LOOP).map(parse).prefetch(2)
        model.fit(batches, epochs=EPOCHS, shuffle=False, verbose=0,
                  callbacks=[hio.keras.Resume(data, checkpoints, every=1), *callbacks])
        return int(model.optimizer.iterations), data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("build"), help="(%(default)s)")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    shares = write_records(folder)
    with hio.open(shares, seed=1) as data:
        kinds = [int(label) for batch in hio.tensorflow.dataset(data, 8, epochs=1)
                 for label in parse(batch)[1]]
        print(f"{len(kinds)} samples an epoch, {kinds.count(0)} of GZIP, {kinds.count(1)} of ZLIB")
    with tempfile.TemporaryDirectory(dir=folder) as checkpoints:
        before, _ = train(shares, checkpoints, Stop())
        after, data = train(shares, checkpoints)
        print(f"{before} steps, then {after}; epoch {data.epoch}, position {data.position}")


if __name__ == "__main__":
    main()
