"""WebDataset's .with_epoch(n), and resampled=True: `epoch_batches=` of a loader.

    horovodrun -np 2 python examples/habits/webdataset/epochs_of_batches.py

Nothing needs resampling to have equally many steps: all ranks have. Loops of any length go on where
the last one ended, and each sample still comes once in an epoch of the data.
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars

LOOP = 2

with folder_of(hvd, write_tars) as folder:
    with hio.open(f"{folder}/*.tar", seed=1) as data:
        loader = hio.torch.loader(data, 5, decode=lambda sample: int(sample.key),
                                  epoch_batches=LOOP, with_info=True)
        seen, loops = {0: [], 1: [], 2: []}, []
        while data.epoch < 3:
            batches = list(loader)
            loops.append(len(batches))
            for numbers, info in batches:
                if info.epoch in seen:
                    seen[info.epoch] += numbers.tolist()
    for numbers in seen.values():
        assert gather(hvd, numbers) == list(range(SAMPLES))
    assert set(loops) == {LOOP} and len(set(hvd.allgather_object(len(loops)))) == 1
    say(hvd, f"{len(loops)} loops of {LOOP} batches, over three epochs of {SAMPLES} samples")
