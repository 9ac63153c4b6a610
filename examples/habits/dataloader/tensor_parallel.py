"""Tensor parallel ranks with equal samplers: `groups=` of open.

    horovodrun -np 4 python examples/habits/dataloader/tensor_parallel.py

Two ranks are a group, or all where that does not come out even. Ranks of a group have the same
samples, random numbers included; all groups together have each once.
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, say
from small_data import SAMPLES, write_tars

hvd.init()
RANKS = range(hvd.size())
GROUPS = [list(RANKS[i:i + 2]) for i in RANKS[::2]] if len(RANKS) % 2 == 0 else [list(RANKS)]


def decode(sample: hio.Sample) -> tuple[int, float]:
    return int(sample.key), sample.random.random()


with folder_of(hvd, write_tars) as folder:
    with hio.open(f"{folder}/*.tar", groups=GROUPS, seed=1) as data:
        loader = hio.torch.loader(data, 4, decode=decode, collate=list, epochs=1, with_info=True)
        batches, weights = zip(*((batch, info.weight) for batch, info in loader))
    of_ranks = hvd.allgather_object(list(batches))
    for group in GROUPS:
        assert all(of_ranks[rank] == of_ranks[group[0]] for rank in group)
    of_groups = [sum(of_ranks[group[0]], []) for group in GROUPS]
    assert sorted(number for items in of_groups for number, _ in items) == list(range(SAMPLES))
    weights = hvd.allgather_object(list(weights))
    for step in zip(*(weights[group[0]] for group in GROUPS)):
        assert abs(sum(step) - len(GROUPS)) < 1e-6
    say(hvd, f"{len(GROUPS)} group(s) of {len(GROUPS[0])}: {[len(items) for items in of_groups]} "
             "samples")
