"""Parcels: reader and ranks find the same ones, from whichever step they look."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from orders import jobs

from horovod_opt.io.job.groups import Shares
from horovod_opt.io.node_reader.parcel_reads import ParcelReads, ParcelRoom, describe
from horovod_opt.io.node_reader.steps import Epoch
from horovod_opt.io.order import parcels as of_parcels
from horovod_opt.io.order.order import Order
from horovod_opt.io.order.parcels import Parcels


@st.composite
def parcels(draw: st.DrawFn) -> tuple[Order, Parcels]:
    order, batches = draw(jobs(300))
    assume(batches.steps)
    return order, Parcels(batches, draw(st.integers(1, 12)))


def all_begins(cut: Parcels) -> list[int]:
    """First steps of all parcels, one after the other."""
    begins = []
    step = 0
    while step < cut.batches.steps:
        begins.append(step)
        step = cut.end_of(step, 1)
    return begins


@settings(max_examples=200, deadline=None)
@given(parcels(), st.integers(1, 5000))
def test_each_step_is_of_one_parcel_whoever_looks(job, positions):
    """Invariants 1 and 2."""
    _, cut = job
    begins = all_begins(cut)
    for number, (begin, end) in enumerate(zip(begins, [*begins[1:], cut.batches.steps])):
        assert end - begin <= cut.steps
        assert len({cut.batches.size(step, 0) for step in range(begin, end)}) == 1
        assert cut.number_of(begin) == number
        assert {cut.begin_of(step) for step in range(begin, end)} == {begin}
        behind = cut.end_of(begin, positions)
        assert cut.begins(begin, behind).tolist() == [
            step for step in begins if begin <= step < behind]
        assert behind == cut.batches.steps or behind in begins


class Data:
    """An index of samples with parts of random sizes, some of them empty."""

    def __init__(self, samples: int, seed: int):
        random = np.random.default_rng(seed)
        shape = (samples, 1 + seed % 3)
        self.size = random.integers(0, 5, shape) * 700
        ends = np.cumsum(self.size.ravel()).reshape(shape)
        self.offset, self.file = ends - self.size, np.zeros(shape, np.int32)
        self.crc = None
        self.files = SimpleNamespace()


@settings(max_examples=120, deadline=None)
@given(jobs(300), st.data())
def test_ranks_find_their_samples_where_the_reader_puts_them(job, data):
    """And every byte is read once: parts lie side by side, and fill their parcel."""
    order, batches = job
    index = Data(order.samples, data.draw(st.integers(0, 99)))
    own = data.draw(st.integers(0, batches.ranks - 1))
    of_node = tuple(sorted({own, *data.draw(st.sets(st.integers(0, batches.ranks - 1)))}))
    shares = Shares(batches.ranks, own, of_node, tuple(range(batches.ranks)))
    epoch = Epoch(3, batches, 50, order, 1000)
    before, of_parcels.BYTES = of_parcels.BYTES, data.draw(st.sampled_from([1, 20_000, 1 << 20]))
    try:
        reads = ParcelReads(index, shares)
        room = ParcelRoom.of(index, [batches], shares)
        loads, live = {}, {}
        for piece in reads.pieces(epoch):
            part = slice(0, len(piece.chunk))
            extents, _, _ = describe(index, piece, part, None)
            for i in range(len(piece.chunk)):
                entry = slice(*extents.begin[i:i + 2])
                places, lengths = extents.place[entry], extents.length[entry]
                assert places.tolist() == [0, *np.cumsum(lengths)][:-1 if len(lengths) else 0]
                assert (np.diff(extents.offset[entry]) > 0).all()  # nobody goes back
                assert lengths.sum() == extents.bytes[i] <= room.largest
                loads[1000 + len(loads)] = (piece.chunk[i], piece.first[i], piece.last[i],
                                            dict(zip(extents.offset[entry], places)))
                for step in range(piece.first[i], piece.last[i] + 1):
                    live[step] = live.get(step, 0) + extents.bytes[i]
        assert max(live.values(), default=0) <= room.at_once
        step = data.draw(st.integers(0, max(batches.steps - 1, 0)))
        while step < batches.steps:
            behind = data.draw(st.integers(step + 1, batches.steps))
            found = reads.locate(epoch, step, behind, data.draw(st.integers(1, 300)))
            assert step < found.end <= behind
            expected = [order.epoch(3).steps.take(batches, at, at + 1, shares.dealt, own)[1]
                        for at in range(step, found.end)]
            assert found.take.samples.tolist() == np.concatenate(expected).tolist()
            at = np.repeat(np.arange(step, found.end), [len(taken) for taken in expected])
            for i, sample in enumerate(found.take.samples):
                mark, first, last, places = loads[found.loads[i]]
                assert mark == found.chunks[i]
                assert first <= 50 + at[i] <= last
                for size, offset, place in zip(index.size[sample], index.offset[sample],
                                               found.places[i]):
                    assert place == (places[offset] if size else 0)
            step = found.end
    finally:
        of_parcels.BYTES = before


def test_a_mark_tells_a_parcel_from_others_of_the_same_samples():
    """Invariant 3: of another sequence, too."""
    cut = Parcels(SimpleNamespace(steps=10), 4)
    size = np.full((8, 1), 10)
    marks = set()
    for samples in (range(8), range(1, 9), [1, 0, *range(2, 8)], [0] * 8):
        found = cut.places(0, 4, np.array(samples), size)
        assert len(set(found.mark.tolist())) == 1 and found.mark[0] >= 0
        marks.add(int(found.mark[0]))
    assert len(marks) == 4
