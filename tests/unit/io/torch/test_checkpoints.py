"""A checkpoint has the position in the data beside the model's and the optimizer's state."""

from __future__ import annotations

from pathlib import Path

import pytest
from data_sets import tfrecord

torch = pytest.importorskip("torch")

import horovod_opt.io as hio

COUNT, EPOCHS, ACCUMULATED = 90, 2, 3


@pytest.fixture
def tfrecords(tmp_path) -> str:
    tfrecord(tmp_path / "a.tfrecord", [i.to_bytes(4, "little") for i in range(COUNT)])
    return str(tmp_path / "a.tfrecord")


def decode(sample: hio.Sample) -> torch.Tensor:
    return torch.tensor([int.from_bytes(sample.data[:4], "little") / COUNT])


def trained(pattern: str, checkpoint: Path, batches: float = float("inf"), **loader) -> list[float]:
    """The weights after so many more batches, or at the end; each update of three batches is
    followed by a checkpoint, and begins with one if there is any."""
    torch.manual_seed(3)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with hio.open(pattern, seed=5, chunk_samples=8) as data:
        if checkpoint.exists():
            state = torch.load(checkpoint)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            data.load_state_dict(state["data"])
        ready, count = hio.torch.loader(data, 5, decode=decode, **loader), 0
        while data.epoch < EPOCHS:
            for batch in ready:
                model(batch).square().mean().backward()
                count += 1
                if count % ACCUMULATED == 0:
                    optimizer.step()
                    optimizer.zero_grad()
                    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                                "data": data.state_dict()}, checkpoint)
                if count >= batches:
                    return []
        return [weight.item() for weight in model.parameters()]


@pytest.mark.parametrize("loader", [{"prefetch": 4}, {"workers": 1, "prefetch": 2}],
                         ids=["threads", "a worker"])
def test_a_resumed_training_is_the_uninterrupted_one(tfrecords, tmp_path, loader):
    """It was stopped within an accumulation, which then begins anew."""
    weights = trained(tfrecords, tmp_path / "whole.pt")
    checkpoint = tmp_path / "kept.pt"
    # Of the second epoch, too: 18 are one.
    assert trained(tfrecords, checkpoint, 22, **loader) == []
    assert torch.load(checkpoint)["data"]["position"] == 15
    assert trained(tfrecords, checkpoint, **loader) == weights
