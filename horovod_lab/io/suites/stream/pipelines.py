"""The pipelines of the suite stream: batches of the same JPEG files, through tf.data alone and
through this project's input side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Optional

import tensorflow as tf

import horovod_opt.io as hio
from horovod_lab.io.data import jpegs


@dataclass(frozen=True)
class Shape:
    """`threads` read, and decode; `prefetch`: batches that are made ahead; `pixels`: height and
    width of the images, None for the files' bytes."""

    threads: int
    batch: int
    prefetch: int
    pixels: Optional[int]


@contextmanager
def tf_data(folder: Path, shape: Shape) -> Iterator[tf.data.Dataset]:
    """As the source has it (III-A): names, shuffled, of which each call of a map reads, decodes and
    resizes one; what cannot be read is left out."""
    paths = jpegs.names(folder)

    def read(path: tf.Tensor) -> tf.Tensor:
        data = tf.io.read_file(path)
        return data if shape.pixels is None else decode(data, shape.pixels)

    names = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths), seed=1)
    images = names.map(read, num_parallel_calls=shape.threads).ignore_errors()
    yield limited(images.batch(shape.batch), shape)


@contextmanager
def by_hio(folder: Path, shape: Shape) -> Iterator[tf.data.Dataset]:
    """What users write. So many threads of the reader, and as many calls that decode."""
    data = hio.open(str(folder), seed=1, threads=shape.threads)
    try:
        batches = hio.tensorflow.dataset(data, shape.batch)
        if shape.pixels is not None:
            images = batches.unbatch().map(lambda jpeg: decode(jpeg, shape.pixels),
                                           num_parallel_calls=shape.threads)
            batches = images.batch(shape.batch)
        yield limited(batches, shape)
    finally:
        data.close()


PIPELINES: dict[str, Callable[[Path, Shape], AbstractContextManager[tf.data.Dataset]]] = {
    "tf-data": tf_data, "hio": by_hio}


def decode(jpeg: tf.Tensor, pixels: int) -> tf.Tensor:
    """float32[pixels, pixels, 3] in [0, 1]."""
    image = tf.image.convert_image_dtype(tf.image.decode_jpeg(jpeg, channels=3), tf.float32)
    return tf.image.resize(image, (pixels, pixels))


def limited(batches: tf.data.Dataset, shape: Shape) -> tf.data.Dataset:
    """With as many threads, and batches made ahead, as asked for and no more."""
    if shape.prefetch:
        batches = batches.prefetch(shape.prefetch)
    options = tf.data.Options()
    # Calls run on a pool with a thread for each core: fewer than there may be calls.
    options.threading.private_threadpool_size = shape.threads
    options.threading.max_intra_op_parallelism = 1
    options.experimental_optimization.inject_prefetch = False  # none where none is asked for
    return batches.with_options(options)
