"""DataLoader's num_workers=, prefetch_factor= and multiprocessing_context=: `workers=`, `prefetch=`
and `context=`.

    horovodrun -np 2 python examples/habits/dataloader/spawned_workers.py

Spawned workers run the script again, so what trains is below __main__.
"""

import multiprocessing
import os
import sys
from pathlib import Path

import horovod.torch as hvd

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import SAMPLES, write_tars


def decode(sample: hio.Sample) -> tuple[int, int, bool]:
    """Which digit it is, the process that decoded it, and whether that was spawned."""
    is_spawned = multiprocessing.get_start_method(allow_none=True) == "spawn"
    return int(sample.key), os.getpid(), is_spawned


def main() -> None:
    with folder_of(hvd, write_tars) as folder:
        with hio.open(f"{folder}/*.tar", seed=1) as data:
            loader = hio.torch.loader(data, 8, decode=decode, workers=1, prefetch=3,
                                      context="spawn", epochs=1)
            seen, processes = [], set()
            for numbers, workers, are_spawned in loader:
                assert all(are_spawned)
                seen += numbers.tolist()
                processes |= set(workers.tolist())
        assert gather(hvd, seen) == list(range(SAMPLES))
        assert len(processes) == 1 and os.getpid() not in processes
        say(hvd, f"{SAMPLES} samples by a spawned worker of each rank")


if __name__ == "__main__":
    main()
