from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from orders import orders

from horovod_opt.io.errors import InputError
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.shards import prime_factors, reverse_digits


def test_orders_are_the_same_everywhere():
    order = Order(20, 3, shards=2, window=2, seed=5)
    assert order.at(0, np.arange(20)).tolist() == [
        13, 8, 12, 4, 14, 7, 9, 3, 10, 5, 19, 6, 11, 2, 18, 1, 15, 0, 17, 16]
    assert order.at(1, np.arange(20)).tolist() == [
        18, 3, 19, 4, 14, 1, 8, 0, 7, 2, 13, 5, 12, 11, 6, 9, 16, 10, 17, 15]


def test_a_large_order_is_the_same_everywhere_and_costs_nothing():
    order = Order(10**9, 1000, seed=1, identity=bytes(range(16)))
    positions = np.array([0, 1, 2, 10**9 - 1])
    samples = order.at(2, positions)
    assert samples.tolist() == [428375437, 118289384, 684987016, 909785280]
    assert order.position_of(2, samples).tolist() == positions.tolist()


@pytest.mark.parametrize("window", [6, 2**48])
def test_the_largest_data_set(window):
    order = Order(2**62 - 1, 1000, shards=4096, window=window)
    positions = np.array([0, 1, 2**61, 2**62 - 2])
    samples = order.at(0, positions)
    assert ((0 <= samples) & (samples < 2**62 - 1)).all()
    assert order.position_of(0, samples).tolist() == positions.tolist()


@settings(max_examples=150, deadline=None)
@given(orders())
def test_every_sample_comes_exactly_once(order):
    positions = np.arange(order.samples)
    for epoch in (0, 1):
        samples = order.at(epoch, positions)
        assert sorted(samples.tolist()) == positions.tolist()
        assert order.position_of(epoch, samples).tolist() == positions.tolist()


@settings(max_examples=100, deadline=None)
@given(orders())
def test_any_part_of_the_order_can_be_had_alone(order):
    samples = order.at(0, np.arange(order.samples))
    positions = np.random.default_rng(0).permutation(order.samples)[:20]
    assert order.at(0, positions).tolist() == samples[positions].tolist()


def test_without_shuffling_positions_are_samples():
    order = Order(1000, 7, shuffle=False)
    assert order.at(3, np.arange(1000)).tolist() == list(range(1000))
    assert (order.shards, order.window) == (1, 1)


@pytest.mark.parametrize("changes", [{"seed": 2}, {"identity": b"x" * 16}, {"window": 3},
                                     {"shards": 8}, {"chunk_samples": 11}])
def test_each_parameter_changes_the_order(changes):
    parameters = {"samples": 1000, "chunk_samples": 10, "shards": 4, "window": 4, "seed": 1}
    positions = np.arange(1000)
    order = Order(**parameters)
    changed_order = Order(**{**parameters, **changes})
    assert order.at(0, positions).tolist() != changed_order.at(0, positions).tolist()
    assert order.at(0, positions).tolist() != order.at(1, positions).tolist()


def test_samples_stay_within_their_window():
    order = Order(4000, 10, shards=4, window=5)
    bijections = order.epoch(0)
    places = np.arange(4000)
    first, end = bijections.windows.chunks(bijections.chunks.ordinal_at(places))
    ordinals = bijections.chunks.ordinal_at(bijections.windows.forward(places))
    assert ((first <= ordinals) & (ordinals < end)).all()
    assert (end - first).max() == 5
    # Shards of ordinals 0 to 3 begin with windows of 1, 2, 3 and 4 chunks.
    starts = bijections.shards.first_chunk[reverse_digits(4)]
    assert bijections.windows.chunks(starts)[1].tolist() == (starts + [1, 2, 3, 4]).tolist()


def test_turns_reverse_the_digits_of_mixed_radices():
    assert prime_factors(360) == [5, 3, 3, 2, 2, 2]
    assert reverse_digits(8).tolist() == [0, 4, 2, 6, 1, 5, 3, 7]
    assert reverse_digits(6).tolist() == [0, 2, 4, 1, 3, 5]
    for shards in range(1, 100):
        assert sorted(reverse_digits(shards).tolist()) == list(range(shards))


@pytest.mark.parametrize("shards, groups", [(64, [2, 4, 8, 64]), (12, [3, 6, 12]), (30, [5, 15])])
def test_groups_of_shards_give_each_batch_the_same_number(shards, groups):
    chunks = 4 * shards + 3  # some shards are longer
    order = Order(chunks * 10 - 4, 10, shards=shards, window=2)
    bijections = order.epoch(0)
    positions = (4 * 10 - 4) * shards  # positions before any shard can end
    for group in groups:
        for batch in (group, 3 * group):
            for start in range(0, positions - batch, max(1, positions // 50)):
                places = bijections.shards.place_of(np.arange(start, start + batch))
                shard = bijections.shards.shard_of_chunk(bijections.chunks.ordinal_at(places))
                counts = np.bincount(shard // (shards // group), minlength=group)
                assert counts.tolist() == [batch // group] * group


def test_longer_shards_are_spread_over_all():
    order = Order((64 + 8) * 10, 10, shards=64, window=1)
    sizes = np.diff(order.epoch(0).shards.first_chunk)
    assert np.flatnonzero(sizes == 2).tolist() == list(range(0, 64, 8))


def test_defaults():
    for chunks, shards in ((1, 1), (8, 1), (16, 2), (100, 8), (512, 64), (10_000, 64)):
        assert Order(chunks * 10, 10).shards == shards
    assert Order(10_000 * 10, 10).window == 6  # 384 chunks in all shards


def test_orders_travel_to_other_processes():
    order = Order(1000, 10, seed=3)
    copy = pickle.loads(pickle.dumps(order))
    assert copy == order and hash(copy) == hash(order)
    assert json.dumps([order.shards, order.window])  # plain numbers


@pytest.mark.parametrize("changes, text", [
    ({"samples": 0}, "the data set is empty: samples=0"),
    ({"samples": 2**62}, "samples=4611686018427387904"),
    ({"chunk_samples": 0}, "chunk_samples=0"),
    ({"shards": 11}, "shards=11: the data set has 10 chunks; remedy: .* from 1 to 10"),
    ({"shards": True}, "shards=True"),
    ({"window": 0}, "window=0"),
    ({"window": 2**48 + 1}, "window=281474976710657"),
    ({"seed": -1}, "seed=-1"),
    ({"identity": b"short"}, "identity has 5 bytes"),
    ({"shuffle": False, "shards": 2}, "shards=2 with shuffle=False"),
    ({"shuffle": False, "window": 2}, "window=2 with shuffle=False"),
])
def test_refusals(changes, text):
    with pytest.raises(InputError, match=text):
        Order(**{"samples": 100, "chunk_samples": 10, **changes})


def test_epochs_that_are_refused():
    with pytest.raises(InputError, match="epoch=-1"):
        Order(100, 10).at(-1, np.arange(3))
