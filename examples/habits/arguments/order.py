"""`seed=` and `shuffle=` of open: an order for each seed and epoch, or the data's own.

    horovodrun -np 2 python examples/habits/arguments/order.py
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars

STEP = 12  # samples of all ranks


def epochs(**options: object) -> list[list[int]]:
    """Numbers of the samples of two epochs, as all ranks take them step by step."""
    with hio.open(f"{folder}/*.tar", **options) as data:
        loader = hio.torch.loader(data, global_batch_size=STEP, epochs=2,
                                  decode=lambda sample: sample.number)
        return [[number for batch in loader for number in gather(hvd, batch.tolist())]
                for _ in range(2)]


with folder_of(hvd, write_tars) as folder:
    first, second = epochs(seed=1)
    assert sorted(first) == sorted(second) == list(range(SAMPLES)) and first != second
    assert epochs(seed=1) == [first, second] != epochs(seed=2)
    assert epochs(shuffle=False) == [list(range(SAMPLES))] * 2
    say(hvd, "two epochs in two orders, the same again by the seed; or the data's own")
