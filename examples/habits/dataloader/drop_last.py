"""DataLoader's drop_last=True: `last="drop"`, on all ranks alike.

    horovodrun -np 2 python examples/habits/dataloader/drop_last.py
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
    with hio.open(f"{folder}/*.tar", seed=1) as data:
        batches = list(hio.torch.loader(data, BATCH, decode=lambda sample: int(sample.key),
                                        last="drop", epochs=1))
    steps = SAMPLES // (BATCH * hvd.size())
    assert [len(batch) for batch in batches] == [BATCH] * steps
    seen = gather(hvd, [number for batch in batches for number in batch.tolist()])
    assert len(set(seen)) == len(seen) == steps * BATCH * hvd.size()
    say(hvd, f"{steps} batches of {BATCH} on each rank, {SAMPLES - len(seen)} samples left out")
