"""Writes JPEG files of about one size, unless they are there.

    python -m horovod_lab.io.data.jpegs FOLDER COUNT BYTES

Crops of scikit-learn's two photographs, scaled, flipped and lit in different ways; the same at each
time. Their median has so many bytes, on about as many pixels as in ImageNet, from which the source
(measuring/literature.py) has its files: at 112 kB 376 x 438, where ImageNet has 415 x 482 on
average.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

HEIGHT, WIDTH, BYTES = 415, 482, 112_000
LEAST, MOST = 2000, 4_000_000  # bytes: from thumbnails to photographs
SAMPLES = 32  # that are made to find the shape
CORRECTIONS = 3
ENDING = ".jpg"


class Shape(NamedTuple):
    """In pixels; `quality` from 1 to 100."""

    height: int
    width: int
    quality: int

    def scale(self, factor: float) -> Shape:
        return Shape(round(self.height * factor), round(self.width * factor), self.quality)


def folder_of(data: Path, count: int, size: int) -> Path:
    """Where they are: another folder for other files."""
    return data / f"jpegs-{count}x{size}"


def names(folder: Path) -> list[str]:
    """Their paths, sorted."""
    return sorted(map(str, folder.glob(f"*{ENDING}")))


def write(folder: Path, count: int, size: int,
          progress: Callable[[int, int], None] = lambda done, total: None) -> None:
    """`progress` is called with bytes written and about how many there will be."""
    from sklearn.datasets import load_sample_images

    from horovod_lab.bench.workers import images
    from horovod_lab.io.data import data_folder

    photographs = load_sample_images().images

    def encode(number: int, shape: Shape) -> bytes:
        return images.encoded(photographs[number % len(photographs)], number, *shape)

    def fill(draft: Path) -> None:
        shape, done = fit_shape(encode, size), 0
        for number in range(count):
            done += (draft / f"{number:06}{ENDING}").write_bytes(encode(number, shape))
            progress(done, count * size)

    data_folder.make(folder, fill, is_indexed=True)


def fit_shape(encode: Callable[[int, Shape], bytes], size: int) -> Shape:
    """The shape whose median has about so many bytes: the lowest quality that reaches it with
    ImageNet's bytes for a pixel, then a little less of each side."""
    def median(shape: Shape) -> float:
        return statistics.median(len(encode(number, shape)) for number in range(SAMPLES))

    shape = Shape(HEIGHT, WIDTH, 0).scale((size / BYTES) ** 0.5)
    low, high = 1, 100
    while low < high:  # the smallest quality that reaches the size
        middle = (low + high) // 2
        low, high = ((low, middle) if median(shape._replace(quality=middle)) >= size
                     else (middle + 1, high))
    shape = shape._replace(quality=low)
    for _ in range(CORRECTIONS):
        shape = shape.scale((size / median(shape)) ** 0.5)
    return shape


def main(folder: str, count: str, size: str) -> None:
    from horovod_opt.io.progress import show_bar

    with show_bar("Writing JPEGs") as progress:
        write(Path(folder), int(count), int(size), progress)


if __name__ == "__main__":
    main(*sys.argv[1:])
