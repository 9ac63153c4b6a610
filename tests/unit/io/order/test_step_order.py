from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from orders import jobs

from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.dealing import deal, hand_of
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.schedule import next_piece


def position_by_position(order: Order, batches: Batches, epoch: int, step: int,
                         group: list[int], rank: int) -> tuple[list[int], list[int]]:
    """What the rank takes, by the order's own bijections."""
    bijections = order.epoch(epoch)
    positions = np.arange(*batches.bounds(step))
    by_place = positions[np.argsort(bijections.shards.place_of(positions))]
    if bijections.deal_key is None:
        positions = by_place[slice(*batches.share(step, rank))]
    else:
        positions = by_place[deal(bijections.deal_key, batches.bounds(step)[0],
                                  hand_of(batches, step, group, rank))]
    return positions.tolist(), order.at(epoch, positions).tolist()


def some_group(data, batches: Batches, rank: int) -> list[int]:
    """The ranks of a node, which need not be neighbours."""
    return sorted(data.draw(st.sets(st.integers(0, batches.ranks - 1))) | {rank})


@settings(max_examples=300, deadline=None)
@given(jobs(), st.integers(0, 2**63 - 1), st.data())
def test_steps_are_what_positions_say(job, epoch, data):
    order, batches = job
    assume(batches.steps)
    rank = data.draw(st.integers(0, batches.ranks - 1))
    group = some_group(data, batches, rank)
    begin, stepwise, piecewise = 0, ([], []), ([], [])
    while begin < batches.steps:
        end = next_piece(batches, begin, data.draw(st.integers(1, 200)))
        pieces = order.epoch(epoch).steps.take(batches, begin, end, group, rank)
        for column, piece in zip(piecewise, pieces):
            column.extend(piece.tolist())
        for step in range(begin, end):
            for column, piece in zip(stepwise, position_by_position(order, batches, epoch, step,
                                                                    group, rank)):
                column.extend(piece)
        begin = end
    assert piecewise == stepwise


@settings(max_examples=200, deadline=None)
@given(jobs(), st.data())
def test_marks_are_what_samples_say(job, data):
    order, batches = job
    assume(batches.steps)
    ranks = sorted(data.draw(st.sets(st.integers(0, batches.ranks - 1), min_size=1)))
    bijections, last_piece = order.epoch(3), max(batches.steps - 2, 1)
    first, last = np.full(order.chunks, batches.steps), np.full(order.chunks, -1)
    first_there, last_there = first.copy(), last.copy()
    counts, counts_there = np.zeros((2, order.chunks), np.int64)
    bijections.steps.mark(batches, 0, last_piece, ranks, first, last, counts)
    for step in range(last_piece):
        for rank in ranks:
            samples = bijections.steps.take(batches, step, step + 1, ranks, rank)[1]
            ordinals = bijections.chunks.ordinal_of(samples // order.chunk_samples)
            np.minimum.at(first_there, ordinals, step)
            np.maximum.at(last_there, ordinals, step)
            np.add.at(counts_there, bijections.windows.chunks(ordinals)[0], 1)
    assert counts.tolist() == counts_there.tolist()
    assert first.tolist() == first_there.tolist() and last.tolist() == last_there.tolist()


def test_positions_that_an_epoch_has_not_are_refused():
    order = Order(100, 10, shards=2, window=2)
    longer = Batches(Order(1000, 10, shards=2, window=2), 2, batch_size=10)
    with pytest.raises(ValueError, match="6 steps with 20 positions from 0 on, of 100"):
        order.epoch(0).steps.take(longer, 0, 6, [0, 1], 0)


def test_shares_that_follow_each_other_are_one():
    batches = Batches(Order(100, 10), 6, batch_size=4)
    assert batches.shares(0, [2, 0, 1, 5]) == [(0, 12), (20, 24)]
