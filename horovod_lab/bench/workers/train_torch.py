"""Training a ResNet with PyTorch as train.py does with TensorFlow: images/s of all ranks.

With --ddp torch.nn.parallel.DistributedDataParallel (Gloo) reduces the gradients, not Horovod.
"""

from __future__ import annotations

import argparse

import torch
import training
from rank import Rank
from torch import nn
from torch_models import NETWORKS
from training import LEARNING_RATE, WARM_UP


def parser() -> argparse.ArgumentParser:
    parser = training.parser(__doc__, NETWORKS, pixels=224)
    parser.add_argument("--ddp", action="store_true")
    parser.add_argument("--static-graph", action="store_true", help="of --ddp")
    return parser


def main() -> None:
    rank = Rank("train_torch", "torch", parser())
    options = rank.options
    torch.set_num_threads(options.threads)
    rank.init()
    device = torch.device("cpu")
    if torch.cuda.is_available():
        device = torch.device("cuda", rank.local_rank % torch.cuda.device_count())
        torch.cuda.set_device(device)

    torch.manual_seed(0)
    model = NETWORKS[options.model]().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    if options.ddp:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{rank.rendezvous / 'ddp'}", rank=rank.rank,
            world_size=rank.size)
        model = nn.parallel.DistributedDataParallel(model, static_graph=options.static_graph)
    elif rank.hvd:
        optimizer = rank.hvd.DistributedOptimizer(
            optimizer, named_parameters=model.named_parameters())
    generator = torch.Generator().manual_seed(rank.rank)
    images = torch.rand(
        options.batch, 3, options.pixels, options.pixels, generator=generator).to(device)
    labels = torch.arange(options.batch, device=device)

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    timing = rank.measure(step, WARM_UP)
    training.report(rank, timing)


if __name__ == "__main__":
    main()
