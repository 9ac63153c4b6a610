"""WebDataset's .decode("pil") and .map(f) are one function: `decode=` of a loader.

    horovodrun -np 2 python examples/habits/webdataset/decoded_images.py
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
from small_data import digits, write_tars


def decode(sample: hio.Sample) -> tuple[torch.Tensor, int, int]:
    """(1, 8, 8) pixels from 0 to 1, the class, and which digit it is."""
    with Image.open(io.BytesIO(sample.parts["png"])) as image:
        pixels = np.asarray(image, np.float32) / 240
    return torch.from_numpy(pixels)[None], int(sample.parts["cls"]), int(sample.key)


with folder_of(hvd, write_tars) as folder:
    seen = []
    with hio.open(f"{folder}/*.tar", seed=1) as data:
        for images, labels, numbers in hio.torch.loader(data, 8, decode=decode, epochs=1):
            assert images.shape == (len(labels), 1, 8, 8) and 0.5 < images.max() <= 1
            seen += zip(numbers.tolist(), labels.tolist())
    seen = gather(hvd, seen)
    assert seen == [(number, label) for number, (_, label) in enumerate(digits())]
    say(hvd, f"{len(seen)} images and classes, as they were written")
