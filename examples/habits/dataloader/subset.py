"""Subset and SubsetRandomSampler: `choose=` with numbers of samples.

    horovodrun -np 2 python examples/habits/dataloader/subset.py

A split into data to train and to validate with is two `open` of the same files.
"""

import sys
from pathlib import Path

import horovod.torch as hvd
import numpy as np

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def seen(numbers: np.ndarray, **options: object) -> list[str]:
    with hio.open(f"{folder}/*.tar", choose=lambda table: numbers, **options) as data:
        loader = hio.torch.loader(data, 4, decode=lambda sample: sample.key, epochs=1)
        return gather(hvd, [key for batch in loader for key in batch])


with folder_of(hvd, write_tars) as folder:
    shuffled = np.random.default_rng(0).permutation(SAMPLES)  # the same on all ranks
    training = seen(shuffled[:48], seed=1)
    validation = seen(np.sort(shuffled[48:]), shuffle=False)
    assert len(training) == 48 and len(validation) == 12
    assert sorted(training + validation) == [f"{number:04d}" for number in range(SAMPLES)]
    say(hvd, f"{len(training)} samples to train with, {len(validation)} others to validate")
