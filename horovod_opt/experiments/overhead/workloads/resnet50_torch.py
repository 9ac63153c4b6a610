"""Training ResNet50 with PyTorch as resnet50.py does with TensorFlow: images/s of all ranks.

With --ddp torch.nn.parallel.DistributedDataParallel (Gloo) reduces the gradients, not Horovod.
"""

import torch
from rank import Rank
from torch import nn

BATCH = 4
PIXELS = 96
LEARNING_RATE = 0.01
STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # width, blocks; He et al. 2015, table 1
EXPANSION = 4


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False),
            nn.BatchNorm2d(outputs)]


class Bottleneck(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__()
        outputs = EXPANSION * width
        self.residual = nn.Sequential(
            *convolution(inputs, width, 1), nn.ReLU(inplace=True),
            *convolution(width, width, 3, stride), nn.ReLU(inplace=True),
            *convolution(width, outputs, 1))
        changes = stride > 1 or inputs != outputs
        self.shortcut = nn.Sequential(*convolution(inputs, outputs, 1, stride) if changes else ())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.residual(images) + self.shortcut(images))


def resnet50(classes: int = 1000) -> nn.Module:
    """(batch, 3, height, width) to (batch, classes); 25.6 million weights."""
    layers = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for number, (width, blocks) in enumerate(STAGES):
        for block in range(blocks):
            layers.append(Bottleneck(inputs, width, 2 if number > 0 and block == 0 else 1))
            inputs = EXPANSION * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))


def main() -> None:
    rank = Rank("resnet50_torch", "torch", flags=("ddp", "static-graph"))
    torch.set_num_threads(1)
    rank.init()

    torch.manual_seed(0)
    model = resnet50()
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    if rank.flags["ddp"]:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{rank.rendezvous / 'ddp'}", rank=rank.rank,
            world_size=rank.size)
        model = nn.parallel.DistributedDataParallel(
            model, static_graph=rank.flags["static-graph"])
    elif rank.hvd:
        optimizer = rank.hvd.DistributedOptimizer(
            optimizer, named_parameters=model.named_parameters())
    own = torch.Generator().manual_seed(rank.rank)
    images = torch.rand(BATCH, 3, PIXELS, PIXELS, generator=own)
    labels = torch.arange(BATCH)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    seconds = rank.seconds_per_step(step, warm_up=8)
    rank.report({"images_per_second": rank.size * BATCH / seconds})


if __name__ == "__main__":
    main()
