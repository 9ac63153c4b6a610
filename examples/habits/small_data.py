"""Small data for the scripts of habits: handwritten digits, which come with scikit-learn, as PNG
files of 8 x 8 pixels with their classes, 0 to 9."""

from __future__ import annotations

import functools
import io
import tarfile
from pathlib import Path

SAMPLES = 60
SHARDS = 3


@functools.lru_cache(maxsize=None)
def digits() -> list[tuple[bytes, int]]:
    """SAMPLES PNG files, and the class of each."""
    from PIL import Image
    from sklearn.datasets import load_digits

    data, files = load_digits(), []
    for pixels, label in zip(data.images[:SAMPLES], data.target):
        file = io.BytesIO()
        Image.fromarray((pixels * 15).astype("uint8")).save(file, "PNG")
        files.append((file.getvalue(), int(label)))
    return files


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    """A file to a tar."""
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def write_tars(folder: Path, name: str = "train", end: str = ".tar", mode: str = "w") -> None:
    """train-000.tar to train-002.tar with NNNN.png and NNNN.cls, NNNN from 0000 to 0059."""
    for shard in range(SHARDS):
        with tarfile.open(folder / f"{name}-{shard:03d}{end}", mode) as archive:
            for number in range(shard, SAMPLES, SHARDS):
                png, label = digits()[number]
                add(archive, f"{number:04d}.png", png)
                add(archive, f"{number:04d}.cls", b"%d" % label)


def write_folder(folder: Path) -> None:
    """CLASS/NNNN.png: a folder of classes."""
    for number, (png, label) in enumerate(digits()):
        (folder / str(label)).mkdir(exist_ok=True)
        (folder / str(label) / f"{number:04d}.png").write_bytes(png)


def write_records(folder: Path, name: str = "train", compression: str = "") -> None:
    """train-000.tfrecord to train-002.tfrecord, of tf.train.Example with the image, the label, and
    the number of the digit."""
    import tensorflow as tf

    def of_bytes(value: bytes) -> tf.train.Feature:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    def of_int(value: int) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    for shard in range(SHARDS):
        path = str(folder / f"{name}-{shard:03d}.tfrecord")
        with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression)) as writer:
            for number in range(shard, SAMPLES, SHARDS):
                png, label = digits()[number]
                features = {"image": of_bytes(png), "label": of_int(label),
                            "number": of_int(number)}
                writer.write(tf.train.Example(
                    features=tf.train.Features(feature=features)).SerializeToString())
