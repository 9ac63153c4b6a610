"""A rank that waits for long says for whom, and why."""

from __future__ import annotations

import re
import threading
import uuid

import pytest
from data_sets import tfrecord
from events import MINUTE
from thread_ranks import in_job, succeeded

import horovod_opt.io as hio
from horovod_opt.io.job import attendance, patience
from horovod_opt.io.node_reader import node_cache, reader_process


@pytest.fixture
def path(tmp_path):
    path = tfrecord(tmp_path / "a.tfrecord", [bytes([i]) * 40_000 for i in range(60)])
    hio.open(path).close()
    return path


class Ear:
    """Hears what is said of waits: on a busy machine also of others than a test is about."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._heard = threading.Condition()

    def __call__(self, text: str) -> None:
        with self._heard:
            self.lines.append(text)
            self._heard.notify_all()

    def wait(self, pattern: str) -> None:
        """Until a line has begun so."""
        with self._heard:
            assert self._heard.wait_for(lambda: self.has(pattern), MINUTE), self.lines

    def has(self, pattern: str) -> bool:
        return any(re.match(pattern, line) for line in self.lines)


@pytest.fixture
def ear(monkeypatch) -> Ear:
    ear = Ear()
    for module in (patience, attendance):
        monkeypatch.setattr(module, "say", ear)
    # Of a job with one node, which is no other test's.
    monkeypatch.setenv("PMIX_NAMESPACE", uuid.uuid4().hex)
    monkeypatch.setenv("SLURM_STEP_NUM_NODES", "1")
    monkeypatch.delenv("HOROVOD_GLOO_RENDEZVOUS_ADDR", raising=False)
    monkeypatch.setattr(patience, "SECONDS", 0.2)
    monkeypatch.setattr(node_cache, "PATIENCE_MS", 50)
    return ear


BEHIND = (r"rank 0 has waited for .*rank 1 is \d+ steps behind, and what they have still to take "
          "may fill memory=; remedy: loops")


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("place, what", [
    ("open", "opens .*a.tfrecord"), ("make", "makes a loader of "),
    ("loop", "begins a loop over a loader of ")])
def test_who_comes_late_is_waited_for_aloud(path, ear, ranks, place, what):
    last = ranks - 1
    said = (f"rank 0 of {ranks} has waited for 0 s for rank {last}, as it {what}.*: every rank has "
            "to do so; remedy: the same calls on all ranks")

    def run(open_data, rank):
        def meet_at(here: str) -> None:
            if place == here and rank == last:
                ear.wait(said)

        meet_at("open")
        with open_data(path) as data:
            meet_at("make")
            loader = hio.torch.loader(data, 4, epochs=1)
            meet_at("loop")
            return sum(map(len, loader))

    assert sum(succeeded(in_job(ranks, run))) == 60


@pytest.mark.parametrize("ranks", [2, 3])
def test_who_is_still_at_work_is_named(path, ear, ranks):
    """As in a function of the user's that does not end, or on storage that does not answer."""
    said = (rf"rank 1 of {ranks} has waited for \d+ s for rank 0, still at work, as it opens "
            r".*a\.tfrecord'?: all go on together; remedy, if that does not end")

    def run(open_data, rank):
        def choose(table: hio.SampleTable) -> range:
            if rank == 0:
                ear.wait(said)
            return range(len(table))

        with open_data(path, choose=choose) as data:
            return len(data)

    assert succeeded(in_job(ranks, run)) == [60] * ranks


def test_an_evaluation_on_one_rank_says_who_is_behind(path, ear, monkeypatch):
    """The reader's memory is full of what rank 1 has not taken."""
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", False)

    def run(open_data, rank):
        with open_data(path, shuffle=False, memory=400_000, chunk_samples=1) as data:
            loop = iter(hio.torch.loader(data, 1, prefetch=0, epochs=1))
            taken = [next(loop)]
            if rank == 1:
                ear.wait(BEHIND)
            return len(taken + list(loop))

    assert succeeded(in_job(2, run)) == [30, 30]


def test_so_does_one_that_tensorflow_waits_for(path, ear, monkeypatch, source):
    """Without Python's lock, in the kernel, or with it."""
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", False)

    def run(open_data, rank):
        with open_data(path, shuffle=False, memory=400_000, chunk_samples=1) as data:
            loop = iter(hio.tensorflow.dataset(data, 1, epochs=1))
            taken = [next(loop)]
            if rank == 1:
                ear.wait(BEHIND)
            return len(taken + list(loop))

    assert succeeded(in_job(2, run)) == [30, 30]


def test_nobody_is_behind_slow_storage(path, ear, monkeypatch):
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", False)
    original = reader_process.NodeCache.add

    def add(*arguments) -> None:
        ear.wait("rank 0 has waited for .*no rank is behind, so the storage is")
        original(*arguments)

    monkeypatch.setattr(reader_process.NodeCache, "add", add)
    with hio.open(path) as data:
        assert sum(map(len, hio.torch.loader(data, 4, epochs=1))) == 60


def test_who_does_not_wait_for_long_says_nothing(path, ear, monkeypatch):
    monkeypatch.setattr(patience, "SECONDS", MINUTE)
    assert succeeded(in_job(2, lambda open_data, rank: sum(map(len, hio.torch.loader(
        open_data(path), 4, epochs=1))))) == [30, 30]
    assert ear.lines == []
