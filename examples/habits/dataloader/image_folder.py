"""torchvision's ImageFolder(root): hio.open(root). Classes are numbered alike, by name.

    horovodrun -np 2 python examples/habits/dataloader/image_folder.py
"""

import io
import sys
from pathlib import Path

import horovod.torch as hvd
import numpy as np
import torch
from PIL import Image

import horovod_opt.io as hio

sys.path.insert(0, str(Path(__file__).parents[1]))
from all_ranks import folder_of, gather, say
from small_data import digits, write_folder


def decode(sample: hio.Sample) -> tuple[torch.Tensor, int, str]:
    """(8, 8) pixels, the class, and the path in the folder."""
    with Image.open(io.BytesIO(sample.data)) as image:
        return torch.from_numpy(np.array(image)), sample.label, sample.key


with folder_of(hvd, write_folder) as folder:
    seen = []
    with hio.open(folder, seed=1) as data:
        assert list(data.classes) == sorted({str(label) for _, label in digits()})
        for images, labels, keys in hio.torch.loader(data, 8, decode=decode, epochs=1):
            assert images.shape[1:] == (8, 8)
            seen += zip(keys, labels.tolist())
    assert gather(hvd, seen) == sorted(
        (f"{label}/{number:04d}.png", label) for number, (_, label) in enumerate(digits()))
    say(hvd, f"{len(digits())} files of {len(data.classes)} classes, each once")
