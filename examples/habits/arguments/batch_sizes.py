"""`batch_size=` and `global_batch_size=` of loaders: of a rank, or of all ranks together.

    horovodrun -np 2 python examples/habits/arguments/batch_sizes.py

With the latter the batches of all ranks together are the same for any number of ranks.
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def steps(**options: object) -> list[list[int]]:
    """What each step has, of all ranks."""
    with hio.open(f"{folder}/*.tar", seed=1) as data:
        loader = hio.torch.loader(data, decode=lambda sample: int(sample.key), epochs=1, **options)
        return [gather(hvd, batch.tolist()) for batch in loader]


with folder_of(hvd, write_tars) as folder:
    of_rank, of_all = steps(batch_size=5), steps(global_batch_size=10)
    assert sorted(sum(of_rank, [])) == sorted(sum(of_all, [])) == list(range(SAMPLES))
    assert len(of_rank) == SAMPLES // (5 * hvd.size()) and len(of_all) == SAMPLES // 10
    # One process alone has the same.
    with hio.open(f"{folder}/*.tar", seed=1, alone=True) as data:
        loader = hio.torch.loader(data, 10, decode=lambda sample: int(sample.key), epochs=1)
        assert of_all == [sorted(batch.tolist()) for batch in loader]
    say(hvd, f"{len(of_rank)} steps of 5 samples a rank, {len(of_all)} of 10 in all")
