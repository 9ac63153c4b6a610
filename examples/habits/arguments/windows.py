"""`memory=`, `window=`, `shards=` and `chunk_samples=` of open: how far samples are shuffled.

    horovodrun -np 2 python examples/habits/arguments/windows.py

Nobody needs them for data of some GiB. Here one window has a fifth of the data.
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars

STEP = 12  # samples of all ranks


def steps(**options: object) -> list[list[int]]:
    """Numbers of the samples of each step of an epoch, of all ranks."""
    with hio.open(f"{folder}/*.tar", seed=1, **options) as data:
        loader = hio.torch.loader(data, global_batch_size=STEP, epochs=1,
                                  decode=lambda sample: sample.number)
        return [gather(hvd, batch.tolist()) for batch in loader]


def spread(order: list[list[int]]) -> int:
    """How many steps the samples of a chunk, three that follow each other, are apart at most."""
    step_of = {number: step for step, numbers in enumerate(order) for number in numbers}
    chunks = [[step_of[chunk + i] for i in range(3)] for chunk in range(0, SAMPLES, 3)]
    return max(max(steps) - min(steps) for steps in chunks)


with folder_of(hvd, write_tars) as folder:
    whole = steps(memory="64MiB")
    near = steps(memory="64MiB", shards=1, window=4, chunk_samples=3)
    for order in (whole, near):
        assert sorted(sum(order, [])) == list(range(SAMPLES))
    # A window is four chunks of three samples that follow each other: as many as a step has.
    assert spread(near) <= 1 < spread(whole)
    say(hvd, f"{SAMPLES} samples; three that follow each other come up to {spread(whole)} steps "
             f"apart, and in windows of {STEP} up to {spread(near)}")
