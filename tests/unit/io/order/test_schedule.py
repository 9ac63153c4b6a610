from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from orders import jobs, orders

from horovod_opt.io.node_reader.layout import ALONG, chunk_bytes, samples_of
from horovod_opt.io.node_reads import chunks_for_node, node_reads
from horovod_opt.io.order import schedule as schedules
from horovod_opt.io.order.batches import Batches
from horovod_opt.io.order.memory import _windows, enough_for, enough_for_any_epoch
from horovod_opt.io.order.node_shards import (
    _below,
    first_irregular_step,
    shards_at_the_end,
    shards_before,
)
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.schedule import peak_bytes, schedule, schedule_in_pieces, take_steps
from horovod_opt.io.order.shards import reverse_digits
from horovod_opt.io.order.step_order import StepOrder
from horovod_opt.io.order.window_size import CHUNK_BYTES, default_chunk_samples


def looked_up(order: Order, batches: Batches, epoch: int, ranks) -> list[tuple[int, int, int]]:
    """(first, chunk, last) of each load, sample by sample."""
    steps_of_chunk = {}
    for step in range(batches.steps):
        for rank in ranks:
            for sample in take_steps(order, batches, epoch, step, step + 1, ranks, rank).samples:
                chunk = int(sample) // order.chunk_samples
                steps_of_chunk[chunk] = (steps_of_chunk.get(chunk, (step, step))[0], step)
    return sorted((first, chunk, last) for chunk, (first, last) in steps_of_chunk.items())


def rows(loads) -> list[tuple[int, int, int]]:
    return list(zip(loads.first.tolist(), loads.chunk.tolist(), loads.last.tolist()))


def some_ranks(data, batches: Batches) -> list[int]:
    return sorted(data.draw(st.sets(st.integers(0, batches.ranks - 1), min_size=1)))


@settings(max_examples=120, deadline=None)
@given(jobs(300), st.data())
def test_schedule_is_what_samples_say(job, data):
    order, batches = job
    ranks = some_ranks(data, batches)
    assert rows(schedule(order, batches, 1, ranks)) == looked_up(order, batches, 1, ranks)


@settings(max_examples=120, deadline=None)
@given(jobs(), st.data())
def test_pieces_are_the_schedule(job, data):
    order, batches = job
    ranks = some_ranks(data, batches)
    whole = rows(schedule(order, batches, 0, ranks))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedules, "PIECE", data.draw(st.integers(1, 100)))
        pieces = [rows(piece) for piece in schedule_in_pieces(order, batches, 0, ranks)]
    assert sum(pieces, []) == whole
    assert all(pieces)


def test_the_first_piece_comes_without_looking_at_all_samples(monkeypatch):
    monkeypatch.setattr(schedules, "PIECE", 1000)
    order = Order(100_000, 10, shards=8, window=4)
    batches = Batches(order, 2, batch_size=10)
    looked_at = []
    real = StepOrder.mark
    monkeypatch.setattr(StepOrder, "mark",
                        lambda *arguments: looked_at.append(1) or real(*arguments))
    first = next(schedule_in_pieces(order, batches, 0, [0, 1]))
    assert len(first.chunk) and 1 <= len(looked_at) <= 2


@settings(max_examples=120, deadline=None)
@given(jobs(300), st.data())
def test_needed_is_the_worst_step(job, data):
    order, batches = job
    sizes = np.array([data.draw(st.integers(0, 99)) for _ in range(min(order.chunks, 20))])
    sizes = np.resize(sizes, order.chunks)
    loads = schedule(order, batches, 0, some_ranks(data, batches))
    live = [sum(int(sizes[chunk]) for first, chunk, last in rows(loads) if first <= step <= last)
            for step in range(batches.steps)]
    assert peak_bytes(loads, sizes) == max(live, default=0)


