"""Keras' image_dataset_from_directory: hio.open(folder) and `decode=`.

    horovodrun -np 2 python examples/habits/tfdata/image_directory.py
"""

import sys
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, digits, write_folder


def decode(file, label):
    """(8, 8, 1) pixels from 0 to 1, and the class."""
    pixels = tf.ensure_shape(tf.io.decode_png(file, channels=1), (8, 8, 1))
    return tf.cast(pixels, tf.float32) / 240, label


with folder_of(hvd, write_folder) as folder:
    labels_seen = []
    with hio.open(folder, seed=1) as data:
        for images, labels in hio.tensorflow.dataset(data, 8, decode=decode, epochs=1):
            assert images.shape == (len(labels), 8, 8, 1) and 0.5 < images.numpy().max() <= 1
            labels_seen += [data.classes[label] for label in labels.numpy()]
    assert gather(hvd, labels_seen) == sorted(str(label) for _, label in digits())
    say(hvd, f"{SAMPLES} images of {len(data.classes)} classes")
