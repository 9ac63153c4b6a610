"""What the scripts train on: they would download MNIST, and ask for ImageNet.

The digits are scikit-learn's (1,797 images of 8x8, the UCI's Optical Recognition of Handwritten
Digits), three times as large and again and again; the photographs are crops of its two.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits, load_sample_images

TRAIN, TEST = 6000, 1000
CROPS, PIXELS = {"train": 32, "validation": 8}, 256  # of each photograph
FILES = {"train": TRAIN, "t10k": TEST}


def digits() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """As keras.datasets.mnist.load_data(): uint8 (n, 28, 28) and (n,), to train and to test."""
    dataset = load_digits()
    large = np.kron(dataset.images, np.ones((3, 3))) * 255 / 16
    images = np.pad(large, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)
    labels = dataset.target.astype(np.uint8)
    test = len(images) // 5

    def repeat(first: int, last: int, number: int) -> tuple[np.ndarray, np.ndarray]:
        chosen = first + np.arange(number) % (last - first)
        return images[chosen], labels[chosen]

    return repeat(test, len(images), TRAIN), repeat(0, test, TEST)


def write(folder: Path) -> None:
    """torch/MNIST/raw as torchvision unpacks it, and photographs/ as ImageFolder reads it."""
    raw = folder / "torch" / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for part, (images, labels) in zip(FILES, digits()):
        (raw / f"{part}-images-idx3-ubyte").write_bytes(
            struct.pack(">IIII", 2051, *images.shape) + images.tobytes())
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 2049, len(labels)) + labels.tobytes())
    places = np.random.default_rng(0)
    for name, photograph in zip(("temple", "flower"), load_sample_images().images):
        for part, number in CROPS.items():
            of_class = folder / "photographs" / part / name
            of_class.mkdir(parents=True, exist_ok=True)
            for crop in range(number):
                top, left = (int(places.integers(0, size - PIXELS))
                             for size in photograph.shape[:2])
                Image.fromarray(photograph[top:top + PIXELS, left:left + PIXELS]).save(
                    of_class / f"{crop}.jpg")
