"""Parts of two photographs as a folder of JPEG files, with a folder for each class.

The photographs come with scikit-learn: a temple in China, and a flower. The left three quarters of
each are for training, the rest is for validation, so that no pixel is in both.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

PIXELS = 64


def make(folder: Path, training: int, validation: int) -> Path:
    """Writes so many files of each class to `folder`/train and `folder`/validation, if there is no
    such folder yet. It appears when it is complete, also if several processes make it at once."""
    folder = folder / f"photographs-{training}-{validation}"
    if folder.is_dir():
        return folder
    unfinished = folder.with_name(f"{folder.name}.{secrets.token_hex(4)}")
    random = np.random.default_rng(1)
    images = load_sample_images()
    for path, image in zip(images.filenames, images.images):
        name = Path(path).name
        border = image.shape[1] * 3 // 4
        for part, count, pixels in (("train", training, image[:, :border]),
                                    ("validation", validation, image[:, border:])):
            _write_parts(unfinished / part / Path(name).stem, count, pixels, random)
    try:
        os.rename(unfinished, folder)
    except OSError:  # somebody else was faster, and theirs has the same pixels
        if not folder.is_dir():
            raise
    return folder


def _write_parts(folder: Path, count: int, pixels: np.ndarray,
                 random: np.random.Generator) -> None:
    folder.mkdir(parents=True)
    for number in range(count):
        top, left = (int(random.integers(size - PIXELS + 1)) for size in pixels.shape[:2])
        part = pixels[top:top + PIXELS, left:left + PIXELS]
        Image.fromarray(part).save(folder / f"{number:05}.jpg", quality=90)
