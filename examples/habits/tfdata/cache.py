"""tf.data's .cache(): nothing, the page cache has what was read; or `cache=` of open.

    horovodrun -np 2 python examples/habits/tfdata/cache.py

`cache=` keeps bytes in memory of the job, for where the page cache is too small.
"""

import sys
from pathlib import Path

import horovod.tensorflow as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_records

with folder_of(hvd, write_records) as folder:
    for options in ({}, {"cache": "64MiB"}, {"cache": "64MiB", "cache_in": folder}):
        with hio.open(f"{folder}/*.tfrecord", seed=1, **options) as data:
            dataset = hio.tensorflow.dataset(data, 8, with_samples=True, epochs=2)
            for _ in range(2):
                numbers = [number for _, info in dataset
                           for number in info["numbers"].numpy().tolist()]
                assert gather(hvd, numbers) == list(range(SAMPLES))
            again = data.stats()["node_again_bytes"]
        assert again == 0, options  # nothing was read from storage in the second epoch
    say(hvd, f"two epochs of {SAMPLES} samples, read once: page cache, memory, a disk")
