"""Samples that decode leaves out, by hio.Skip or by what it raises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from data_sets import tfrecord
from thread_ranks import in_job, succeeded
from torch.utils.data import DataLoader

import horovod_opt.io as hio

COUNT = 60


@pytest.fixture(autouse=True)
def _no_wait_for_workers(monkeypatch):
    """After an error PyTorch gives each worker of a DataLoader 5 s to end by itself, and none
    does."""
    monkeypatch.setattr(torch.utils.data._utils, "MP_STATUS_CHECK_INTERVAL", 0.5)


@pytest.fixture
def path(tmp_path) -> Path:
    return tfrecord(tmp_path / "a.tfrecord", [bytes([i]) for i in range(COUNT)])


def skipping(sample: hio.Sample) -> int:
    if sample.data[0] % 20 == 7:
        raise hio.Skip("not wanted")
    return sample.data[0]


def failing(sample: hio.Sample) -> int:
    if sample.data[0] % 20 == 7:
        raise OSError("cannot identify image file")  # as PIL says it, without a number
    return sample.data[0]


BAD = [7, 27, 47]
GOOD = [i for i in range(COUNT) if i not in BAD]


def by_loader(data: hio.Data, decode, **options) -> list[int]:
    batches = hio.torch.loader(data, 8, decode=decode, collate=list, epochs=1, **options)
    return [sample for batch in batches for sample in batch]


def by_dataloader(data: hio.Data, decode, workers: int) -> list[int]:
    batches = DataLoader(hio.torch.Dataset(data, decode), num_workers=workers, collate_fn=list,
                         batch_sampler=hio.torch.BatchSampler(data, 8, epochs=1))
    return [sample for batch in batches for sample in batch]


WAYS = {"threads": by_loader, "pool": lambda data, decode: by_loader(data, decode, threads=3),
        "workers": lambda data, decode: by_loader(data, decode, workers=2),
        "DataLoader": lambda data, decode: by_dataloader(data, decode, 0),
        "DataLoader's workers": lambda data, decode: by_dataloader(data, decode, 2)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("decode, bad", [(skipping, "skip"), (skipping, "skip-all"),
                                         (failing, "skip-all")])
def test_what_is_left_out_is_counted_and_listed(path, way, decode, bad, capfd):
    with hio.open(path, seed=1, bad=bad) as data:
        assert sorted(WAYS[way](data, decode)) == GOOD
        assert data.holes == {0: BAD}
        state = json.loads(json.dumps(data.state_dict()))
    with hio.open(path, seed=1, bad=bad) as data:
        data.load_state_dict(state)
        assert sorted(WAYS[way](data, decode)) == GOOD
        assert data.holes == {0: BAD, 1: BAD}
    said = [line for line in capfd.readouterr().err.splitlines() if "left out as" in line]
    reason = "Skip: not wanted" if decode is skipping else "OSError: cannot identify image file"
    assert len(said) == 2 and all(
        "left out as not to be decoded: sample " in line and f" of {path}: {reason}; remedy" in line
        for line in said)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("decode, bad, text", [
    (skipping, "raise", "decoding sample .*: Skip: not wanted; remedy: bad='skip' of open"),
    (failing, "skip", "decoding sample .*: OSError: cannot identify .*; remedy: correct decode="),
    (failing, "raise", "decoding sample .*: OSError: cannot identify .*; remedy: correct decode=")])
def test_what_was_not_asked_for_is_an_error(path, way, decode, bad, text):
    with hio.open(path, bad=bad) as data:
        with pytest.raises(hio.DataError, match=text):
            WAYS[way](data, decode)


@pytest.mark.parametrize("error", [MemoryError(), OSError(24, "Too many open files")])
def test_a_lack_of_means_says_nothing_of_the_sample(path, error):
    def decode(sample: hio.Sample) -> int:
        raise error

    with hio.open(path, bad="skip-all") as data:
        with pytest.raises(hio.DataError, match=f"decoding sample .*: {type(error).__name__}"):
            by_loader(data, decode)
        assert data.holes == {}


def test_tensorflow_cannot_leave_out_what_it_decodes(path):
    pytest.importorskip("tensorflow")
    with hio.open(path, bad="skip-all") as data:
        with pytest.raises(hio.InputError, match='bad="skip-all" leaves out .*remedy: bad="skip"'):
            hio.tensorflow.dataset(data, 4, decode=lambda record: record)
        assert sum(len(batch) for batch in hio.tensorflow.dataset(data, 4, epochs=1)) == len(data)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_weights_are_of_the_samples_that_are_left(path, ranks):
    def train(open_data, rank):
        with open_data(path, seed=1, bad="skip") as data:
            rows = list(hio.torch.loader(data, 4, decode=skipping, collate=list, epochs=1,
                                         with_info=True))
            return rows, data.gather_holes()

    results = succeeded(in_job(ranks, train))
    assert sorted(number for rows, _ in results for batch, _ in rows for number in batch) == GOOD
    for step in zip(*(rows for rows, _ in results)):
        planned = step[0][1].end - step[0][1].start
        for batch, info in step:
            assert info.size == len(batch) and info.weight == len(batch) * ranks / planned
    assert [holes for _, holes in results] == [{0: BAD}] * ranks


def test_more_than_the_limit_end_the_job(path):
    def decode(sample: hio.Sample) -> int:
        raise hio.Skip("never")

    def train(open_data, rank):
        with open_data(path, bad="skip") as data:
            with pytest.raises(hio.DataError, match=r"\d+ samples of epoch 0 are not to be decoded,"
                                                    r" on this node, .* lets 10 be left out"):
                by_loader(data, decode)
            return True

    assert succeeded(in_job(3, train)) == [True] * 3


def test_one_sample_by_itself(path):
    with hio.open(path, bad="skip") as data:
        dataset = hio.torch.Dataset(data, skipping)
        assert dataset[6] == 6
        with pytest.raises(hio.DataError, match="sample 7 .* is left out: Skip: not wanted"):
            dataset[7]


def test_a_whole_batch_cannot_be_left_out(path):
    def decode_batch(samples: hio.SampleBatch) -> None:
        raise hio.Skip("all of it")

    with hio.open(path, bad="skip-all") as data:
        with pytest.raises(hio.DataError, match="decoding step 0 .*: Skip: all of it"):
            list(hio.torch.loader(data, 8, decode_batch=decode_batch))
