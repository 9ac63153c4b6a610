"""IterableDataset: not there. Rank 0 writes what it yields to tars, once, and all open these.

    horovodrun -np 2 python examples/habits/dataloader/iterable_dataset.py
"""

import io
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import horovod.torch as hvd
import numpy as np
import torch

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import add


def rows() -> Iterator[np.ndarray]:
    """What was __iter__: the lines of a query, say."""
    random = np.random.default_rng(0)
    for number in range(100):
        yield np.append(random.normal(size=3), number)


def write(folder: Path) -> None:
    with tarfile.open(folder / "rows-000.tar", "w") as archive:
        for number, row in enumerate(rows()):
            file = io.BytesIO()
            np.save(file, row)
            add(archive, f"{number:06d}.npy", file.getvalue())


def decode(sample: hio.Sample) -> torch.Tensor:
    return torch.from_numpy(np.load(io.BytesIO(sample.data)))


with folder_of(hvd, write) as folder:
    with hio.open(f"{folder}/rows-*.tar", seed=1) as data:
        batches = list(hio.torch.loader(data, 8, decode=decode, epochs=1))
    seen = gather(hvd, map(tuple, torch.cat(batches).tolist()))
    assert seen == sorted(tuple(row.tolist()) for row in rows())
    say(hvd, f"{len(seen)} rows that an iterator had yielded, each once")
