"""worker_init_fn and generator= for augmentation: sample.random, or any generator in `decode`.

    horovodrun -np 2 python examples/habits/dataloader/augmentation.py

A sample has the same random numbers on any number of ranks and workers, others in each epoch.
"""

import random
import sys
from pathlib import Path

import horovod.torch as hvd
import numpy as np
import torch

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def decode(sample: hio.Sample) -> tuple[int, float, float, float, float]:
    return (int(sample.key), sample.random.random(), random.random(), np.random.random(),
            float(torch.rand(())))


def main() -> None:
    draws = []
    with folder_of(hvd, write_tars) as folder:
        for workers in (0, 2):
            with hio.open(f"{folder}/*.tar", seed=1) as data:
                loader = hio.torch.loader(data, 4, decode=decode, collate=list, workers=workers,
                                          epochs=2)
                draws.append([gather(hvd, sum(loader, [])) for _ in range(2)])
        assert draws[0] == draws[1]
        first, second = draws[0]
        assert [item[0] for item in first] == list(range(SAMPLES))
        assert all(a[1:] != b[1:] for a, b in zip(first, second))
        assert len({item[4] for item in first + second}) == 2 * SAMPLES
        say(hvd, f"random numbers of {SAMPLES} samples, the same without and with workers")


if __name__ == "__main__":
    main()
