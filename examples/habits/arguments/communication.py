"""`ranks=` of open: under a launcher that hio does not know, an allgather of bytes is all it needs.

    horovodrun -np 2 python examples/habits/arguments/communication.py

Horovod stands for the other launcher here.
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars

calls = []


def allgather(mine: bytes) -> list[bytes]:
    """The bytes of all ranks."""
    calls.append(len(mine))
    return hvd.allgather_object(mine)


with folder_of(hvd, write_tars) as folder:
    ranks = hio.Communication(hvd.rank(), hvd.size(), allgather)
    with hio.open(f"{folder}/*.tar", seed=1, ranks=ranks) as data:
        loader = hio.torch.loader(data, 8, decode=lambda sample: int(sample.key), epochs=1)
        seen = [number for batch in loader for number in batch.tolist()]
    assert gather(hvd, seen) == list(range(SAMPLES))
    assert hvd.size() == 1 or calls
    say(hvd, f"{SAMPLES} samples, each once; {len(calls)} allgathers of {sum(calls):,} bytes")
