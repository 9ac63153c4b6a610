from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from orders import jobs, orders

from horovod_opt.io.errors import InputError
from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.schedule import take_steps


def sizes(samples: int, ranks: int, **arguments) -> list[list[int]]:
    """Of each step and rank."""
    batches = Batches(Order(samples, 1), ranks, **arguments)
    return [[batches.size(step, rank) for rank in range(ranks)] for step in range(batches.steps)]


def node_of(batches: Batches, rank: int) -> range:
    """Nodes of three ranks."""
    return range(rank // 3 * 3, min(rank // 3 * 3 + 3, batches.ranks))


@settings(max_examples=150, deadline=None)
@given(jobs(), st.integers(0, 3))
def test_every_sample_is_taken_exactly_once(job, epoch):
    order, batches = job
    takes = [take_steps(order, batches, epoch, step, step + 1, node_of(batches, rank), rank)
             for step in range(batches.steps) for rank in range(batches.ranks)]
    positions = np.concatenate([take.positions for take in takes]) if takes else np.zeros(0)
    remainder = (order.samples - batches.start) % batches.global_batch_size
    end = order.samples - (remainder if batches.last == "drop" else 0)
    assert sorted(positions.tolist()) == list(range(batches.start, end))
    for take in takes:
        assert take.samples.tolist() == order.at(epoch, take.positions).tolist()


@settings(max_examples=150, deadline=None)
@given(jobs())
def test_ranks_have_equally_many_samples_in_each_step(job):
    order, batches = job
    for step in range(batches.steps):
        shares = [batches.size(step, rank) for rank in range(batches.ranks)]
        first, end = batches.bounds(step)
        assert sum(shares) == end - first
        assert max(shares) - min(shares) <= 1
        assert min(shares) >= 1 or batches.last == "mask" or end - batches.start < batches.ranks
        assert batches.step_of(np.arange(first, end)).tolist() == [step] * (end - first)
        weights = [batches.weight(step, rank) for rank in range(batches.ranks)]
        assert sum(weights) == pytest.approx(batches.ranks)
        for rank in range(batches.ranks):
            assert batches.size(step, rank) <= batches.capacity(step, rank)


@settings(max_examples=120, deadline=None)
@given(orders(), st.data())
def test_a_global_batch_is_the_same_for_any_number_of_ranks(order, data):
    assume(order.samples > 1)
    size = data.draw(st.integers(2, min(order.samples, 60)))
    few, many = (data.draw(st.integers(1, size // 2)) for _ in range(2))
    first, second = (Batches(order, ranks, global_batch_size=size) for ranks in (few, many))
    assert first.steps == second.steps
    for step in range(first.steps):
        assert [sorted(np.concatenate([take_steps(
                    order, batches, 0, step, step + 1, node_of(batches, rank), rank).samples
                    for rank in range(batches.ranks)]).tolist())
                for batches in (first, second)].count(
                    sorted(order.at(0, np.arange(*first.bounds(step))).tolist())) == 2


@settings(max_examples=120, deadline=None)
@given(jobs(), st.data())
def test_resuming_between_two_steps_changes_nothing(job, data):
    order, batches = job
    assume(batches.steps)
    step = data.draw(st.integers(0, batches.steps - 1))
    rest_of_epoch = Batches(order, batches.ranks, global_batch_size=batches.global_batch_size,
                            last=batches.last, start=batches.bounds(step)[0])
    assert [rest_of_epoch.bounds(number) for number in range(rest_of_epoch.steps)] == \
        [batches.bounds(number) for number in range(step, batches.steps)]


def test_the_remainder_is_spread_over_the_last_two_batches():
    assert sizes(21, 2, batch_size=4) == [[4, 4], [4, 3], [3, 3]]
    assert sizes(16, 2, batch_size=4) == [[4, 4], [4, 4]]
    assert sizes(9, 2, batch_size=4) == [[3, 2], [2, 2]]
    assert sizes(7, 2, batch_size=4) == [[4, 3]]


def test_the_remainder_joins_the_last_batch_where_a_rank_would_get_none():
    assert sizes(9, 4, batch_size=1) == [[1] * 4, [2, 1, 1, 1]]
    assert sizes(13, 4, global_batch_size=5) == [[2, 1, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]
    assert sizes(11, 4, global_batch_size=5) == [[2, 1, 1, 1], [2, 2, 1, 1]]


def test_the_remainder_is_dropped():
    assert sizes(21, 2, batch_size=4, last="drop") == [[4, 4], [4, 4]]


def test_the_remainder_is_masked():
    batches = Batches(Order(21, 1), 2, batch_size=4, last="mask")
    assert [batches.size(2, rank) for rank in range(2)] == [3, 2]
    assert [batches.capacity(2, rank) for rank in range(2)] == [4, 4]
    assert [batches.weight(2, rank) for rank in range(2)] == [3 * 2 / 5, 2 * 2 / 5]


def test_fewer_samples_left_than_ranks():
    assert sizes(21, 4, batch_size=2, start=18) == [[1, 1, 1, 0]]
    assert sizes(21, 4, batch_size=2, start=21) == []
    assert sizes(21, 4, batch_size=2, start=18, last="drop") == []


def test_weights_make_the_mean_over_ranks_that_over_samples():
    batches = Batches(Order(21, 1), 4, batch_size=5)
    values = np.random.default_rng(0).random(21)
    first, end = batches.bounds(1)
    means = [values[first:end][slice(*batches.share(1, rank))].mean() * batches.weight(1, rank)
             for rank in range(4)]
    assert np.mean(means) == pytest.approx(values[first:end].mean())


@pytest.mark.parametrize("arguments, text", [
    ({"ranks": 0, "batch_size": 1}, "ranks=0"),
    ({"ranks": 11, "batch_size": 1}, "10 samples for 11 ranks; remedy: start at most 10"),
    ({"ranks": 2}, "batch_size=None and global_batch_size=None"),
    ({"ranks": 2, "batch_size": 2, "global_batch_size": 4}, "batch_size=2 and global_batch_size=4"),
    ({"ranks": 2, "batch_size": 0}, "batch_size=0"),
    ({"ranks": 4, "global_batch_size": 3}, "global_batch_size=3 leaves some of 4 ranks"),
    ({"ranks": 2, "batch_size": 2, "last": "pad"}, "last='pad'; remedy: one of spread, drop"),
    ({"ranks": 2, "batch_size": 2, "start": 11}, "start=11"),
    ({"ranks": 2, "batch_size": 6, "last": "drop"}, "last='drop' leaves no batch: 10 samples"),
])
def test_refusals(arguments, text):
    with pytest.raises(InputError, match=text):
        Batches(Order(10, 1), **arguments)


def test_steps_and_ranks_that_there_are_not():
    batches = Batches(Order(10, 1), 2, batch_size=5)
    with pytest.raises(InputError, match="step=1 is not one of the 1"):
        batches.bounds(1)
    with pytest.raises(InputError, match="rank=2 is not one of 2 ranks"):
        batches.share(0, 2)
