"""What the digits examples share, whatever the framework: data, progress and closing checks.

The data are scikit-learn's handwritten digits (1797 grey images of 8x8 pixels, 10 classes); they
are part of the package, so nothing is downloaded.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import math
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

TARGET_ACCURACY = 0.97


@dataclass(frozen=True)
class Digits:
    """Images are float32 in [0, 1], shaped (images, 8, 8); labels are int64, shaped (images,)."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load() -> Digits:
    """Every rank gets the same split: 1437 images to train on, 360 to test with."""
    data = load_digits()
    images, labels = (data.images / 16.0).astype(np.float32), data.target.astype(np.int64)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=0.2, random_state=0, stratify=labels)
    return Digits(train_images, train_labels, test_images, test_labels)


def steps_per_epoch(images: int, batch_size: int, ranks: int) -> int:
    """Equal on every rank: a rank with one more step would wait for the others forever.

    Raises:
        SystemExit: the images do not fill one batch on every rank.
    """
    steps = images // (batch_size * ranks)
    if steps == 0:
        raise SystemExit(
            f"--batch-size {batch_size} on {ranks} ranks needs {batch_size * ranks} images a step, "
            f"but there are only {images}: use a smaller batch or fewer ranks")
    return steps


def batches(images: np.ndarray, labels: np.ndarray, batch_size: int, epoch: int, seed: int,
            rank: int, ranks: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """This rank's share of an epoch. All ranks draw one order, so that no image is used twice."""
    random = np.random.default_rng((seed, epoch))
    order = random.permutation(len(images))[rank::ranks]
    for step in range(steps_per_epoch(len(images), batch_size, ranks)):
        indices = order[step * batch_size:(step + 1) * batch_size]
        yield _shifted(images[indices], random), labels[indices]


def _shifted(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Move every image by up to one pixel: 1437 images are few, and the net would learn them."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    shift = random.integers(0, 3, size=(2, len(images), 1, 1))
    pixels = np.arange(images.shape[1])
    rows, columns = pixels[:, np.newaxis] + shift[0], pixels + shift[1]
    return padded[np.arange(len(images)).reshape(-1, 1, 1), rows, columns]


def learning_rate(start: float, epoch: int, epochs: int) -> float:
    """Half a cosine from `start` down towards 0 (Loshchilov and Hutter, arXiv:1608.03983)."""
    return start * 0.5 * (1.0 + math.cos(math.pi * epoch / epochs))


def parse_arguments(description: str, learning_rate: float) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--epochs", type=_positive, default=20, help="passes over the images")
    parser.add_argument("--batch-size", type=_positive, default=16, help="images per rank and step")
    parser.add_argument("--learning-rate", type=float, default=learning_rate, help="for one rank")
    parser.add_argument("--seed", type=int, default=0, help="of the weights and of the order")
    parser.add_argument("--save", type=_writable, metavar="FILE", help="where rank 0 saves weights")
    return parser.parse_args()


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return value


def _writable(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a file in an existing directory")
    return path


class Progress(AbstractContextManager):
    """Rank 0's progress on stderr: a live bar on a terminal, else one line per epoch."""

    def __init__(self, rank: int, epochs: int, steps: int):
        self._shows, self._epochs, self._steps = rank == 0, epochs, steps
        self._start = time.perf_counter()
        self._bar = None
        if self._shows and sys.stderr.isatty() and importlib.util.find_spec("rich"):
            from rich.console import Console
            from rich.progress import Progress as Bar
            self._bar = Bar(console=Console(stderr=True))
            self._task = self._bar.add_task("starting", total=epochs * steps)
            self._bar.start()

    def __exit__(self, *exception) -> None:
        if self._bar:
            self._bar.stop()

    def step(self) -> None:
        if self._bar:
            self._bar.advance(self._task)

    def epoch(self, number: int, loss: float, accuracy: float) -> None:
        """`number` counts from 0; `accuracy` is a fraction of the test images."""
        line = (f"epoch {number + 1:2d}/{self._epochs}  loss {loss:.4f}  "
                f"test accuracy {accuracy:6.2%}")
        if self._bar:
            self._bar.update(self._task, description=line)
        elif self._shows:
            print(f"{line}  {time.perf_counter() - self._start:5.1f} s", file=sys.stderr,
                  flush=True)


def digest(weights: Iterable[np.ndarray]) -> np.ndarray:
    """SHA-256 over all weights, shaped (1, 32), so that an allgather yields a row per rank."""
    sha = hashlib.sha256()
    for array in weights:
        sha.update(np.ascontiguousarray(array).tobytes())
    return np.frombuffer(sha.digest(), dtype=np.uint8).reshape(1, -1).copy()


def check(digests: np.ndarray, accuracy: float) -> str | None:
    """What is wrong with the result, or None. `digests` holds one row per rank."""
    different = [rank for rank, row in enumerate(digests) if not np.array_equal(row, digests[0])]
    if different:
        names = ", ".join(map(str, different))
        return f"the weights of rank {names} differ from those of rank 0"
    if accuracy < TARGET_ACCURACY:
        return f"test accuracy {accuracy:.2%} is below the target of {TARGET_ACCURACY:.0%}"
    return None


def finish(rank: int, digests: np.ndarray, accuracy: float, images: int, seconds: float) -> None:
    """Rank 0 prints the result; `images` were trained on in `seconds` by all ranks together.

    Raises:
        SystemExit: the ranks' weights differ, or the accuracy is too low; on every rank.
    """
    problem = check(digests, accuracy)
    if rank == 0 and problem:
        print(f"error: {problem}", file=sys.stderr, flush=True)
    elif rank == 0:
        print(f"ranks: {len(digests)}  test accuracy: {accuracy:.2%}  seconds: {seconds:.1f}  "
              f"images/s: {images / seconds:.0f}  identical weights: yes", flush=True)
    if problem:
        sys.exit(1)
