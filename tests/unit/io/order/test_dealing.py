"""What the ranks of a node get of what the node takes."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from orders import jobs

from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.dealing import deal, hand_of
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.permutation import derive_key
from horovod_opt.io.order.schedule import take_steps

KEY = derive_key(bytes(16), 1, 2, "dealing")


def nodes_of(data, ranks: int) -> list[list[int]]:
    """Ranks by node, as a launcher may place them."""
    node = [data.draw(st.integers(0, 2)) for _ in range(ranks)]
    return [found for number in range(3)
            if (found := [rank for rank in range(ranks) if node[rank] == number])]


@settings(max_examples=150, deadline=None)
@given(jobs(300), st.data())
def test_a_node_takes_its_ranks_shares_whoever_gets_them(job, data):
    """Which bytes a node reads is not changed by dealing."""
    order, batches = job
    assume(batches.steps)
    step = data.draw(st.integers(0, batches.steps - 1))
    positions = np.arange(*batches.bounds(step))
    by_place = positions[np.argsort(order.epoch(1).shards.place_of(positions))]
    for node in nodes_of(data, batches.ranks):
        takes = [take_steps(order, batches, 1, step, step + 1, node, rank).positions.tolist()
                 for rank in node]
        assert [len(take) for take in takes] == [batches.size(step, rank) for rank in node]
        shares = [by_place[slice(*batches.share(step, rank))].tolist() for rank in node]
        assert sorted(sum(takes, [])) == sorted(sum(shares, []))


@settings(max_examples=100, deadline=None)
@given(jobs(300), st.data())
def test_what_is_left_of_an_epoch_is_dealt_as_the_whole(job, data):
    order, batches = job
    assume(batches.steps)
    step = data.draw(st.integers(0, batches.steps - 1))
    rest = Batches(order, batches.ranks, global_batch_size=batches.global_batch_size,
                   last=batches.last, start=batches.bounds(step)[0])
    group = list(range(batches.ranks))
    for rank in group:
        assert take_steps(order, batches, 3, step, step + 1, group, rank).samples.tolist() == (
            take_steps(order, rest, 3, 0, 1, group, rank).samples.tolist())


def test_any_place_is_any_rank_s_equally_often():
    """Within 5 standard errors; a place is as likely beside any of another round. And where in its
    batch a rank has it."""
    batches = Batches(Order(10_000, 10), 4, batch_size=8)
    steps = 5000
    counts, turns = np.zeros((4, 32), np.int64), np.zeros((8, 32), np.int64)
    pairs = Counter()
    for step in range(steps):
        for rank in range(4):
            numbers = deal(KEY, step, hand_of(batches, 0, range(4), rank))
            counts[rank, numbers] += 1
            turns[np.arange(8), numbers] += 1
            pairs[rank, tuple(sorted(numbers)[:2])] += 1
    for cells, mean in ((counts, steps / 4), (turns, steps / 8),
                        (np.array(list(pairs.values())), steps / 16)):
        assert (abs(cells - mean) < 5 * np.sqrt(mean)).all()
    assert len(pairs) == 4 * 16


def test_of_places_that_follow_each_other_each_rank_gets_one():
    """So of each shard as much as any other."""
    batches = Batches(Order(10_000, 10), 8, global_batch_size=83)
    dealt = [deal(KEY, 5, hand_of(batches, 0, range(8), rank)) for rank in range(8)]
    for rank, numbers in enumerate(dealt):
        assert sorted(numbers // 8) == list(range(10 + (rank < 3)))


def test_steps_epochs_and_seeds_are_dealt_differently():
    batches = Batches(Order(10_000, 10), 4, batch_size=16)
    hand = hand_of(batches, 0, range(4), 1)
    dealt = {tuple(deal(derive_key(bytes(16), seed, epoch, "dealing"), step, hand))
             for seed in range(3) for epoch in range(3) for step in (0, 64, 128)}
    assert len(dealt) == 27


def test_a_group_may_be_the_whole_job():
    batches = Batches(Order(1000, 10), 5, global_batch_size=52)
    hands = [hand_of(batches, 0, range(5), rank) for rank in range(5)]
    assert all(hand.runs.tolist() == [[0, 52]] for hand in hands)
    assert sorted(np.concatenate([deal(KEY, 0, hand) for hand in hands])) == list(range(52))


@pytest.mark.parametrize("order", [Order(1000, 10, shuffle=False),
                                   Order(1000, 10, 4, 3, version=1)])
def test_nothing_is_dealt_without_shuffling_and_by_the_rules_of_before(order):
    batches = Batches(order, 4, batch_size=8)
    bijections = order.epoch(0)
    assert bijections.deal_key is None
    for rank in range(4):
        take = take_steps(order, batches, 0, 2, 3, range(4), rank)
        places = bijections.shards.place_of(take.positions)
        assert places.tolist() == sorted(places.tolist())
        alone = take_steps(order, batches, 0, 2, 3, [rank], rank)
        assert take.samples.tolist() == alone.samples.tolist()
