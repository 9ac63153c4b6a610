"""WebDataset's wds.WebLoader: hio.torch.loader with workers.

    horovodrun -np 2 python examples/habits/webdataset/web_loader.py
"""

import os
import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def decode(sample: hio.Sample) -> tuple[int, int]:
    """Which digit it is, and the process that decoded it."""
    return int(sample.key), os.getpid()


def main() -> None:
    with folder_of(hvd, write_tars) as folder:
        with hio.open(f"{folder}/*.tar", seed=1) as data:
            seen, processes = [], set()
            for numbers, workers in hio.torch.loader(data, 4, decode=decode, workers=2, epochs=1):
                seen += numbers.tolist()
                processes |= set(workers.tolist())
        assert gather(hvd, seen) == list(range(SAMPLES))
        assert len(processes) == 2 and os.getpid() not in processes
        say(hvd, f"{SAMPLES} samples, decoded by two workers of each of {hvd.size()} ranks")


if __name__ == "__main__":
    main()
