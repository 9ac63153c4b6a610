"""Batches in pinned memory, with PyTorch's functions for it replaced: no GPU is needed."""

from __future__ import annotations

import threading
import warnings
from typing import NamedTuple

import pytest
import torch
from data_sets import tfrecord
from torch.utils.data import default_collate

import horovod_opt.io as hio
from horovod_opt.io.batch import BatchInfo
from horovod_opt.io.torch import pinning
from horovod_opt.io.torch.batch_builder import Batch

RANKS_GPU = 3


class Gpus:
    """What PyTorch would know of GPUs. `pinned`: tensors by the address of their data."""

    def __init__(self) -> None:
        self.of_thread = threading.local()
        self.pinned: set[int] = set()
        self.copies = 0
        self.threads: set[str] = set()

    def current_device(self) -> int:
        return getattr(self.of_thread, "device", 0)

    def set_device(self, device: int) -> None:
        self.of_thread.device = device

    def keep(self, tensor: torch.Tensor) -> torch.Tensor:
        assert self.current_device() == RANKS_GPU  # else it would take memory of GPU 0
        self.pinned.add(tensor.data_ptr())
        self.threads.add(threading.current_thread().name)
        return tensor

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() in self.pinned:
            return tensor
        self.copies += 1
        return self.keep(tensor.clone())


@pytest.fixture
def gpus(monkeypatch) -> Gpus:
    gpus = Gpus()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", gpus.current_device)
    monkeypatch.setattr(torch.cuda, "set_device", gpus.set_device)
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: gpus.pin(tensor))
    monkeypatch.setattr(pinning, "empty_pinned",
                        lambda shape, dtype: gpus.keep(torch.empty(shape, dtype=dtype)))
    gpus.set_device(RANKS_GPU)
    return gpus


@pytest.fixture
def numbers(tmp_path) -> str:
    tfrecord(tmp_path / "numbers.tfrecord", [bytes([i] * 8) for i in range(50)])
    return str(tmp_path / "*.tfrecord")


def decode(sample: hio.Sample) -> dict:
    return {"bytes": torch.frombuffer(bytearray(sample.data), dtype=torch.uint8),
            "number": sample.data[0]}


class Pair(NamedTuple):
    first: torch.Tensor
    second: list[torch.Tensor]


def decode_batch(samples: hio.SampleBatch) -> Pair:
    stacked = torch.from_numpy(samples.stacked())
    return Pair(stacked, [stacked + 1])


def epoch(path: str, **options) -> list:
    with hio.open(path, seed=5) as data:
        return [*hio.torch.loader(data, 8, epochs=1, **options)]


@pytest.mark.parametrize("options", [{}, {"threads": 3}, {"prefetch": 0}])
def test_the_default_batch_is_made_in_pinned_memory(numbers, gpus, options):
    expected = epoch(numbers, decode=decode, **options)
    assert not gpus.pinned
    batches = epoch(numbers, decode=decode, pin_memory=True, **options)
    assert len(batches) == len(expected) == 7
    for batch, other in zip(batches, expected):
        assert type(batch) is type(other)
        for name in ("bytes", "number"):
            assert torch.equal(batch[name], other[name])
            assert batch[name].data_ptr() in gpus.pinned
    # The numbers, of which default_collate makes a tensor itself, are small.
    assert gpus.copies == len(batches)
    assert ("hio-decode" in gpus.threads) == (options != {"prefetch": 0})


def test_what_decode_batch_and_collate_make_is_copied_to_pinned_memory(numbers, gpus):
    for batch in epoch(numbers, decode_batch=decode_batch, pin_memory=True):
        assert type(batch) is Pair
        assert {batch.first.data_ptr(), batch.second[0].data_ptr()} <= gpus.pinned
        assert torch.equal(batch.second[0], batch.first + 1)
    for batch in epoch(numbers, decode=decode, pin_memory=True,
                       collate=lambda samples: [sample["bytes"] for sample in samples]):
        assert all(tensor.data_ptr() in gpus.pinned for tensor in batch)


def test_a_thread_pins_for_the_gpu_that_the_training_has_chosen(numbers, gpus):
    """Gpus.keep() looks; a new thread begins with GPU 0."""
    epoch(numbers, decode=decode, pin_memory=True)
    assert gpus.threads and gpus.current_device() == RANKS_GPU


def test_small_batches_without_decode_are_pinned_ahead(numbers, gpus):
    with hio.open(numbers) as data:
        loader = hio.torch.loader(data, 8, pin_memory=True)
        assert loader._prefetch > 0
        assert hio.torch.loader(data, 8)._prefetch == 0


@pytest.mark.parametrize("workers", [0, 1])
def test_without_a_gpu_there_is_a_warning_and_ordinary_memory(numbers, workers, monkeypatch):
    expected = epoch(numbers, decode=decode)
    with pytest.warns(UserWarning, match="'pin_memory' argument is set as true but no accelerator"):
        batches = epoch(numbers, decode=decode, pin_memory=True, workers=workers)
    assert all(torch.equal(batch["bytes"], other["bytes"])
               for batch, other in zip(batches, expected))
    assert not batches[0]["bytes"].is_pinned()


def test_the_warning_comes_once(numbers):
    with hio.open(numbers) as data, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = hio.torch.loader(data, 8, decode=decode, epochs=2, pin_memory=True)
        assert [len([*loader]) for _ in range(2)] == [7, 7]
    assert len([it for it in caught if "pin_memory" in str(it.message)]) == 1


def test_workers_batches_are_pinned_by_dataloader(numbers, gpus):
    with hio.open(numbers) as data:
        assert hio.torch.loader(data, 8, workers=1, pin_memory=True)._workers.pin_memory
        assert not hio.torch.loader(data, 8, workers=1)._workers.pin_memory
    # As its thread does with what a worker has made.
    info = BatchInfo(epoch=1, step=2, start=3, end=5, size=2, slots=2, weight=1.0)
    batch = pinning.pin_memory(Batch({"x": torch.ones(2)}, info))
    assert batch.info == info and batch.batch["x"].data_ptr() in gpus.pinned


@pytest.mark.parametrize("tensors", [
    [torch.ones(2), torch.ones(2, dtype=torch.int64)],  # promoted
    [torch.ones(2, requires_grad=True)] * 2])
def test_what_cannot_be_stacked_in_place_is_as_default_collate_has_it(tensors, gpus):
    stacked, expected = pinning.stack_pinned(tensors), default_collate(tensors)
    assert stacked.dtype == expected.dtype and torch.equal(stacked, expected)
    assert not gpus.pinned


def test_tensors_of_other_shapes_are_refused_as_by_default_collate(gpus):
    with pytest.raises(RuntimeError, match="equal size"):
        pinning.stack_pinned([torch.ones(2), torch.ones(3)])
