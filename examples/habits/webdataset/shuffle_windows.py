"""WebDataset's .shuffle(1000): nothing. All of a small data set is shuffled, anew in each epoch.

    horovodrun -np 2 python examples/habits/webdataset/shuffle_windows.py
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def epochs(**options: object) -> list[list[int]]:
    """What this rank gets in two epochs."""
    with hio.open(f"{folder}/*.tar", **options) as data:
        loader = hio.torch.loader(data, 8, decode=lambda sample: int(sample.key), epochs=2)
        return [[number for batch in loader for number in batch.tolist()] for _ in range(2)]


with folder_of(hvd, write_tars) as folder:
    first, second = epochs(seed=1)
    for numbers in (first, second):
        assert gather(hvd, numbers) == list(range(SAMPLES))
    assert first != second and epochs(seed=1) == [first, second]
    assert epochs(seed=2)[0] != first
    # A window of one chunk of four samples: neighbours in the data come close to each other.
    assert gather(hvd, epochs(seed=1, window=1, chunk_samples=4)[0]) == list(range(SAMPLES))
    say(hvd, "two epochs in two orders, the same for the same seed")
