"""tf.data's .batch(64, drop_remainder=True): `batch_size=64, last="drop"`.

    horovodrun -np 2 python examples/habits/tfdata/drop_remainder.py
"""

import sys
from pathlib import Path

import horovod.tensorflow as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_records

BATCH = 7


def batches(**options: object) -> list[list[int]]:
    with hio.open(f"{folder}/*.tfrecord", seed=1) as data:
        dataset = hio.tensorflow.dataset(data, BATCH, with_samples=True, epochs=1, **options)
        return [info["numbers"].numpy().tolist() for _, info in dataset]


with folder_of(hvd, write_records) as folder:
    whole, full = batches(), batches(last="drop")
    assert gather(hvd, sum(whole, [])) == list(range(SAMPLES))
    steps = SAMPLES // (BATCH * hvd.size())
    assert [len(batch) for batch in full] == [BATCH] * steps
    assert len(set(gather(hvd, sum(full, [])))) == steps * BATCH * hvd.size()
    say(hvd, f"batches of {[len(batch) for batch in whole]} samples, or {steps} of {BATCH}")
