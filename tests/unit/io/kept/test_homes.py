"""Which node keeps which chunk: the same for all, within what each has, near who needs it first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from horovod_opt.io.kept.homes import NOWHERE, PAGE, NodeHoldings, find_homes, near_nodes, pages
from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.schedule import schedule


@st.composite
def jobs(draw):
    """An order, sizes of its chunks, and nodes with what they hold."""
    shuffle = draw(st.booleans())
    order = Order(draw(st.integers(1, 300)), draw(st.integers(1, 20)), seed=draw(st.integers(0, 9)),
                  shuffle=shuffle)
    sizes = np.array(draw(st.lists(st.integers(0, 5 * PAGE), min_size=order.chunks,
                                   max_size=order.chunks)), np.int64)
    counts = draw(st.lists(st.integers(1, 3), min_size=1, max_size=5))
    ranks = draw(st.permutations(range(sum(counts))))
    nodes = []
    for count in counts:
        room = draw(st.integers(0, max(2 * int(pages(sizes).sum()), 1)))
        held = np.array(draw(st.lists(st.booleans(), min_size=order.chunks,
                                      max_size=order.chunks)))
        held &= np.cumsum(pages(sizes) * held) <= room
        nodes.append(NodeHoldings(tuple(sorted(ranks[:count])), room, held))
        ranks = ranks[count:]
    return order, draw(st.integers(0, 3)), sizes, nodes


@settings(deadline=None, max_examples=150)
@given(jobs())
def test_no_node_keeps_more_than_it_may_nor_is_asked_to_give_away_what_it_has(job):
    order, epoch, sizes, nodes = job
    homes = find_homes(order, epoch, sizes, nodes)
    assert len(homes) == order.chunks
    for number, node in enumerate(nodes):
        assert pages(sizes)[homes == number].sum() <= node.room
        before = np.logical_or.reduce([np.zeros(order.chunks, bool),
                                       *(other.held for other in nodes[:number])])
        assert (homes[node.held & ~before] == number).all()
    # Another table is made only of what has changed: a home stays.
    kept = [node._replace(held=homes == number) for number, node in enumerate(nodes)]
    assert (find_homes(order, epoch + 1, sizes, kept)[homes != NOWHERE]
            == homes[homes != NOWHERE]).all()


@settings(deadline=None, max_examples=150)
@given(jobs())
def test_what_has_no_home_fits_nowhere(job):
    order, epoch, sizes, nodes = job
    homes = find_homes(order, epoch, sizes, nodes)
    left = [node.room - pages(sizes)[homes == number].sum() for number, node in enumerate(nodes)]
    homeless = pages(sizes)[homes == NOWHERE]
    assert len(homeless) == 0 or homeless[0] > max(left)


@settings(deadline=None, max_examples=50)
@given(jobs(), st.integers(0, 3))
def test_what_a_lost_node_held_gets_new_homes(job, lost):
    order, epoch, sizes, nodes = job
    homes = find_homes(order, epoch, sizes, nodes)
    lost %= len(nodes)
    left = [node._replace(held=homes == number, ranks=(0,)) for number, node in enumerate(nodes)
            if number != lost]
    left = [node._replace(ranks=(rank,)) for rank, node in enumerate(left)]
    if left:
        again = find_homes(order, epoch, sizes, left)
        numbers = [number for number in range(len(nodes)) if number != lost]
        for new, number in enumerate(numbers):
            assert (again[homes == number] == new).all()


@pytest.mark.parametrize("nodes, local, shards", [(2, 1, 8), (2, 2, 8), (4, 2, 16), (3, 1, 6),
                                                  (4, 1, 2), (2, 4, 1)])
@pytest.mark.parametrize("epoch", [0, 3])
def test_a_chunk_is_at_home_where_it_is_needed_first(nodes, local, shards, epoch):
    order = Order(16000, 20, shards, 25, seed=4)
    batches = Batches(order, nodes * local, batch_size=20)
    node_ranks = [tuple(range(node * local, (node + 1) * local)) for node in range(nodes)]
    chunks, near = near_nodes(order, epoch, node_ranks)
    assert sorted(chunks.tolist()) == list(range(order.chunks))
    assert np.bincount(near, minlength=nodes).min() > order.chunks / nodes * 0.9
    hits = sum(np.isin(chunks[near == number],
                       schedule(order, batches, epoch, ranks).chunk).sum()
               for number, ranks in enumerate(node_ranks))
    assert hits > 0.95 * order.chunks


def test_without_shuffling_nodes_take_turns():
    order = Order(1000, 10, shuffle=False)
    near = near_nodes(order, 0, [(0,), (1,), (2,)])[1]
    assert np.bincount(near).min() > 30
