"""`unpack_in=` of open: compressed files that are larger than memory are unpacked on a disk.

    horovodrun -np 2 python examples/habits/arguments/unpacked_on_disk.py
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
    write_tars(folder, end=".tar.gz", mode="w:gz")


with folder_of(hvd, write) as folder:
    with hio.open(f"{folder}/*.tar.gz", seed=1, unpack_in=folder / "disk") as data:
        loader = hio.torch.loader(data, 8, decode=lambda sample: int(sample.key), epochs=1)
        seen = [number for batch in loader for number in batch.tolist()]
        left = list((folder / "disk").iterdir())
    assert gather(hvd, seen) == list(range(SAMPLES))
    assert left == []  # what is there has no name, and goes with the job
    say(hvd, f"{SAMPLES} samples of .tar.gz, unpacked on a disk")
