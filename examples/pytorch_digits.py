"""Train a small CNN on handwritten digits with Horovod and PyTorch.

    horovodrun -np 2 python examples/pytorch_digits.py
    HOROVOD_OPT_MODE=topo HOROVOD_OPT_STATS=1 horovodrun -np 2 python examples/pytorch_digits.py
"""

import argparse
import time

import digits
import horovod.torch as hvd
import numpy as np
import torch
from torch import nn


def network() -> nn.Module:
    """(batch, 1, 8, 8) pixels to (batch, 10) logits; 39,000 weights."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(4 * 4 * 32, 64), nn.ReLU(),
        nn.Linear(64, 10))


def as_tensors(images: np.ndarray, labels: np.ndarray, device: torch.device):
    return torch.from_numpy(images).unsqueeze(1).to(device), torch.from_numpy(labels).to(device)


def train(arguments: argparse.Namespace) -> None:
    """One rank; `arguments` are those of digits.parse_arguments()."""
    hvd.init()
    # So small a network gains nothing from more threads, and OpenMP's spin while they wait.
    torch.set_num_threads(1)
    gpus = torch.cuda.device_count()
    device = torch.device("cuda", hvd.local_rank() % gpus) if gpus else torch.device("cpu")
    data = digits.load()
    steps = digits.steps_per_epoch(len(data.train_images), arguments.batch_size, hvd.size())

    # Ranks start with different weights; the broadcast below makes them equal.
    torch.manual_seed(arguments.seed + hvd.rank())
    model = network().to(device)
    # An N times larger batch allows an N times larger step (Goyal et al., arXiv:1706.02677).
    learning_rate = arguments.learning_rate * hvd.size()
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)

    def train_step(images: torch.Tensor, labels: torch.Tensor) -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    @torch.no_grad()
    def test_accuracy() -> float:
        part = slice(hvd.rank(), None, hvd.size())
        images, labels = as_tensors(data.test_images[part], data.test_labels[part], device)
        correct = (model(images).argmax(dim=1) == labels).sum()
        return hvd.allreduce(correct, op=hvd.Sum).item() / len(data.test_images)

    start = time.perf_counter()
    with digits.Progress(hvd.rank(), arguments.epochs, steps) as progress:
        for epoch in range(arguments.epochs):
            losses = []
            for group in optimizer.param_groups:
                group["lr"] = digits.learning_rate(learning_rate, epoch, arguments.epochs)
            for images, labels in digits.batches(
                    data.train_images, data.train_labels, arguments.batch_size, epoch,
                    arguments.seed, hvd.rank(), hvd.size()):
                losses.append(train_step(*as_tensors(images, labels, device)))
                progress.step()
            accuracy = test_accuracy()
            loss = hvd.allreduce(torch.tensor(np.mean(losses)), op=hvd.Average).item()
            progress.epoch(epoch, loss, accuracy)
    seconds = time.perf_counter() - start

    weights = [tensor.cpu().numpy() for tensor in model.state_dict().values()]
    digests = hvd.allgather(torch.from_numpy(digits.digest(weights))).numpy()
    trained_on = arguments.epochs * steps * arguments.batch_size * hvd.size()
    if arguments.save and hvd.rank() == 0:
        torch.save(model.state_dict(), arguments.save)
    digits.finish(hvd.rank(), digests, accuracy, trained_on, seconds)


if __name__ == "__main__":
    train(digits.parse_arguments(__doc__.splitlines()[0], learning_rate=0.02))
