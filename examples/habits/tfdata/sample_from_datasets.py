"""sample_from_datasets and rejection_resample: shares of an epoch, and `weights=` of open.

    horovodrun -np 2 python examples/habits/tfdata/sample_from_datasets.py
"""

import sys
from collections import Counter
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say

COUNTS = {"web": 60, "books": 20}


def write(folder: Path) -> None:
    for name, count in COUNTS.items():
        with tf.io.TFRecordWriter(f"{folder}/{name}.tfrecord") as writer:
            for _ in range(count):
                writer.write(name.encode())


def balance(table: hio.SampleTable) -> np.ndarray:
    """Samples are web's 60 and books' 20, and their size tells them apart."""
    return np.where(table.size[:, 0] == len("web"), 1, 3)


def seen(pattern: object, **options: object) -> dict[str, int]:
    with hio.open(pattern, seed=1, **options) as data:
        records = [record.decode() for batch in hio.tensorflow.dataset(data, 8, epochs=1)
                   for record in batch.numpy()]
        return Counter(gather(hvd, records))


with folder_of(hvd, write) as folder:
    shares = seen({f"{folder}/web.tfrecord": 7, f"{folder}/books.tfrecord": 3})
    assert abs(shares["web"] - 0.7 * shares.total()) <= 1 and shares["books"] >= 20
    weights = seen([f"{folder}/web.tfrecord", f"{folder}/books.tfrecord"], weights=balance)
    assert weights == {"web": 60, "books": 60}
    say(hvd, f"by shares {dict(shares)}, by weights {dict(weights)}")
