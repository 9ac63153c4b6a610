"""ImageFolder's and DataLoader's habits in PyTorch: a folder of classes, workers, one's own loop.

    python examples/habits/pytorch_folder.py
    horovodrun -np 2 python examples/habits/pytorch_folder.py

Reads only *.jpg, by PyTorch's own DataLoader and by hio.torch.loader, which take the same samples,
and evaluates on rank 0 alone.
"""

import argparse
import io
import os
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader

sys.path.insert(0, str(Path(__file__).parents[1]))
import photographs  # noqa: E402  -- of the folder above

import horovod_opt.io as hio  # noqa: E402

IMAGES = 40  # of each class


def decode(sample: hio.Sample) -> tuple[torch.Tensor, int, str]:
    """(3, 64, 64) pixels, the class, and the path in the folder."""
    with Image.open(io.BytesIO(sample.data)) as image:
        pixels = np.asarray(image.convert("RGB"), np.float32) / 255
    return torch.from_numpy(pixels.transpose(2, 0, 1).copy()), sample.label, sample.key


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("build"), help="(%(default)s)")
    parser.add_argument("--workers", type=int, default=1, help="(%(default)s)")
    arguments = parser.parse_args()
    rank = 0
    if int(os.environ.get("HOROVOD_SIZE", os.environ.get("OMPI_COMM_WORLD_SIZE", 1))) > 1:
        import horovod.torch as hvd

        hvd.init()
        rank = hvd.rank()
    folder = photographs.make(arguments.folder, IMAGES, IMAGES // 4)
    seen = []
    with hio.open(folder / "train", choose="*.jpg", seed=1) as data:
        for _, _, keys in hio.torch.loader(data, 16, decode=decode, workers=arguments.workers,
                                           epochs=1):
            seen += keys
    with hio.open(folder / "train", choose="*.jpg", seed=1) as data:
        loader = DataLoader(hio.torch.Dataset(data, decode), num_workers=arguments.workers,
                            batch_sampler=hio.torch.BatchSampler(data, 16, epochs=1))
        same = seen == [key for _, _, keys in loader for key in keys]
        print(f"rank {rank}: {len(seen)} of {len(data)} samples of {len(data.classes)} classes, "
              f"{'the same' if same else 'others'} by DataLoader", flush=True)
    if rank == 0:
        with hio.open(folder / "validation", shuffle=False, alone=True) as data:
            count = sum(len(labels) for _, labels, _ in hio.torch.loader(data, 16, decode=decode))
            print(f"rank 0 alone: {count} samples", flush=True)


if __name__ == "__main__":
    main()
