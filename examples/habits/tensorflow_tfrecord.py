"""tf.data's habits: records of tf.train.Example, and images of a folder, decoded in parallel.

    python examples/habits/tensorflow_tfrecord.py

Writes TFRecord files of photographs below --folder. Each sample is decoded by itself while batches
stay what they are, and says which file it is of.
"""

import argparse
import sys
from pathlib import Path

import tensorflow as tf

sys.path.insert(0, str(Path(__file__).parents[1]))
import photographs  # noqa: E402  -- of the folder above

import horovod_opt.io as hio  # noqa: E402

FEATURES = {"image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64)}
PIXELS = (photographs.PIXELS, photographs.PIXELS, 3)


def write_records(folder: Path, images: Path) -> str:
    """Two files of examples; returns the pattern of them."""
    paths = sorted(images.glob("*/*.jpg"))
    classes = sorted({path.parent.name for path in paths})
    for shard in range(2):
        with tf.io.TFRecordWriter(str(folder / f"train-{shard}.tfrecord")) as writer:
            for path in paths[shard::2]:
                features = {
                    "image": tf.train.Feature(
                        bytes_list=tf.train.BytesList(value=[path.read_bytes()])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(
                        value=[classes.index(path.parent.name)]))}
                writer.write(tf.train.Example(
                    features=tf.train.Features(feature=features)).SerializeToString())
    return f"{folder}/train-{{0,1}}.tfrecord"


def decode_example(record):
    """(64, 64, 3) pixels and the class, of a record."""
    example = tf.io.parse_single_example(record, FEATURES)
    return decode_file(example["image"], example["label"])


def decode_file(file, label):
    """The same, of a file of a folder."""
    pixels = tf.ensure_shape(tf.io.decode_jpeg(file, channels=3), PIXELS)
    return tf.cast(pixels, tf.float32) / 255, label


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("build"), help="(%(default)s)")
    folder = parser.parse_args().folder
    images = photographs.make(folder, 20, 1) / "train"
    for pattern, decode in ((write_records(folder, images), decode_example),
                            (images, decode_file)):
        with hio.open(pattern, seed=1) as data:
            batches = hio.tensorflow.dataset(data, 8, decode=decode, with_samples=True, epochs=1)
            files, weights, classes = set(), 0.0, set()
            for (pixels, labels), info in batches.prefetch(2):
                files |= set(info["files"].numpy().tolist())
                weights += float(info["weight"]) * len(pixels)
                classes |= set(labels.numpy().tolist())
            print(f"{weights:.0f} of {len(data)} samples of {len(classes)} classes in "
                  f"{len(files)} files")


if __name__ == "__main__":
    main()
