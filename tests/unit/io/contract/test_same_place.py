"""Ranks that are not at the same place in the data: all of them say so, and none gets the bytes of
another sample."""

from __future__ import annotations

import threading
from contextlib import suppress

import numpy as np
import pytest
from data_sets import tfrecord
from events import MINUTE
from node_data import Loads, one_file
from thread_ranks import in_job, succeeded

torch = pytest.importorskip("torch")

import horovod_opt.io as hio
from horovod_opt.io import step_source
from horovod_opt.io.node_reader import chunk_reads, reader_process
from horovod_opt.io.node_reader.member import Member
from horovod_opt.io.node_reader.reader_process import Reader
from horovod_opt.io.step_source import StepSource

COUNT = 120


@pytest.fixture
def pattern(tmp_path) -> str:
    return str(tfrecord(tmp_path / "a.tfrecord", [i.to_bytes(4, "little") for i in range(COUNT)]))


def number(sample: hio.Sample) -> int:
    assert int.from_bytes(sample.data, "little") == sample.number
    return sample.number


def with_loader(data: hio.Data):
    return hio.torch.loader(data, 4, decode=number)


def with_sampler(data: hio.Data):
    return torch.utils.data.DataLoader(hio.torch.Dataset(data, number),
                                       batch_sampler=hio.torch.BatchSampler(data, 4))


def with_tensorflow(data: hio.Data):
    pytest.importorskip("tensorflow")
    return hio.tensorflow.dataset(data, 4)


@pytest.mark.parametrize("node_ranks", [0, 2])
@pytest.mark.parametrize("make", [with_loader, with_sampler])
def test_all_ranks_of_all_nodes_hear_of_both_places(pattern, make, node_ranks):
    """The state is loaded behind the loader, on one rank alone."""
    def run(open_data, rank: int) -> tuple[str, int]:
        with open_data(pattern, seed=1, chunk_samples=4) as data:
            loader = make(data)
            if rank == 0:
                data.load_state_dict({**data.state_dict(), "position": 48})
            with pytest.raises(hio.InputError) as error:
                list(loader)
            # On all ranks alike it goes on.
            data.load_state_dict({**data.state_dict(), "epoch": 0, "position": 48})
            return str(error.value), sum(len(batch) for batch in loader)

    texts, counts = zip(*succeeded(in_job(4, run, node_ranks)))
    assert set(texts) == {texts[0]} and sum(counts) == COUNT - 48
    for part in ('"epoch 0, position 48" on rank 0', '"epoch 0, position 0" on ranks 1, 2, 3',
                 "remedy: call data.load_state_dict() with the same state on every rank"):
        assert part in texts[0]


def test_a_state_of_another_order_on_one_rank_alone(pattern):
    """Loaders that were made are made ready for it, which takes all ranks."""
    with hio.open(pattern, seed=1, chunk_samples=9) as other:
        state = {**other.state_dict(), "position": 48}

    def run(open_data, rank: int) -> tuple[str, int]:
        with open_data(pattern, seed=1) as data:
            loader = with_loader(data)
            with pytest.raises(hio.InputError) as error:
                if rank == 0:
                    data.load_state_dict(state)
                list(loader)
            data.load_state_dict(state)
            return str(error.value), sum(len(batch) for batch in loader)

    texts, counts = zip(*succeeded(in_job(3, run, 2)))
    assert set(texts) == {texts[0]} and sum(counts) == COUNT - 48
    assert '"epoch 0, position 48 of another order" on rank 0' in texts[0]


def test_tensorflow_says_so_too(pattern):
    tf = pytest.importorskip("tensorflow")

    def run(open_data, rank: int) -> None:
        with open_data(pattern, seed=1, chunk_samples=4) as data:
            batches = with_tensorflow(data)
            if rank == 0:
                data.load_state_dict({**data.state_dict(), "position": 48})
            with pytest.raises(tf.errors.OpError, match="the place in the data differs .*48"):
                list(batches)

    succeeded(in_job(2, run))


@pytest.mark.parametrize("is_cached", [True, False])
@pytest.mark.parametrize("with_checksums", [True, False])
def test_the_bytes_of_another_sample_reach_nobody(pattern, monkeypatch, is_cached, with_checksums):
    """Though nobody has compared places."""
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", is_cached)
    monkeypatch.setattr(step_source, "require_equal", lambda *_: None)

    def run(open_data, rank: int) -> str:
        with open_data(pattern, seed=1, chunk_samples=4, window=2, shards=2,
                       checksums=with_checksums) as data:
            loader = hio.torch.loader(data, 4, decode=number, prefetch=0)
            if rank == 0:
                data.load_state_dict({**data.state_dict(), "position": 40})
            with suppress(StopIteration):
                with pytest.raises(hio.DataError) as error:
                    batches = iter(loader)
                    while True:
                        next(batches)  # `number` compares
                return str(error.value)
            return ""

    texts = succeeded(in_job(2, run))
    assert any("not at the same place in the data; remedy" in text for text in texts)


def test_a_load_of_another_chunk_is_no_load_of_mine(tmp_path):
    """The other ranks of the node hear of it, too."""
    index = one_file(tmp_path, [10] * 8)
    reader = Reader(index, 2, memory=1 << 20, ranks=2)
    mine, other = (Member(index, 2, reader.address, rank) for rank in range(2))
    try:
        reader.feed(Loads.of([(1, 0, 0)]))
        mine.feed(Loads.of([(2, 0, 0)]))
        other.feed(Loads.of([(1, 0, 0), (3, 1, 1)]))
        assert other.take(0, np.array([2])).part(0) == index.records[2][0]
        with pytest.raises(hio.InputError, match="step 0 of rank 0: it expects other samples"):
            mine.take(0, np.array([4]))
        with pytest.raises(hio.DataError, match="rank 0: it expects other samples"):
            other.take(1, np.array([6]))
    finally:
        mine.close()
        other.close()
        reader.stop()


@pytest.mark.parametrize("steps", [1, 3])
def test_of_an_epoch_that_was_left_nothing_is_gone_through(pattern, monkeypatch, steps):
    """It may have millions of chunks. Nor of the one behind it: neither by the rank nor by the
    reader's thread, which plans ahead, here four loads until the loop is left."""
    by_reader: list[list[int]] = []  # epochs of loads, of each loop
    by_rank: set[int] = set()
    is_left = [threading.Event() for _ in range(4)]
    in_pieces = chunk_reads.schedule_in_pieces

    def one_by_one(order, batches, epoch, ranks, with_masks, dealt):
        mine: list[int] = []
        if with_masks:
            by_reader.append(mine)
        loop = len(by_reader) - 1
        for loads in in_pieces(order, batches, epoch, ranks, False, dealt):
            for i in range(len(loads.chunk)):
                if with_masks and len(mine) == 4:
                    is_left[loop].wait(MINUTE)
                elif not with_masks:
                    by_rank.add(epoch)
                mine.append(epoch)
                yield type(loads)(*(column[i:i + 1] for column in loads[:3]))

    monkeypatch.setattr(chunk_reads, "schedule_in_pieces", one_by_one)
    with hio.open(pattern, seed=1, chunk_samples=2, shards=1, window=1) as data:
        source = StepSource(data, 2, None, "spread")
        for loop in range(3):
            samples = source.samples(source.begin())
            if loop:
                is_left[loop - 1].set()
            for _ in range(steps):
                step = next(samples)
                source.member.take(step.cache_step, step.samples)
                source.member.done(step.cache_step)
        assert by_rank == {0}
        assert len(by_reader) == 3 and all(len(loads) <= 5 for loads in by_reader)
        is_left[2].set()
