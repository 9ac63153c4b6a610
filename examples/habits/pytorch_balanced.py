"""WeightedRandomSampler's habit in PyTorch: classes that come equally often, though some are rare.

    python examples/habits/pytorch_balanced.py

Writes a folder with 60, 15 and 4 files of three classes below --folder, and goes over it by
hio.torch.loader and by PyTorch's DataLoader.
"""

import argparse
from collections import Counter
from pathlib import Path

import numpy as np
from torch.utils.data import DataLoader

import horovod_opt.io as hio

FILES = {"common": 60, "some": 15, "rare": 4}


def write_folder(folder: Path) -> Path:
    """A folder of classes; returns it."""
    root = folder / "balanced"
    for name, count in FILES.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            (root / name / f"{number:03d}.bin").write_bytes(b"%d" % number)
    return root


def balance(table: hio.SampleTable) -> np.ndarray:
    """The more files a class has, the less weight has each."""
    return 1 / np.bincount(table.labels)[table.labels]


def decode(sample: hio.Sample) -> tuple[str, float]:
    """The class, and a number of its own for each time that a file comes."""
    return sample.key.split("/")[0], sample.random.random()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("build"), help="(%(default)s)")
    root = write_folder(parser.parse_args().folder)
    with hio.open(root, seed=1, weights=balance) as data:
        for loader in (
                hio.torch.loader(data, 16, decode=decode, collate=list, epochs=1, workers=1),
                DataLoader(hio.torch.Dataset(data, decode), collate_fn=list,
                           batch_sampler=hio.torch.BatchSampler(data, 16, epochs=1))):
            items = [item for batch in loader for item in batch]
            counts = Counter(name for name, _ in items)
            print(", ".join(f"{name} {counts[name]}" for name in FILES)
                  + f"; {len({draw for _, draw in items})} augmentations")


if __name__ == "__main__":
    main()