@settings(max_examples=120, deadline=None)
@given(jobs(), st.data())
def test_enough_is_enough_in_any_epoch(job, data):
    order, batches = job
    ranks = some_ranks(data, batches)
    sizes = np.resize(np.array([1, 5, 2, 40, 3]), order.chunks)
    enough = enough_for_any_epoch(order, batches, ranks, sizes)
    for epoch in range(4):
        assert peak_bytes(schedule(order, batches, epoch, ranks), sizes) <= enough
    assert enough <= sizes.sum()


@settings(max_examples=120, deadline=None)
@given(orders())
def test_windows_begin_and_end_when_memory_says(order):
    ordinal, chunks, first, last = _windows(order)
    for epoch in range(4):
        bijections = order.epoch(epoch)
        begin, end = np.unique(np.stack(bijections.windows.chunks(np.arange(order.chunks))), axis=1)
        own_ordinal = bijections.shards.ordinal_of_shard[bijections.shards.shard_of_chunk(begin)]
        sequence = np.lexsort((begin, own_ordinal))
        begin, end = begin[sequence], end[sequence]
        assert ordinal.tolist() == own_ordinal[sequence].tolist()
        assert chunks.tolist() == (end - begin).tolist()
        assert (first <= bijections.shards.position_of(bijections.chunks.first_place(begin))).all()
        assert (last >= bijections.shards.position_of(bijections.chunks.first_place(end) - 1)).all()


@settings(max_examples=120, deadline=None)
@given(jobs(), st.data())
def test_a_node_takes_of_the_shards_that_memory_says(job, data):
    order, batches = job
    assume(batches.steps)
    ranks = some_ranks(data, batches)
    irregular = first_irregular_step(order, batches)
    taken_before = np.zeros(order.shards, bool)
    for epoch in range(3):
        bijections = order.epoch(epoch)
        for step in range(batches.steps):
            positions = np.concatenate(
                [take_steps(order, batches, epoch, step, step + 1, ranks, rank).positions
                 for rank in ranks])
            ordinals = bijections.chunks.ordinal_at(bijections.shards.place_of(positions))
            of_node = bijections.shards.ordinal_of_shard[bijections.shards.shard_of_chunk(ordinals)]
            if step < irregular:
                taken_before[of_node] = True
            else:
                assert shards_at_the_end(order, batches, ranks)[of_node].all()
    before = shards_before(order, batches, ranks)
    assert not (taken_before & ~before).any()
    if irregular >= order.shards:
        assert taken_before.tolist() == before.tolist()


@pytest.mark.parametrize("shards, active", [(8, 8), (8, 5), (12, 12), (12, 7), (5, 1)])
def test_runs_of_turns_deviate_by_what_memory_says(shards, active):
    ordinals = reverse_digits(shards)[:active]
    part, deviation = _below(ordinals, shards)
    for s in range(shards + 1):
        runs = [np.resize(np.roll(ordinals, -start), length)
                for start in range(active) for length in range(3 * active)]
        off = [abs((run < s).sum() - len(run) * part[s]) for run in runs]
        assert max(off) == pytest.approx(deviation[s])


def test_at_the_end_a_node_takes_little_of_other_shards():
    order = Order(917 * 1398 - 400, 1398, shards=64, window=4)
    batches = Batches(order, 8, batch_size=64)
    one_each = np.ones(order.chunks, np.int64)
    for ranks in ([0, 1], [2, 3], [4, 5], [6, 7]):
        assert shards_before(order, batches, ranks).sum() == 16
        assert shards_at_the_end(order, batches, ranks).sum() < 32
        assert enough_for_any_epoch(order, batches, ranks, one_each) <= 1.4 * 16 * 4


def test_what_is_needed_stays_near_the_windows():
    order = Order(4000 * 20, 20, shards=64, window=8)
    batches = Batches(order, 2, batch_size=65)  # windows end within steps
    one_each = np.ones(order.chunks, np.int64)
    at_once = peak_bytes(schedule(order, batches, 0, [0, 1]), one_each)
    assert 0.9 * 64 * 8 <= at_once <= 1.2 * 64 * 8
    assert at_once <= enough_for_any_epoch(order, batches, [0, 1], one_each) <= 1.3 * 64 * 8


