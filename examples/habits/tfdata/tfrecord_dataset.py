"""TFRecordDataset(files): hio.tensorflow.dataset(hio.open(pattern), 64).

    horovodrun -np 2 python examples/habits/tfdata/tfrecord_dataset.py
"""

import sys
from pathlib import Path

import horovod.tensorflow as hvd
import tensorflow as tf

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_records

with folder_of(hvd, write_records) as folder:
    with hio.open(f"{folder}/*.tfrecord", seed=1) as data:
        seen = [record for batch in hio.tensorflow.dataset(data, 8, epochs=1)
                for record in batch.numpy()]
    written = tf.data.TFRecordDataset(sorted(map(str, folder.glob("*.tfrecord"))))
    assert gather(hvd, seen) == sorted(written.as_numpy_iterator())
    say(hvd, f"{SAMPLES} records, the bytes that TFRecordDataset has, each once")
