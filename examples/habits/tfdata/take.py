"""tf.data's .take(n): the same, in one's own loop. The next one begins the epoch anew.

    horovodrun -np 2 python examples/habits/tfdata/take.py
"""

import sys
from pathlib import Path

import horovod.tensorflow as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_records

with folder_of(hvd, write_records) as folder:
    with hio.open(f"{folder}/*.tfrecord", seed=1) as data:
        dataset = hio.tensorflow.dataset(data, 4, with_samples=True)
        loops = [[number for _, info in batches for number in info["numbers"].numpy().tolist()]
                 for batches in (dataset.take(2), dataset)]
    assert loops[0] == loops[1][:8]
    assert gather(hvd, loops[1]) == list(range(SAMPLES))
    say(hvd, f"two batches, and then the epoch of {SAMPLES} samples from its first")
