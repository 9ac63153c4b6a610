"""Real input: JPEGs in TFRecords, made once from photographs, and the pipeline that reads them.

    python images.py FOLDER

The pipeline is the usual one for ImageNet: interleaved reading, shuffling, decoding of a random
crop, flipping, scaling, distorted colours, batching, prefetching. All of it runs on the CPU, which
the source names as what the background thread competes with (Chapter 6.2.5).
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import tensorflow as tf

FILES, IMAGES_PER_FILE = 8, 64
HEIGHT, WIDTH = 375, 500  # ImageNet's most frequent size
QUALITY = 95
LABELS = 1000  # ImageNet's files count them from 1
SHUFFLED = 256


def make(folder: Path) -> None:
    """Writes the files, if they are not there: about 45 MB. Crops of scikit-learn's two
    photographs, scaled, flipped and lit in different ways; the same at each time."""
    if folder.exists():
        return
    from sklearn.datasets import load_sample_images

    photographs = load_sample_images().images
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for number in range(FILES):
        with tf.io.TFRecordWriter(str(unfinished / f"train-{number:05d}-of-{FILES:05d}")) as file:
            for index in range(number * IMAGES_PER_FILE, (number + 1) * IMAGES_PER_FILE):
                jpeg = encoded(photographs[index % len(photographs)], index)
                file.write(record(jpeg, 1 + index % LABELS))
    unfinished.rename(folder)


def encoded(photograph, index: int, height: int = HEIGHT, width: int = WIDTH,
            quality: int = QUALITY) -> bytes:
    """JPEG number `index` that is made of the photograph."""
    seed = (index, 0)
    share = tf.random.stateless_uniform([], seed, 0.5, 1.0)
    crop = [int(share * length) for length in photograph.shape[:2]]
    image = tf.image.stateless_random_crop(photograph, (*crop, 3), seed)
    image = tf.image.stateless_random_flip_left_right(image, seed)
    image = tf.image.stateless_random_brightness(image, 0.2, seed)
    image = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), (height, width))
    return tf.io.encode_jpeg(tf.image.convert_image_dtype(image, tf.uint8, saturate=True),
                             quality=quality).numpy()


def record(jpeg: bytes, label: int) -> bytes:
    """As in ImageNet's files; `label` from 1."""
    return tf.train.Example(features=tf.train.Features(feature={
        "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(value=[jpeg])),
        "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
    })).SerializeToString()


def training_images(folder: Path, batch: int, pixels: int, rank: int, size: int
                    ) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Images (batch, pixels, pixels, 3) in [0, 1] and classes (batch,) from 0, without end; the
    ranks read different records. A label that is not one of ImageNet's is an InvalidArgumentError.
    """
    return iter(decoded(stored(folder, rank, size), batch, pixels, folder))


def stored(folder: Path, rank: int, size: int) -> tf.data.Dataset:
    """The records of this rank, shuffled, without end."""
    files = tf.data.Dataset.list_files(str(folder / "train-*"), shuffle=False)
    records = files.interleave(tf.data.TFRecordDataset, cycle_length=4,
                               num_parallel_calls=tf.data.AUTOTUNE)
    return records.shard(size, rank).shuffle(SHUFFLED, seed=rank).repeat()


def decoded(records: tf.data.Dataset, batch: int, pixels: int, folder: Path) -> tf.data.Dataset:
    """What training_images() has, of these records, which were read from `folder`."""
    data = records.map(lambda record: _decode(record, pixels, folder),
                       num_parallel_calls=tf.data.AUTOTUNE)
    return data.batch(batch, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def _decode(record: tf.Tensor, pixels: int, folder: Path) -> tuple[tf.Tensor, tf.Tensor]:
    fields = tf.io.parse_single_example(record, {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64)})
    shape = tf.io.extract_jpeg_shape(fields["image/encoded"])
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        shape, tf.zeros([1, 0, 4]), area_range=(0.08, 1.0),
        use_image_if_no_bounding_boxes=True)
    crop = tf.concat([begin[:2], size[:2]], axis=0)
    image = tf.image.decode_and_crop_jpeg(fields["image/encoded"], crop, channels=3)
    image = tf.image.resize(tf.image.convert_image_dtype(image, tf.float32), (pixels, pixels))
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, 32 / 255)
    image = tf.image.random_saturation(image, 0.5, 1.5)
    return tf.clip_by_value(image, 0.0, 1.0), _class(fields["image/class/label"], folder)


def _class(label: tf.Tensor, folder: Path) -> tf.Tensor:
    text = tf.strings.join([
        "The label ", tf.strings.as_string(label), f" in {folder} is not between 1 and {LABELS}, "
        "as those of ImageNet are. Remedy: delete the folder if `horovod-opt bench` made it, which "
        "makes it anew; otherwise count the labels of its records from 1."])
    with tf.control_dependencies([tf.Assert((label >= 1) & (label <= LABELS), [text])]):
        return tf.cast(label, tf.int32) - 1


if __name__ == "__main__":
    make(Path(sys.argv[1]))
