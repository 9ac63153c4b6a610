"""`threads=` and `prefetch=` of hio.torch.loader: batches are decoded ahead, by so many threads.

    horovodrun -np 2 python examples/habits/arguments/decoding_ahead.py

The training's thread decodes the first batch of a loop, to see whether `decode` draws random
numbers of its own, and with prefetch=0 all.
"""

import sys
import threading
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def decode(sample: hio.Sample) -> tuple[int, bool]:
    """Which digit it is, and whether the training's thread decodes it."""
    return int(sample.key), threading.current_thread() is threading.main_thread()


with folder_of(hvd, write_tars) as folder:
    batches = {}
    for threads, prefetch in ((1, 0), (1, 4), (2, 4)):
        with hio.open(f"{folder}/*.tar", seed=1) as data:
            loader = hio.torch.loader(data, 4, decode=decode, collate=list, threads=threads,
                                      prefetch=prefetch, epochs=1)
            first, *others = loader
            items = sum(others, first)
        assert gather(hvd, [number for number, _ in items]) == list(range(SAMPLES))
        assert {by_training for _, by_training in sum(others, [])} == {prefetch == 0}
        batches[threads, prefetch] = [number for number, _ in items]
    assert batches[1, 0] == batches[1, 4] == batches[2, 4]
    say(hvd, f"{SAMPLES} samples, decoded on demand, ahead, and by two threads, in one order")
