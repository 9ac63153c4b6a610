"""Data of an elastic job whose ranks change, with ranks that are threads."""

from __future__ import annotations

import os
import threading
import time

import pytest
from data_sets import tfrecord
from events import MINUTE
from thread_ranks import on_ranks, succeeded

import horovod_opt.io as hio
from horovod_opt.io import step_source
from horovod_opt.io.errors import InputError
from horovod_opt.io.job import nodes
from horovod_opt.io.node_reader import reader_process
from horovod_opt.io.step_source import StepSource

COUNT = 60


@pytest.fixture
def ranks(monkeypatch):
    """Sets those of this thread."""
    local = threading.local()
    monkeypatch.setattr(step_source, "find", lambda: local.ranks)
    monkeypatch.setattr(nodes, "find",
                        lambda ranks: nodes.Node(tuple(range(ranks.size)), ranks.rank))
    return lambda communication: setattr(local, "ranks", communication)


@pytest.fixture
def pattern(tmp_path) -> str:
    return str(tfrecord(tmp_path / "a.tfrecord", [i.to_bytes(4, "little") for i in range(COUNT)]))


def take(data: hio.Data, source: StepSource, steps: int) -> list[int]:
    """Samples of the next steps."""
    numbers: list[int] = []
    for step in source.samples(source.begin()):
        numbers += step.samples.tolist()
        data.advance(step.info.epoch, step.info.end)
        steps -= 1
        if not steps:
            break
    return numbers


def test_other_ranks_go_on_and_the_old_reader_ends(pattern, ranks):
    """Though one of the two ranks never leaves it, as if it had died."""
    before: list[list[int]] = [[], []]
    first: dict[int, tuple] = {}

    def of_two(communication) -> None:
        ranks(communication)
        data = hio.open(pattern, seed=1, chunk_samples=4, elastic=True)
        source = StepSource(data, 5, None, "spread")
        before[communication.rank] = take(data, source, 2)
        first[communication.rank] = data, source

    succeeded(on_ranks(2, of_two))
    data, old = first[0]
    data.part()
    assert old._reader.wait(0)
    with pytest.raises(InputError, match="made for other ranks"):
        old.begin()

    def alone(communication) -> list[int]:
        ranks(communication)
        return take(data, StepSource(data, 5, None, "spread"), 100)

    after, = succeeded(on_ranks(1, alone))
    assert len(after) == COUNT - 20 and len(before[0]) == len(before[1]) == 10
    assert sorted(before[0] + before[1] + after) == list(range(COUNT))
    assert (data.epoch, data.position) == (1, 0)
    first[1][0].close()
    data.close()


def test_ranks_that_have_opened_other_data_say_so(pattern, ranks):
    def open_data(communication) -> None:
        ranks(communication)
        with hio.open(pattern, seed=communication.rank, elastic=True) as data:
            StepSource(data, 5, None, "spread")

    results = on_ranks(2, open_data)
    assert [type(result) for result in results] == [InputError] * 2
    assert "seed differs between the ranks: 0 on rank 0; 1 on rank 1" in str(results[0])


@pytest.mark.parametrize("order", ["window", "ordered"])
def test_what_is_kept_stays_and_what_another_node_kept_is_read_again(
        pattern, ranks, monkeypatch, order):
    """Each rank is a node; one of the two is left."""
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", False)
    monkeypatch.setattr(nodes, "find", lambda ranks: nodes.Node((ranks.rank,), 0))
    opened: dict[int, hio.Data] = {}
    kept = [0, 0]
    through = threading.Barrier(2)

    def of_two(communication) -> list[int]:
        ranks(communication)
        data = hio.open(pattern, seed=1, chunk_samples=4, elastic=True, cache="1MiB", order=order)
        opened[communication.rank] = data
        source = StepSource(data, 5, None, "spread")
        # Threads that keep chunks may come later than an epoch's end.
        while True:
            numbers = take(data, source, 100)
            kept[communication.rank] = data.stats()["kept_bytes"]
            through.wait(MINUTE)
            if all(kept):
                return numbers
            through.wait(MINUTE)

    assert sorted(sum(succeeded(on_ranks(2, of_two)), [])) == list(range(COUNT))
    data = opened[0]
    opened[1].close()
    memory, kept_before = data.job_memory, data.stats()["kept_bytes"]
    assert 0 < kept_before < os.path.getsize(pattern)
    data.part()

    def alone(communication) -> list[int]:
        ranks(communication)
        source = StepSource(data, 5, None, "spread")
        epochs, until = [], time.monotonic() + MINUTE
        while len(epochs) < 3 or (
                data.stats()["kept_bytes"] <= kept_before and time.monotonic() < until):
            epochs.append(sorted(take(data, source, 100)))
        return epochs

    epochs, = succeeded(on_ranks(1, alone))
    assert epochs == len(epochs) * [list(range(COUNT))]
    assert data.job_memory is memory
    stats = data.stats()
    assert stats["kept_bytes"] > kept_before
    assert stats["node_bytes_read"] <= os.path.getsize(pattern)
    data.close()
