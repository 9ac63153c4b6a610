"""tf.data's .prefetch(2): the same.

    horovodrun -np 2 python examples/habits/tfdata/prefetch.py

What is fetched ahead does not count: the place is that of the batches taken, as `data.taken` says.
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
        numbers = []
        batches = hio.tensorflow.dataset(data, 4, with_samples=True, epochs=1).prefetch(2)
        for step, (_, info) in enumerate(batches, 1):
            numbers += info["numbers"].numpy().tolist()
            data.taken(info)
            if step == 2:
                assert (data.epoch, data.position) == (0, 2 * 4 * hvd.size())
    assert gather(hvd, numbers) == list(range(SAMPLES))
    say(hvd, f"{SAMPLES} samples; after two batches the place was behind two, whatever was fetched")
