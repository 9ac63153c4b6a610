"""tf.data's .shard(n, i) and .shuffle(n): nothing, `open` does both, anew in each epoch.

    horovodrun -np 2 python examples/habits/tfdata/shard_and_shuffle.py
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
        dataset = hio.tensorflow.dataset(data, 7, with_samples=True, epochs=2)
        orders = [[number for _, info in dataset for number in info["numbers"].numpy().tolist()]
                  for _ in range(2)]
        steps = int(dataset.cardinality())
    for numbers in orders:
        assert gather(hvd, numbers) == list(range(SAMPLES))
    assert orders[0] != orders[1]
    assert len(set(hvd.allgather_object(steps))) == 1
    say(hvd, f"{SAMPLES} samples over {hvd.size()} rank(s), in two orders of {steps} steps")
