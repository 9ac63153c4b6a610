"""WeightedRandomSampler, and its num_samples=n: `weights=` of open, `epoch_batches=` of a loader.

    horovodrun -np 2 python examples/habits/dataloader/weighted_sampler.py

Classes come equally often though some are rare: as often as weights say, not as they are drawn.
"""

import sys
from collections import Counter
from pathlib import Path

import horovod.torch as hvd
import numpy as np

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say

FILES = {"common": 48, "rare": 4, "some": 12}
NUM_SAMPLES = 36  # of all ranks, in one loop


def write(folder: Path) -> None:
    for name, count in FILES.items():
        (folder / name).mkdir()
        for number in range(count):
            (folder / name / f"{number:03d}.bin").write_bytes(bytes(8))


def balance(table: hio.SampleTable) -> np.ndarray:
    """The more files a class has, the less weight has each."""
    return 1 / np.bincount(table.labels)[table.labels]


def decode(sample: hio.Sample) -> tuple[str, float]:
    """The class, and a number of its own for each time that a file comes."""
    return sample.key.split("/")[0], sample.random.random()


with folder_of(hvd, write) as folder:
    with hio.open(folder, weights=balance, seed=1) as data:
        loader = hio.torch.loader(data, 4, decode=decode, collate=list, epochs=1)
        seen = gather(hvd, sum(loader, []))
    assert Counter(name for name, _ in seen) == {name: 48 for name in FILES}
    assert len({draw for _, draw in seen}) == len(seen)
    with hio.open(folder, weights=balance, seed=1) as data:
        loader = hio.torch.loader(data, 1, decode=decode, collate=list,
                                  epoch_batches=NUM_SAMPLES // hvd.size())
        loops = [gather(hvd, sum(loader, [])) for _ in range(4)]
    assert sum(loops, []) != seen and sorted(sum(loops, [])) == seen
    say(hvd, f"48 samples of each class; in loops of {len(loops[0])} samples the same")
