"""DataLoader's pin_memory=True: the same. Without a GPU there is ordinary memory, and a warning.

    horovodrun -np 2 python examples/habits/dataloader/pin_memory.py
"""

import sys
import warnings
from pathlib import Path

import horovod.torch as hvd
import torch

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars

with folder_of(hvd, write_tars) as folder:
    seen = []
    with hio.open(f"{folder}/*.tar", seed=1) as data, warnings.catch_warnings():
        warnings.simplefilter("ignore" if not torch.cuda.is_available() else "default")
        for batch in hio.torch.loader(data, 8, decode=lambda sample: int(sample.key),
                                      pin_memory=True, epochs=1):
            assert batch.is_pinned() == torch.cuda.is_available()
            seen += batch.tolist()
    assert gather(hvd, seen) == list(range(SAMPLES))
    say(hvd, f"{SAMPLES} samples in {'pinned' if torch.cuda.is_available() else 'ordinary'} memory")
