from __future__ import annotations

import numpy as np
import pytest

from horovod_opt.io.order.order import Order
from horovod_opt.io.order.relative_entropy import measure_rl, rl_paper
from horovod_opt.io.order.window_size import default_chunk_samples, expected_rl, window_for


@pytest.mark.parametrize("group, percent", [(4, 73), (16, 49), (256, 16)])
def test_the_figures_of_the_source(group, percent):
    assert abs(100 * rl_paper(10_000, group) - percent) < 1


@pytest.mark.parametrize("samples", [10, 100, 1000, 100_000])
def test_a_complete_shuffle_has_all_and_a_known_order_nothing(samples):
    numbers = np.arange(samples)
    for seed in (1, 2):
        assert measure_rl(np.random.default_rng(seed).permutation(samples), samples) > 0.97
    assert measure_rl(numbers, samples) == 0
    assert measure_rl(numbers[::-1], samples) == 0


def test_shards_in_turn_are_no_shuffle():
    in_turn = np.arange(16_000).reshape(16, 1000).T.reshape(-1)
    assert measure_rl(in_turn, 16_000) < 0.01
    chunks = np.random.default_rng(0).permutation(16).repeat(1000) * 1000
    shuffled_shards = (chunks + np.tile(np.arange(1000), 16)).reshape(16, 1000).T.reshape(-1)
    assert measure_rl(shuffled_shards, 16_000) < 0.01


def test_groups_and_buffers_are_ranked_by_their_size():
    random = np.random.default_rng(0)
    groups = [measure_rl((random.permutation(10_000 // k)[:, None] * k + np.arange(k)).ravel(),
                         10_000) for k in (1, 4, 16, 256)]
    assert groups == pytest.approx([1, 0.30, 0.08, 0.005], abs=0.02)
    buffers = [measure_rl(np.concatenate([random.permutation(size) + first
                                          for first in range(0, 64_000, size)]), 64_000)
               for size in (10, 100, 1000, 16_000)]
    assert buffers == sorted(buffers)
    assert buffers == pytest.approx([0.25, 0.44, 0.64, 0.88], abs=0.02)


def test_samples_that_are_missing_or_repeated():
    numbers = np.random.default_rng(0).permutation(10_000)
    assert measure_rl(numbers[:5000], 10_000) > 0.97
    assert measure_rl(np.concatenate([numbers, numbers]), 10_000) == measure_rl(numbers, 10_000)
    assert measure_rl(np.arange(0, 100, 2), 100) == 0
    assert measure_rl(np.zeros(0, np.int64), 100) == 0
    assert measure_rl(np.zeros(1, np.int64), 1) == 0


@pytest.mark.parametrize("samples, sample_bytes", [
    (10_000, 60_000), (50_000, 3072), (60_000, 784), (1_281_167, 3000)])
def test_the_default_window_shuffles_data_of_some_gibibytes_by_90_percent(samples, sample_bytes):
    chunk = default_chunk_samples(samples, samples * sample_bytes)
    order = Order(samples, chunk, seed=1)
    assert measure_rl(order.at(0, np.arange(samples)), samples) >= 0.89


def test_the_default_window_is_bounded():
    order = Order(1_281_167, 37)  # 134 GiB
    assert order.shards * order.window <= 384
    assert 0.6 < measure_rl(order.at(0, np.arange(order.samples)), order.samples) < 0.75


@pytest.mark.parametrize("window", [4, 16, 64])
def test_what_is_expected_is_measured(window):
    order = Order(200_000, 50, shards=32, window=window)
    stream = order.at(0, np.arange(200_000))
    assert expected_rl(200_000, 50, 32, window) == pytest.approx(measure_rl(stream, 200_000),
                                                                 abs=0.03)


def test_the_window_for_a_relative_entropy():
    for target in (0.5, 0.7, 0.9):
        window = window_for(target, 200_000, 50, 32)
        assert expected_rl(200_000, 50, 32, window) >= target
        assert window == 1 or expected_rl(200_000, 50, 32, window - 1) < target
