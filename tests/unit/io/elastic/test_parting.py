"""Data of an elastic job whose ranks change, with ranks that are threads."""

from __future__ import annotations

import threading

import pytest
from data_sets import tfrecord
from thread_ranks import on_ranks, succeeded

import horovod_opt.io as hio
from horovod_opt.io import reading as readings
from horovod_opt.io.errors import InputError
from horovod_opt.io.job import nodes
from horovod_opt.io.reading import Reading

COUNT = 60


@pytest.fixture
def ranks(monkeypatch):
    """Sets those of this thread."""
    local = threading.local()
    monkeypatch.setattr(readings, "find", lambda: local.ranks)
    monkeypatch.setattr(nodes, "find",
                        lambda ranks: nodes.Node(tuple(range(ranks.size)), ranks.rank))
    return lambda communication: setattr(local, "ranks", communication)


@pytest.fixture
def pattern(tmp_path) -> str:
    return str(tfrecord(tmp_path / "a.tfrecord", [i.to_bytes(4, "little") for i in range(COUNT)]))


def take(data: hio.Data, reading: Reading, steps: int) -> list[int]:
    """Samples of the next steps."""
    found: list[int] = []
    for step in reading.samples(reading.begin()):
        found += step.samples.tolist()
        data.advance(step.info.epoch, step.info.end)
        steps -= 1
        if not steps:
            break
    return found


def test_other_ranks_go_on_and_the_old_reader_ends(pattern, ranks):
    """Though one of the two ranks never leaves it, as if it had died."""
    before: list[list[int]] = [[], []]
    first: dict[int, tuple] = {}

    def of_two(communication) -> None:
        ranks(communication)
        data = hio.open(pattern, seed=1, chunk_samples=4, elastic=True)
        reading = Reading(data, 5, None, "spread")
        before[communication.rank] = take(data, reading, 2)
        first[communication.rank] = data, reading

    succeeded(on_ranks(2, of_two))
    data, old = first[0]
    data.part()
    assert old._reader.wait(0)
    with pytest.raises(InputError, match="made for other ranks"):
        old.begin()

    def alone(communication) -> list[int]:
        ranks(communication)
        return take(data, Reading(data, 5, None, "spread"), 100)

    after, = succeeded(on_ranks(1, alone))
    assert len(after) == COUNT - 20 and len(before[0]) == len(before[1]) == 10
    assert sorted(before[0] + before[1] + after) == list(range(COUNT))
    assert (data.epoch, data.position) == (1, 0)
    first[1][0].close()
    data.close()


def test_ranks_that_have_opened_other_data_say_so(pattern, ranks):
    def opened(communication) -> None:
        ranks(communication)
        with hio.open(pattern, seed=communication.rank, elastic=True) as data:
            Reading(data, 5, None, "spread")

    results = on_ranks(2, opened)
    assert [type(one) for one in results] == [InputError] * 2
    assert "seed differs between the ranks: 0 on rank 0; 1 on rank 1" in str(results[0])
