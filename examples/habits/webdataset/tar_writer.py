"""WebDataset's TarWriter: Python's tarfile, or tar(1). Files of one name follow each other.

    horovodrun -np 2 python examples/habits/webdataset/tar_writer.py

The name of a sample goes up to the first dot; what follows is the part.
"""

import json
import sys
import tarfile
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, add, digits


def write(folder: Path) -> None:
    with tarfile.open(folder / "train-000.tar", "w") as archive:
        for number, (png, label) in enumerate(digits()):
            key = f"digits/{number:04d}"
            add(archive, f"{key}.png", png)
            add(archive, f"{key}.label.json", json.dumps({"label": label}).encode())


def decode(sample: hio.Sample) -> tuple[str, int]:
    return sample.key, json.loads(bytes(sample.parts["label.json"]))["label"]


with folder_of(hvd, write) as folder:
    with hio.open(f"{folder}/train-*.tar", seed=1) as data:
        batches = list(hio.torch.loader(data, 8, decode=decode, collate=list, epochs=1))
    seen = gather(hvd, sum(batches, []))
    assert seen == [(f"digits/{number:04d}", label)
                    for number, (_, label) in enumerate(digits())]
    say(hvd, f"{SAMPLES} samples of a tar that was written by tarfile")
