"""With fixed seeds: which samples come where, over epochs, is as frequent as it should be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from horovod_opt.io.order.order import Order

SAMPLES, CHUNK, SHARDS = 24, 4, 2
EPOCHS = 6000


@pytest.fixture(scope="module")
def epochs():
    """int64[epochs, positions]: shards of three chunks, windows of one or two."""
    order = Order(SAMPLES, CHUNK, shards=SHARDS, window=2, seed=1)
    return np.stack([order.at(epoch, np.arange(SAMPLES)) for epoch in range(EPOCHS)])


def check(values: np.ndarray, cells: int) -> None:
    """`values` are uniform over so many: chi-square within 4 standard deviations of its mean."""
    kinds, counts = np.unique(values, return_counts=True)
    assert len(kinds) == cells
    expected = len(values) / cells
    chi_square = ((counts - expected)**2).sum() / expected
    assert abs(chi_square - (cells - 1)) < 4 * math.sqrt(2 * (cells - 1))


@pytest.mark.parametrize("position", range(SAMPLES))
def test_each_sample_is_equally_frequent_at_each_position(epochs, position):
    check(epochs[:, position], SAMPLES)


@pytest.mark.parametrize("first, second", [(0, 1), (1, 2), (5, 6), (0, 23), (11, 12)])
def test_pairs_of_shards_are_uniform_over_pairs_of_chunks(epochs, first, second):
    pairs = epochs[:, first] * SAMPLES + epochs[:, second]
    check(pairs, SAMPLES * (SAMPLES - CHUNK))


@pytest.mark.parametrize("first, second", [(0, 2), (2, 6)])
def test_pairs_of_one_chunk_are_uniform(epochs, first, second):
    """The shard of turn 0 begins with a window of a single chunk."""
    pairs = epochs[:, first] * SAMPLES + epochs[:, second]
    check(pairs, SAMPLES * (CHUNK - 1))


def test_pairs_of_a_window_are_uniform():
    """One shard and one window: a complete shuffle."""
    order = Order(12, 12, shards=1, window=1, seed=2)
    epochs = np.stack([order.at(epoch, np.arange(12)) for epoch in range(EPOCHS)])
    for first, second in ((0, 1), (0, 11), (5, 6)):
        check(epochs[:, first] * 12 + epochs[:, second], 12 * 11)


def test_seeds_are_as_good_as_epochs():
    firsts = [Order(SAMPLES, CHUNK, SHARDS, 2, seed).at(0, np.arange(2)) for seed in range(EPOCHS)]
    pairs = np.stack(firsts)
    check(pairs[:, 0] * SAMPLES + pairs[:, 1], SAMPLES * (SAMPLES - CHUNK))


def test_a_short_chunk_comes_anywhere():
    order = Order(21, 4, shards=2, window=1, seed=1)
    places = [order.epoch(epoch).chunks.ordinal_of(np.array([5]))[0] for epoch in range(EPOCHS)]
    check(np.array(places), 6)
