"""Where the records of a training come from: the same bytes, and the same made of them, by the
input side, by tf.data, or out of memory.

    python input_sources.py FOLDER PIXELS

JPEGs are those of images.py; raw records are PIXELS x PIXELS x 3 bytes, and a class as int32.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import images
import numpy as np
import tensorflow as tf

RAW_FILES, RAW_PER_FILE = 8, 256
CLASS_BYTES = 4


@dataclass(frozen=True)
class Place:
    """`folder` has both kinds of records; `batch` of a rank; `pixels`: height and width."""

    folder: Path
    batch: int
    pixels: int
    rank: int
    size: int

    @property
    def jpegs(self) -> Path:
        return self.folder / "jpegs"

    @property
    def raw(self) -> Path:
        return self.folder / f"raw-{self.pixels}"


def make(folder: Path, pixels: int) -> None:
    """Writes both kinds, unless they are there: 45 MB, and 57 MB of 96 pixels."""
    place = Place(folder, 0, pixels, 0, 1)
    images.make(place.jpegs)
    if place.raw.exists():
        return
    unfinished = place.raw.with_name(place.raw.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    random = np.random.default_rng(0)
    for number in range(RAW_FILES):
        with tf.io.TFRecordWriter(str(unfinished / f"train-{number:05d}")) as file:
            for index in range(number * RAW_PER_FILE, (number + 1) * RAW_PER_FILE):
                label = np.int32(index % images.LABELS).tobytes()
                file.write(random.bytes(pixels * pixels * 3) + label)
    unfinished.rename(place.raw)


def hio(place: Place) -> tf.data.Dataset:
    batches = _by_hio(place.jpegs, place)
    return images.decoded(batches.unbatch(), place.batch, place.pixels, place.jpegs)


def memory(place: Place) -> tf.data.Dataset:
    """This rank's records, read once, and shuffled as those of tf_data()."""
    files = sorted(map(str, place.jpegs.glob("train-*")))
    records = tf.data.TFRecordDataset(files).shard(place.size, place.rank)
    values = tf.constant(list(records.as_numpy_iterator()))
    shuffled = tf.data.Dataset.from_tensor_slices(values).shuffle(images.SHUFFLED, seed=place.rank)
    return images.decoded(shuffled.repeat(), place.batch, place.pixels, place.jpegs)


def tf_data(place: Place) -> tf.data.Dataset:
    records = images.stored(place.jpegs, place.rank, place.size)
    return images.decoded(records, place.batch, place.pixels, place.jpegs)


def hio_raw(place: Place) -> tf.data.Dataset:
    return _unpacked(_by_hio(place.raw, place), place.pixels)


def tf_data_raw(place: Place) -> tf.data.Dataset:
    records = images.stored(place.raw, place.rank, place.size)
    return _unpacked(records.batch(place.batch, drop_remainder=True), place.pixels)


def synthetic(place: Place) -> tf.data.Dataset:
    """One batch, again and again."""
    shape = [place.batch, place.pixels, place.pixels, 3]
    values = tf.random.stateless_uniform(shape, seed=(0, place.rank))
    return tf.data.Dataset.from_tensors((values, tf.range(place.batch))).cache().repeat()


SOURCES: dict[str, Callable[[Place], tf.data.Dataset]] = {
    "hio": hio, "memory": memory, "tf-data": tf_data, "hio-raw": hio_raw,
    "tf-data-raw": tf_data_raw, "synthetic": synthetic}


def _by_hio(folder: Path, place: Place) -> tf.data.Dataset:
    """Batches of records, epoch after epoch."""
    import horovod_opt.io as hio

    data = hio.open(str(folder / "train-*"), seed=1)
    return hio.tensorflow.dataset(data, place.batch, last="drop").repeat()


def _unpacked(batches: tf.data.Dataset, pixels: int) -> tf.data.Dataset:
    """Images (batch, pixels, pixels, 3) in [0, 1] and classes (batch,), of batches of raw
    records."""
    def unpack(records: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        values = tf.io.decode_raw(records, tf.uint8)
        labels = tf.bitcast(values[:, -CLASS_BYTES:], tf.int32)
        shaped = tf.reshape(values[:, :-CLASS_BYTES], [-1, pixels, pixels, 3])
        return tf.image.convert_image_dtype(shaped, tf.float32), labels

    return batches.map(unpack, num_parallel_calls=tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]))
