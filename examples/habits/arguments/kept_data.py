"""`cache=`, `cache_in=`, `deal=` and `order=` of open: what a node has read once is kept.

    horovodrun -np 2 python examples/habits/arguments/kept_data.py

On several nodes the others get it from there; on one, later epochs do not read.
"""

import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def write(folder: Path) -> None:
    (folder / "disk").mkdir()
    write_tars(folder)


with folder_of(hvd, write) as folder:
    for options in ({"cache": "64MiB"}, {"cache": "64MiB", "cache_in": folder / "disk"},
                    {"cache": "64MiB", "deal": "job"}, {"cache": "64MiB", "order": "ordered"}):
        with hio.open(f"{folder}/*.tar", seed=1, **options) as data:
            loader = hio.torch.loader(data, 8, decode=lambda sample: int(sample.key), epochs=2)
            for _ in range(2):
                seen = [number for batch in loader for number in batch.tolist()]
                assert gather(hvd, seen) == list(range(SAMPLES)), options
            again = data.stats()["node_again_bytes"]
        assert again == 0, options
        assert not list((folder / "disk").iterdir())  # what is there has no name
    say(hvd, f"two epochs of {SAMPLES} samples, kept in memory, on a disk, dealt to the job, and "
             "in one order of all")
