"""Epochs of n batches, tf.data's .repeat() and .take(n): `epoch_batches=n` of dataset.

    horovodrun -np 2 python examples/habits/tfdata/epochs_of_batches.py
"""

import sys
from pathlib import Path

import horovod.tensorflow as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_records

LOOP = 2

with folder_of(hvd, write_records) as folder:
    with hio.open(f"{folder}/*.tfrecord", seed=1) as data:
        dataset = hio.tensorflow.dataset(data, 5, epoch_batches=LOOP, with_samples=True)
        assert int(dataset.cardinality()) == LOOP
        seen, loops = {0: [], 1: []}, 0
        while data.epoch < 2:
            for _, info in dataset:
                if (epoch := int(info["epoch"])) in seen:
                    seen[epoch] += info["numbers"].numpy().tolist()
                data.taken(info)
            loops += 1
    for numbers in seen.values():
        assert gather(hvd, numbers) == list(range(SAMPLES))
    say(hvd, f"{loops} loops of {LOOP} batches, over two epochs of {SAMPLES} samples")
