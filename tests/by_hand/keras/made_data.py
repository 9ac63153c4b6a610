"""Data of the shapes that Keras' examples download: made here, and the same in every process.

`install()` puts it where the examples look: keras.datasets and keras.utils.get_file.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

TRAIN, TEST = 512, 128
WORDS = ("the ship sails to a far port and its crew sings of wind rain sun and home while "
         "we wait here for news from the sea").split()


def _random() -> np.random.Generator:
    return np.random.default_rng(20151)


def images(size: int, channels: int, classes: int, column: bool) -> tuple:
    """Keras' two pairs, (samples, size, size[, channels]) of uint8 and labels: a class is a
    picture, under noise. `column`: whether labels are (samples, 1)."""
    random = _random()
    pictures = random.integers(0, 256, (classes, size, size, channels))

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = random.integers(0, classes, count)
        noisy = pictures[labels] * 0.6 + random.integers(0, 100, (count, size, size, channels))
        pixels = noisy.clip(0, 255).astype(np.uint8)
        return (pixels if channels > 1 else pixels[..., 0],
                labels.astype(np.uint8).reshape((-1, 1) if column else -1))

    return draw(TRAIN), draw(TEST)


def reviews(num_words: int | None = None, **_: object) -> tuple:
    """IMDB's two pairs: lists of word numbers, and 0 or 1; a word of the first half means 1."""
    random, most = _random(), num_words or 2000

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        labels = random.integers(0, 2, count)
        texts = np.empty(count, object)
        for place, label in enumerate(labels):
            words = random.integers(3, most // 2, random.integers(20, 60))
            texts[place] = (words + (most // 2 - 3) * label).tolist()
        return texts, labels

    return draw(TRAIN), draw(TEST)


def _table(lines: list[list[object]], separator: str = ",") -> bytes:
    return "\n".join(separator.join(map(str, row)) for row in lines).encode() + b"\n"


def _archive(files: dict[str, bytes]) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return memory.getvalue()


def _ratings() -> bytes:
    random = _random()
    header = ["userId", "movieId", "rating", "timestamp"]
    rows = [[user, film, float((user * film) % 5 + 1), 0]
            for user, film in random.integers(1, 40, (2 * TRAIN, 2))]
    films = [[film, f"Film {film}", "Drama"] for film in range(1, 40)]
    return _archive({
        "ml-latest-small/ratings.csv": _table([header, *rows]),
        "ml-latest-small/movies.csv": _table([["movieId", "title", "genres"], *films])})


def _sentences() -> bytes:
    random = _random()
    rows = []
    for _ in range(TRAIN + 1):
        words = random.choice(WORDS, 3)
        rows.append([" ".join(words), " ".join(words[::-1]), "made"])
    return _archive({"fra.txt": _table(rows, "\t")})


# By the last part of a URL.
FILES: dict[str, Callable[[], bytes]] = {"ml-latest-small.zip": _ratings, "fra-eng.zip": _sentences}


def content_of(url: str) -> bytes:
    """Raises FileNotFoundError: nothing is made for this URL."""
    name = url.rsplit("/", 1)[-1]
    if name not in FILES:
        raise FileNotFoundError(f"{url}: made_data.py makes no {name}")
    return FILES[name]()


def _retrieve(url: str, path: str, *_: object) -> None:
    Path(path).write_bytes(content_of(url))


def install() -> None:
    import keras
    from keras.src.utils import file_utils

    for name, loader in {
            "mnist": lambda: images(28, 1, 10, False), "cifar100": lambda: images(32, 3, 100, True),
            "imdb": reviews}.items():
        getattr(keras.datasets, name).load_data = loader
    file_utils.urlretrieve = _retrieve
