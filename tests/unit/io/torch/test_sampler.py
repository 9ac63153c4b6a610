"""PyTorch's DataLoader over a BatchSampler: the place is what the training has been given."""

from __future__ import annotations

import json

import pytest
import torch
from data_sets import tfrecord

import horovod_opt.io as hio

COUNT, BATCH = 100, 8


@pytest.fixture
def pattern(tmp_path) -> str:
    return str(tfrecord(tmp_path / "a.tfrecord", [i.to_bytes(4, "little") for i in range(COUNT)]))


def number(sample: hio.Sample) -> int:
    return int.from_bytes(sample.data, "little")


def loader_of(data: hio.Data, workers: int, **options):
    sampler = hio.torch.BatchSampler(data, BATCH)
    if workers:
        options.setdefault("multiprocessing_context", "fork")
    return torch.utils.data.DataLoader(hio.torch.Dataset(data, number), batch_sampler=sampler,
                                       num_workers=workers, **options)


KINDS = [(0, {}), (1, {}), (2, {"prefetch_factor": 4}), (2, {"persistent_workers": True})]


@pytest.mark.parametrize("workers, options", KINDS)
def test_the_place_is_what_was_handed_out(pattern, workers, options):
    with hio.open(pattern, seed=5, chunk_samples=4) as data:
        loader = loader_of(data, workers, **options)
        for epoch in range(2):
            taken = 0
            for batch in loader:
                taken += len(batch)
                assert (data.epoch, data.position) == divmod(epoch * COUNT + taken, COUNT)
            assert taken == COUNT


@pytest.mark.parametrize("workers, options", KINDS)
@pytest.mark.parametrize("batches, order", [
    (1, "window"), (5, "window"), (5, "ordered"), (11, "window"), (13, "window")])
def test_goes_on_where_the_state_was_saved(pattern, workers, options, batches, order):
    with hio.open(pattern, seed=5, chunk_samples=4, order=order) as data:
        loop = iter(loader_of(data, workers, **options))
        before = [next(loop).tolist() for _ in range(batches)]
        state = json.loads(json.dumps(data.state_dict()))
    with hio.open(pattern, seed=5, chunk_samples=4, order=order) as data:
        data.load_state_dict(state)
        rest = [batch.tolist() for batch in loader_of(data, workers)]
        if batches < 13:
            assert sorted(sum(before + rest, [])) == list(range(COUNT))
        else:
            assert sorted(sum(rest, [])) == list(range(COUNT))
        assert data.state_dict()["epoch"] == state["epoch"] + 1


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loop_that_was_left_early_begins_anew(pattern, workers):
    with hio.open(pattern, seed=5, chunk_samples=4) as data:
        loader = loader_of(data, workers)
        for step, _ in enumerate(loader):
            if step == 10:
                break
        assert (data.epoch, data.position) == (0, 88)
        assert sorted(torch.cat(list(loader)).tolist()) == list(range(COUNT))
        assert (data.epoch, data.position) == (1, 0)


class Wrapped:
    """Another package's sampler around ours, as accelerate's."""

    def __init__(self, sampler):
        self._sampler = sampler

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self):
        yield from self._sampler


@pytest.mark.parametrize("workers", [0, 1])
def test_where_the_place_cannot_be_known_it_is_said(pattern, capfd, workers):
    with hio.open(pattern, seed=5, chunk_samples=4) as data:
        sampler = hio.torch.BatchSampler(data, BATCH)
        loader = torch.utils.data.DataLoader(
            hio.torch.Dataset(data, number), batch_sampler=Wrapped(sampler), num_workers=workers,
            multiprocessing_context="fork" if workers else None)
        for step, _ in enumerate(loader):
            if workers:
                assert data.position == (94 if step == 12 else 8 * step)
            sampler.taken(step + 1)
            assert (data.epoch, data.position) == divmod(min(8 * (step + 1), 100), 100) or step > 10
        assert (data.epoch, data.position) == (1, 0)
        for epoch in (1, 2):  # nobody says anything
            assert sorted(torch.cat(list(loader)).tolist()) == list(range(COUNT))
            assert data.epoch == epoch + (workers == 0)
        assert capfd.readouterr().err.count("remedy: call taken(batches)") == 1
        with pytest.raises(hio.InputError, match=r"taken\(14\) of a loop of 13; remedy"):
            sampler.taken(14)
