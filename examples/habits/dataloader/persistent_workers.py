"""DataLoader's persistent_workers=: always. Workers stay until the loader ends.

    horovodrun -np 2 python examples/habits/dataloader/persistent_workers.py
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
    return int(sample.key), os.getpid()


def main() -> None:
    with folder_of(hvd, write_tars) as folder:
        with hio.open(f"{folder}/*.tar", seed=1) as data:
            loader = hio.torch.loader(data, 4, decode=decode, workers=2, epochs=3)
            processes = []
            for _ in range(3):
                seen, workers = [], set()
                for numbers, of_sample in loader:
                    seen += numbers.tolist()
                    workers |= set(of_sample.tolist())
                assert gather(hvd, seen) == list(range(SAMPLES))
                processes.append(workers)
        assert processes[0] == processes[1] == processes[2] and len(processes[0]) == 2
        say(hvd, f"the same two workers of each of {hvd.size()} ranks in three epochs")


if __name__ == "__main__":
    main()
