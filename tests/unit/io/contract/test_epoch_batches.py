"""Loops of k batches: they follow each other over the ends of epochs, whoever reads, and a state
that was saved within one goes on there. (test_exactly_once.py draws them.)"""

from __future__ import annotations

import json

import pytest
from data_sets import tfrecord
from thread_ranks import in_job, succeeded

import horovod_opt.io as hio
from horovod_opt.io.decoder import read_steps
from horovod_opt.io.node_reader import reader_process
from horovod_opt.io.step_source import StepSource

torch = pytest.importorskip("torch")

SAMPLES, BATCH, LOOP = 50, 4, 7
KINDS = ["loader", "workers", "sampler", "sampler-workers", "samples-unseen"]


@pytest.fixture
def path(tmp_path):
    return tfrecord(tmp_path / "a.tfrecord", [bytes([i]) * 100 for i in range(SAMPLES)])


def number(sample: hio.Sample) -> int:
    return sample.number


def loader_of(data: hio.Data, kind: str, **options):
    if not kind.startswith("sampl"):
        return hio.torch.loader(data, BATCH, decode=number, collate=list, epoch_batches=LOOP,
                                workers=int(kind == "workers"), **options)
    sampler = hio.torch.BatchSampler(data, BATCH, epoch_batches=LOOP, **options)
    return torch.utils.data.DataLoader(
        hio.torch.Dataset(data, number), collate_fn=list, num_workers=int("-" in kind),
        batch_sampler=iter_of(sampler) if "unseen" in kind else sampler,
        multiprocessing_context="fork" if "-" in kind else None)


class iter_of:  # as other packages stand between a DataLoader and its sampler
    def __init__(self, sampler):
        self.sampler = sampler

    def __len__(self):
        return len(self.sampler)

    def __iter__(self):
        yield from iter(self.sampler)


def epochs_of(batches, ranks: int):
    """Sorted numbers of the samples of each epoch that the batches of all ranks are through."""
    taken = [number for step in zip(*batches) for share in step for number in share]
    return [sorted(taken[begin:begin + SAMPLES])
            for begin in range(0, len(taken) - SAMPLES + 1, SAMPLES)]


@pytest.mark.parametrize("kind, ranks", [
    *((kind, 2) for kind in KINDS), ("loader", 1), ("loader", 3), ("sampler-workers", 1)])
def test_loops_follow_each_other_over_the_ends_of_epochs(path, ranks, kind):
    def run(open_data, rank):
        with open_data(path, seed=2, chunk_samples=4) as data:
            loader = loader_of(data, kind)
            assert len(loader) == LOOP
            loops = [list(loader) for _ in range(6)]
            assert [len(loop) for loop in loops] == [LOOP] * 6
            return sum(loops, [])

    batches = succeeded(in_job(ranks, run))
    epochs = epochs_of(batches, ranks)
    assert len(epochs) >= 3 and all(epoch == list(range(SAMPLES)) for epoch in epochs)


@pytest.mark.parametrize("kind, ranks, others, stop", [
    ("loader", 1, 2, 3), ("loader", 2, 3, 7), ("loader", 3, 1, 16), ("workers", 2, 1, 16),
    ("sampler", 3, 2, 3), ("sampler-workers", 2, 3, 16)])
def test_a_state_goes_on_in_its_loop(path, ranks, others, kind, stop):
    """With the same ranks the loop has what is left of it; with others each sample comes once."""
    def first(open_data, rank):
        with open_data(path, seed=2, chunk_samples=4) as data:
            loader, batches = loader_of(data, kind), []
            while True:
                for batch in loader:
                    batches.append(batch)
                    if len(batches) == stop:
                        return batches, json.dumps(data.state_dict())

    before = succeeded(in_job(ranks, first))

    def then(size):
        def run(open_data, rank):
            with open_data(path, seed=2, chunk_samples=4) as data:
                data.load_state_dict(json.loads(before[0][1]))
                loader = loader_of(data, kind)
                rest = list(loader)
                return rest, list(loader)
        return succeeded(in_job(size, run))

    assert [len(rest) for rest, _ in then(ranks)] == [LOOP - stop % LOOP] * ranks
    taken = [number for step in zip(*(batches for batches, _ in before)) for share in step
             for number in share]
    results = then(others)
    assert {len(whole) for _, whole in results} == {LOOP}
    taken += [number for step in zip(*(rest + whole for rest, whole in results))
              for share in step for number in share]
    assert sorted(taken[:SAMPLES]) == list(range(SAMPLES))


def test_a_loop_that_was_left_goes_on_behind_what_was_taken(path):
    with hio.open(path, seed=2, chunk_samples=4) as data:
        loader = hio.torch.loader(data, BATCH, decode=number, collate=list, epoch_batches=LOOP)
        taken = []
        for stop in (1, 4, 2, 7, 3):
            for step, batch in enumerate(loader):
                taken += batch
                if step == stop - 1:
                    break
    assert sorted(taken[:SAMPLES]) == list(range(SAMPLES))


@pytest.mark.parametrize("last", ["drop", "mask"])
def test_a_loop_longer_than_epochs(path, last):
    with hio.open(path, seed=2, chunk_samples=4) as data:
        loader = hio.torch.loader(data, 8, decode=number, collate=list, epoch_batches=40,
                                  epochs=2, last=last, with_info=True)
        for first in (0, 40):
            infos = [info for _, info in loader]
            steps = 6 if last == "drop" else 7
            assert [(info.epoch, info.step) for info in infos] == [
                divmod(step, steps) for step in range(first, first + 40)]
        with pytest.raises(hio.InputError, match="epochs=2, and they are over"):
            list(loader)


def test_nothing_is_read_twice_where_loops_end(path, monkeypatch):
    monkeypatch.setattr(reader_process, "LEAVE_CACHED", False)
    read = []
    for loop in (None, 1):
        with hio.open(path, seed=2, chunk_samples=4, window=4, shards=1, threads=1) as data:
            source = StepSource(data, 2, None, "spread", epochs=loop and 25, epoch_batches=loop)
            taken = 0
            while taken < 25:
                for steps in source.step_groups(source.begin()):
                    for step in read_steps(data, source.member, steps):
                        data.advance(step.info.epoch, step.info.end)
                        taken += 1
            read.append(source.member.reader_stats().loads)
    # It may have begun with the next epoch.
    assert 13 <= read[1] <= read[0] + 13


@pytest.mark.parametrize("given", [0, -1, 2.5, True, "7"])
def test_what_is_no_number_of_batches_is_refused(path, given):
    with hio.open(path) as data, pytest.raises(hio.InputError, match="epoch_batches=.*; remedy"):
        hio.torch.loader(data, 4, epoch_batches=given)


@pytest.mark.parametrize("more", [0, 1, 10**15])
def test_a_loop_of_too_many_epochs_is_refused(path, more):
    """Before anything of it is computed."""
    most = 1000 * 25
    with hio.open(path) as data:
        if not more:
            assert len(hio.torch.loader(data, 2, epoch_batches=most)) == most
            return
        with pytest.raises(hio.InputError,
                           match=f"epoch_batches={most + more} .*remedy: at most {most},"):
            hio.torch.loader(data, 2, epoch_batches=most + more)


def test_ranks_have_the_same(path):
    def run(open_data, rank):
        with open_data(path) as data:
            hio.torch.loader(data, 4, epoch_batches=5 + rank)

    results = in_job(2, run)
    assert {type(result) for result in results} == {hio.InputError}
    assert "epoch_batches" in str(results[0]) and str(results[0]) == str(results[1])
