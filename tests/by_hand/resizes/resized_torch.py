"""The network in PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import horovod.torch as hvd
import numpy as np
import torch

import horovod_opt.io as hio

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)


def state(**rest: object) -> hvd.elastic.TorchState:
    global optimizer
    optimizer = hvd.DistributedOptimizer(
        optimizer, named_parameters=model.named_parameters(), op=hvd.Sum)
    return hvd.elastic.TorchState(model, optimizer, **rest)


def batches(data: hio.Data, size: int, decode: Callable) -> Iterator[tuple]:
    """Of the rest of an epoch: numbers, features, classes, and where they are."""
    loader = hio.torch.loader(data, global_batch_size=size, with_info=True,
                              decode=lambda sample: decode(bytes(sample.data)))
    for (numbers, features, classes), info in loader:
        yield numbers.numpy(), features, classes, info


def step(features: torch.Tensor, classes: torch.Tensor, of_all: int) -> None:
    """On this rank's part of a batch of so many samples."""
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(features), classes, reduction="sum") / of_all
    loss.backward()
    optimizer.step()


def total(counts: np.ndarray) -> np.ndarray:
    return hvd.allreduce(torch.from_numpy(counts), op=hvd.Sum, name="seen").numpy()


def save(path: Path) -> None:
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


def load(path: Path) -> None:
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])


def loss(features: np.ndarray, classes: np.ndarray) -> float:
    with torch.no_grad():
        scores = model(torch.from_numpy(features))
        return float(torch.nn.functional.cross_entropy(scores, torch.from_numpy(classes)))
