"""WebDataset's .select(f) by key: `choose=`, patterns or a function.

    horovodrun -np 2 python examples/habits/webdataset/select_by_key.py
"""

import sys
from pathlib import Path

import horovod.torch as hvd
import numpy as np

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def is_even(table: hio.SampleTable) -> np.ndarray:
    """bool[n], of all samples without their bytes."""
    return np.array([int(key) % 2 == 0 for key in table.keys])


with folder_of(hvd, write_tars) as folder:
    counts = []
    for choose, expected in ((is_even, range(0, SAMPLES, 2)),
                             (["001*"], range(10, 20)),
                             ("!00[0-4]*", range(50, SAMPLES))):
        with hio.open(f"{folder}/*.tar", choose=choose, seed=1) as data:
            loader = hio.torch.loader(data, 4, decode=lambda sample: int(sample.key), epochs=1)
            seen = [number for batch in loader for number in batch.tolist()]
        assert gather(hvd, seen) == list(expected), choose
        counts.append(len(expected))
    say(hvd, f"{counts} samples by a function, by a pattern, and all but a pattern's")
