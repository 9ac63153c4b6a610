from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horovod_opt.io.order.permutation import Permutation, derive_key, derive_keys

IDENTITY = bytes(range(16))
KEY = derive_key(IDENTITY, 7, 3, "chunks")

GOLDEN = {
    1: [0],
    2: [1, 0],
    7: [0, 6, 2, 5, 4, 1, 3],
    10: [0, 7, 5, 8, 3, 9, 2, 6, 4, 1],
    300: [22, 275, 183, 110, 195, 95, 173, 166, 247, 256],
}


def test_keys_are_the_same_everywhere():
    assert [int(part[0]) for part in KEY] == [0x50ADB2B06F489B12, 0x66B5DE89F87B1970]


@pytest.mark.parametrize("n", GOLDEN)
def test_permutations_are_the_same_everywhere(n):
    assert Permutation(n, KEY).forward(np.arange(min(n, 10))).tolist() == GOLDEN[n]


def test_the_largest_permutation_is_exact():
    n = 2**62 - 1
    numbers = np.array([0, 1, n - 1])
    images = Permutation(n, KEY).forward(numbers)
    assert images.tolist() == [4122609038553623853, 4458530334165439043, 2122073079433516867]
    assert Permutation(n, KEY).inverse(images).tolist() == numbers.tolist()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 127, 128, 129, 255, 256, 257, 1000, 4097])
def test_every_number_comes_once(n):
    numbers = np.arange(n)
    images = Permutation(n, KEY).forward(numbers)
    assert sorted(images.tolist()) == list(range(n))
    assert Permutation(n, KEY).inverse(images).tolist() == numbers.tolist()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 2**62 - 1), st.integers(0, 2**62)), min_size=1),
       st.integers(0, 2**63 - 1))
def test_there_and_back_with_a_range_and_a_key_for_each_number(pairs, seed):
    n = np.array([pair[0] for pair in pairs])
    numbers = np.array([pair[1] for pair in pairs]) % n
    keys = derive_keys(derive_key(IDENTITY, seed, 0, "test"),
                       np.arange(len(pairs), dtype=np.uint64))
    together = Permutation(n, keys)
    images = together.forward(numbers)
    assert ((0 <= images) & (images < n)).all()
    assert together.inverse(images).tolist() == numbers.tolist()
    alone = [int(Permutation(int(n[i]), (keys[0][i:i + 1], keys[1][i:i + 1]))
                 .forward(numbers[i:i + 1])[0]) for i in range(len(pairs))]
    assert images.tolist() == alone


@pytest.mark.parametrize("key", [
    derive_key(bytes(16), 7, 3, "chunks"), derive_key(IDENTITY, 8, 3, "chunks"),
    derive_key(IDENTITY, 7, 4, "chunks"), derive_key(IDENTITY, 7, 3, "windows"),
])
def test_each_part_of_the_key_matters(key):
    same = Permutation(10_000, KEY).forward(np.arange(10_000)) \
        == Permutation(10_000, key).forward(np.arange(10_000))
    assert same.sum() < 10  # 1 is expected


@pytest.mark.parametrize("n, numbers", [(5, 5), (7, 7), (8, 4), (9, 4), (13, 3), (17, 3), (300, 2)])
def test_where_numbers_go_is_uniform(n, numbers):
    """Over keys: all orders of a few numbers, or all places of some of more."""
    keys = derive_keys(derive_key(IDENTITY, 1, 0, "test"), np.arange(500_000, dtype=np.uint64))
    code = np.zeros(500_000, np.int64)
    for number in range(numbers):
        code = code * n + Permutation(np.full(500_000, n), keys).forward(np.full(500_000, number))
    cells = math.perm(n, numbers)
    counts = np.unique(code, return_counts=True)[1]
    expected = 500_000 / cells
    chi_square = ((counts - expected)**2).sum() / expected + (cells - len(counts)) * expected
    assert abs(chi_square - (cells - 1)) < 4 * math.sqrt(2 * (cells - 1))
