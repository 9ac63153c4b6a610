"""list_files and interleave: nothing. A glob, and batches mix the files.

    horovodrun -np 2 python examples/habits/tfdata/interleave.py
"""

import sys
from pathlib import Path

import horovod.tensorflow as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, SHARDS, write_records

with folder_of(hvd, write_records) as folder:
    with hio.open(f"{folder}/*.tfrecord", seed=1) as data:
        numbers, most = [], 0
        for _, info in hio.tensorflow.dataset(data, 10, with_samples=True, epochs=1):
            numbers += info["numbers"].numpy().tolist()
            most = max(most, len(set(info["files"].numpy().tolist())))
    assert gather(hvd, numbers) == list(range(SAMPLES))
    assert most == SHARDS
    say(hvd, f"a batch has samples of all {most} files")
