"""Random numbers of decode, and those of the training: neither changes the other's."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from data_sets import tfrecord

import horovod_opt.io as hio

COUNT = 60


@pytest.fixture
def pattern(tmp_path) -> str:
    return str(tfrecord(tmp_path / "a.tfrecord", [i.to_bytes(4, "little") for i in range(COUNT)]))


DRAWS = {"torch": lambda: float(torch.rand(())), "numpy": lambda: float(np.random.random()),
         "python": random.random}


def decode_by(kind: str):
    draw = DRAWS[kind]
    return lambda sample: (sample.number, draw())


def batches_by(kind: str):
    draw = DRAWS[kind]
    return lambda samples: [(int(number), draw()) for number in samples.numbers]


def own_loader(data: hio.Data, kind: str, **options):
    return hio.torch.loader(data, 8, decode=decode_by(kind), collate=list, **options)


def in_batches(data: hio.Data, kind: str, **options):
    return hio.torch.loader(data, 8, decode_batch=batches_by(kind), **options)


def torchs_loader(data: hio.Data, kind: str, workers: int = 0, context=None):
    return torch.utils.data.DataLoader(
        hio.torch.Dataset(data, decode_by(kind)), batch_sampler=hio.torch.BatchSampler(data, 8),
        collate_fn=list, num_workers=workers, multiprocessing_context=context)


def training(pattern: str, make, kind: str, epochs: int = 2, **options) -> tuple[list, list]:
    """What decode has drawn, by sample; and the training, beside it."""
    torch.manual_seed(7)
    np.random.seed(7)
    random.seed(7)
    decoded, own = [], []
    with hio.open(pattern, seed=1, chunk_samples=4) as data:
        loader = make(data, kind, **options)
        for _ in range(epochs):
            drawn = {}
            for batch in loader:
                drawn.update(batch)
                own += [draw() for draw in DRAWS.values() for _ in range(50)]
            decoded.append(drawn)
    return decoded, own


@pytest.mark.parametrize("kind", DRAWS)
@pytest.mark.parametrize("make", [own_loader, in_batches, torchs_loader])
def test_a_program_that_was_seeded_is_the_same_again(pattern, make, kind):
    decoded, own = training(pattern, make, kind)
    assert decoded[0] != decoded[1] and len(set(decoded[0].values())) >= COUNT / 8
    assert training(pattern, make, kind) == (decoded, own)
    assert training(pattern, make, kind, workers=2, context="fork") == (decoded, own)


@pytest.mark.parametrize("options", [{"prefetch": 0}, {"prefetch": 5}, {"threads": 3}])
def test_however_it_is_decoded(pattern, options):
    assert (training(pattern, own_loader, "torch", **options)
            == training(pattern, own_loader, "torch"))


def test_the_training_draws_as_if_nothing_was_decoded(pattern):
    _, own = training(pattern, own_loader, "torch")
    torch.manual_seed(7)
    np.random.seed(7)
    random.seed(7)
    assert own == [draw() for _ in range(len(own) // 150) for draw in DRAWS.values()
                   for _ in range(50)]


def test_what_draws_nothing_is_decoded_ahead(pattern, capfd):
    import threading

    threads = set()

    def decode(sample: hio.Sample) -> float:
        threads.add(threading.current_thread())
        return sample.random.random()

    with hio.open(pattern, seed=1) as data:
        list(hio.torch.loader(data, 8, decode=decode, collate=list))
    assert len(threads) == 2 and "remedy" not in capfd.readouterr().err
    with hio.open(pattern, seed=1) as data:
        list(own_loader(data, "numpy"))
    assert "remedy: draw from sample.random" in capfd.readouterr().err
