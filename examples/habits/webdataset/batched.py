"""WebDataset's .batched(64): `batch_size=` of a loader; an epoch's remainder is spread.

    horovodrun -np 2 python examples/habits/webdataset/batched.py
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, say
from small_data import SAMPLES, write_tars


def decode(sample: hio.Sample) -> dict[str, object]:
    return {"number": int(sample.key), "label": int(sample.parts["cls"])}


with folder_of(hvd, write_tars) as folder:
    with hio.open(f"{folder}/*.tar", seed=1) as data:
        batches = list(hio.torch.loader(data, batch_size=7, decode=decode, epochs=1))
    sizes = [len(batch["number"]) for batch in batches]
    of_ranks = hvd.allgather_object(sizes)
    assert len({len(of_rank) for of_rank in of_ranks}) == 1
    assert sum(map(sum, of_ranks)) == SAMPLES
    assert all(size == 7 for of_rank in of_ranks for size in of_rank[:-2])  # all but the last two
    say(hvd, f"batches of {sizes} samples on rank 0")