def test_shards_change_windows_at_different_times():
    """So loads are even: all at once, each window's 512 loads would come in the same few steps."""
    order = Order(64 * 100 * 20, 20, shards=64, window=8)
    batches = Batches(order, 2, batch_size=64)  # two rows a step, 80 steps a window
    for ranks, shards in (([0, 1], 64), ([0], 32), ([1], 32)):
        first = schedule(order, batches, 0, ranks).first
        in_ten_steps = np.bincount(first // 10)[8:-8]
        assert in_ten_steps.mean() == pytest.approx(shards, rel=0.1)
        assert in_ten_steps.max() < 1.5 * shards


def of_bytes(order: Order, size: int) -> tuple[SimpleNamespace, np.ndarray]:
    """An index of samples of one size, one after the other, and what its chunks hold."""
    number = np.arange(order.samples)[:, None]
    index = SimpleNamespace(file=0 * number, offset=number * size, size=0 * number + size)
    return index, chunk_bytes(index, order.chunk_samples)


def test_nodes_that_divide_the_shards_read_no_chunk_twice():
    order = Order(64 * 10 * 20, 20, shards=64, window=3)
    batches = Batches(order, 8, batch_size=8)  # ends with a whole batch
    nodes = node_reads(order, batches, 0, 4, *of_bytes(order, 5))
    assert [node.ranks for node in nodes] == [range(0, 2), range(2, 4), range(4, 6), range(6, 8)]
    assert [node.shards.tolist() for node in nodes] == [
        list(range(first, first + 16)) for first in (0, 16, 32, 48)]
    assert [node.again for node in nodes] == [0] * 4
    assert [node.bytes for node in nodes] == [160 * 100] * 4


def test_a_node_keeps_little_of_its_neighbours():
    """With shards that are unequal, and a remainder."""
    order = Order(1_300_017 // 37, 37, shards=32, window=3)
    batches = Batches(order, 8, batch_size=16)
    nodes = node_reads(order, batches, 0, 4, *of_bytes(order, 5))
    assert 0 < sum(node.again for node in nodes) < 0.05 * sum(node.bytes for node in nodes)


@pytest.mark.parametrize("order, nodes", [
    (Order(1003, 10, shards=5, window=3), 3), (Order(1003, 10, shuffle=False), 4)])
def test_what_is_too_large_to_be_read_along_is_read_once(order, nodes):
    batches = Batches(order, 12, batch_size=3)
    index, sizes = of_bytes(order, ALONG + 1)
    read = node_reads(order, batches, 0, nodes, index, sizes)
    assert sum(len(node.loads.chunk) for node in read) > order.chunks
    assert sum(node.bytes for node in read) == sizes.sum()
    assert [node.again for node in read] == [0] * nodes


def test_what_is_small_is_read_by_all_who_take_some_of_it():
    order = Order(4000, 400, shuffle=False)
    index, sizes = of_bytes(order, 5)
    first, *rest_of_nodes = node_reads(order, Batches(order, 4, batch_size=10), 0, 4, index, sizes)
    assert first.again == 0
    for node in rest_of_nodes:
        assert node.again > 0.9 * node.bytes > 0.8 * sizes.sum()


def test_without_shuffling_chunks_are_needed_one_after_the_other():
    order = Order(100, 10, shuffle=False)
    batches = Batches(order, 2, batch_size=5)
    loads = schedule(order, batches, 0, [0, 1])
    assert rows(loads) == [(chunk, chunk, chunk) for chunk in range(10)]
    assert peak_bytes(loads, np.full(10, 7)) == 7


def test_nothing_is_left_to_load_at_the_end_of_an_epoch():
    order = Order(100, 10)
    loads = schedule(order, Batches(order, 2, batch_size=5, start=100), 0, [0, 1])
    assert rows(loads) == []
    assert peak_bytes(loads, np.full(10, 7)) == 0
    assert enough_for_any_epoch(order, Batches(order, 2, batch_size=5, start=100), [0],
                                np.full(10, 7)) == 0


def test_memory_that_would_do_is_not_too_little():
    """Two large chunks, never needed at once: without shuffling, and in given epochs."""
    sizes = np.ones(16, np.int64)
    sizes[[2, 9]] = 100
    for order, epochs in ((Order(160, 10, shuffle=False), None),
                          (Order(160, 10, shards=1, window=2, seed=3), range(5, 8))):
        batches = Batches(order, 1, batch_size=7)
        really = max(peak_bytes(schedule(order, batches, epoch, [0]), sizes)
                     for epoch in epochs or (0, 1, 2))
        any_epoch = enough_for_any_epoch(order, batches, [0], sizes)
        assert really < any_epoch
        for memory, enough in ((None, any_epoch), (any_epoch, any_epoch), (really, really),
                               (really - 1, really)):
            assert enough_for(order, [batches], [0], sizes, epochs, memory) == enough


def test_memory_for_all_epochs_is_what_any_may_need():
    order, sizes = Order(160, 10, shards=1, window=2), np.arange(16)
    batches = [Batches(order, 1, batch_size=7, start=start) for start in (0, 33)]
    assert enough_for(order, batches, [0], sizes, None, 1) == max(
        enough_for_any_epoch(order, cut, [0], sizes) for cut in batches)


@settings(max_examples=200, deadline=None)
@given(jobs(300), st.booleans(), st.data())
def test_what_is_taken_is_what_samples_say(job, deals_job, data):
    """Of the samples of its chunks, in the data's order; in pieces, as a reader gets it. Dealt to a
    node's ranks, or to all."""
    order, batches = job
    ranks = some_ranks(data, batches)
    dealt = range(batches.ranks) if deals_job else ranks
    is_taken = np.zeros(order.samples, bool)
    for step in range(batches.steps):
        for rank in ranks:
            is_taken[take_steps(order, batches, 1, step, step + 1, dealt, rank).samples] = True
    are_loaded = np.zeros(order.samples, bool)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schedules, "PIECE", data.draw(st.integers(1, 100)))
        for loads in schedule_in_pieces(order, batches, 1, ranks, with_masks=True, dealt=dealt):
            samples = samples_of(loads.chunk, order.chunk_samples, order.samples)[0]
            are_loaded[samples] = True
            if loads.mask is None:
                assert is_taken[samples].all()
            else:
                assert loads.mask.tolist() == is_taken[samples].tolist()
                assert not loads.mask.all() or len(dealt) > len(ranks)
    assert (are_loaded | ~is_taken).all()


@pytest.mark.parametrize("samples, shards", [(50_000, None), (50_021, None), (49_373, 4),
                                             (50_000, 8)])
def test_in_chunks_of_the_default_size_a_byte_is_read_once(samples, shards):
    order = Order(samples, default_chunk_samples(samples, 3072 * samples, shards), shards)
    assert order.chunks % order.shards == 0
    index, sizes = of_bytes(order, 3072)
    assert sizes.max() <= CHUNK_BYTES + 3072
    nodes = node_reads(order, Batches(order, 8, batch_size=64), 0, 4, index, sizes)
    assert sum(node.bytes for node in nodes) <= 1.01 * sizes.sum()


@pytest.mark.parametrize("size, batch_size, chunk_samples", [
    (3000, 32, 64),  # what two ranks take of a batch
    (3000, 1000, 1000),  # half of it: 4 MiB have 1400
    (3000, 3, 4 * 24),  # four global batches: 6 of 24 samples are 18 kB
    (2000, 1, 1400),  # the 6 others of 8 samples are rather read along
    (10, 3, 1400),
])
def test_without_shuffling_a_chunk_is_what_a_node_takes_at_a_time(size, batch_size,
                                                                  chunk_samples):
    order = Order(100_000, 1400, shuffle=False)
    cut = chunks_for_node(order, Batches(order, 8, batch_size=batch_size), [2, 3], size)
    assert cut.chunk_samples == chunk_samples
    assert cut.shuffle is False


def test_what_is_shuffled_is_cut_as_the_order_says():
    order = Order(100_000, 1400)
    assert chunks_for_node(order, Batches(order, 8, batch_size=32), [2, 3], 3000) is order
