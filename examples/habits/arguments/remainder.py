"""`last=` of loaders: an epoch's remainder in the last two batches, dropped, or masked.

    horovodrun -np 2 python examples/habits/arguments/remainder.py

Weights make the loss right in each: the mean over ranks counts every sample of a step alike.
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars

BATCH = 7

with folder_of(hvd, write_tars) as folder:
    counts = {}
    for last in ("spread", "drop", "mask"):
        seen, weights = [], []
        with hio.open(f"{folder}/*.tar", seed=1) as data:
            loader = hio.torch.loader(data, BATCH, decode=lambda sample: int(sample.key),
                                      collate=list, last=last, with_info=True, epochs=1)
            for numbers, info in loader:
                numbers = numbers or []  # a masked batch may have no sample at all
                assert info.size == len(numbers)
                assert last != "mask" or info.slots == BATCH
                seen += numbers
                weights.append(info.weight)
        seen = gather(hvd, seen)
        assert len(set(seen)) == len(seen)
        left_out = SAMPLES % (BATCH * hvd.size()) if last == "drop" else 0
        assert len(seen) == SAMPLES - left_out
        for of_step in zip(*hvd.allgather_object(weights)):
            assert abs(sum(of_step) - hvd.size()) < 1e-6
        counts[last] = f"{len(weights)} steps, {len(seen)} samples"
    say(hvd, f"{counts}")
