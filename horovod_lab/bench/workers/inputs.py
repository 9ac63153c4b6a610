"""Sizes and synthetic inputs of the small models, alike in both frameworks.

A rank has the same inputs in every job: its number is the seed."""

from __future__ import annotations

import numpy as np

VOCABULARY, EMBEDDING = 20_000, 128
TEXTS, TOKENS, CLASSES = 64, 50, 2
TEXT_WIDTHS = (EMBEDDING, *(13 * (64,)), CLASSES)  # 14 layers
DENSE_WIDTHS = 25 * (256,)  # 24 layers
ROWS = 32


def texts(rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (64, 50) and classes (64,), int64."""
    random = np.random.default_rng(rank)
    return random.integers(VOCABULARY, size=(TEXTS, TOKENS)), random.integers(CLASSES, size=TEXTS)


def rows(rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Values (32, 256), float32, and classes (32,), int64."""
    random = np.random.default_rng(rank)
    values = random.standard_normal((ROWS, DENSE_WIDTHS[0]), dtype=np.float32)
    return values, random.integers(DENSE_WIDTHS[-1], size=ROWS)
