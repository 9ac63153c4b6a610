"""ResNets for PyTorch: He et al., 2016, doi:10.1109/CVPR.2016.90, table 1.

Of (batch, 3, height, width) to (batch, 1000), logits; the stride of a bottleneck is in its 3x3
convolution.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

CLASSES = 1000
WIDTHS = (64, 128, 256, 512)


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False),
            nn.BatchNorm2d(outputs)]


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int, layers: list[nn.Module]):
        super().__init__()
        self.residual = nn.Sequential(*layers)
        changes = stride > 1 or inputs != outputs
        self.shortcut = nn.Sequential(*convolution(inputs, outputs, 1, stride) if changes else ())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.residual(images) + self.shortcut(images))


class Basic(Residual):
    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__(inputs, width, stride, [
            *convolution(inputs, width, 3, stride), nn.ReLU(inplace=True),
            *convolution(width, width, 3)])


class Bottleneck(Residual):
    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int):
        super().__init__(inputs, self.expansion * width, stride, [
            *convolution(inputs, width, 1), nn.ReLU(inplace=True),
            *convolution(width, width, 3, stride), nn.ReLU(inplace=True),
            *convolution(width, self.expansion * width, 1)])


def resnet(block: type[Basic] | type[Bottleneck], *blocks: int) -> nn.Module:
    """`blocks` are those of each of the four stages."""
    layers = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, (width, count) in enumerate(zip(WIDTHS, blocks)):
        for number in range(count):
            layers.append(block(inputs, width, 2 if stage > 0 and number == 0 else 1))
            inputs = block.expansion * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(inputs, CLASSES))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "ResNet18": partial(resnet, Basic, 2, 2, 2, 2),
    "ResNet34": partial(resnet, Basic, 3, 4, 6, 3),
    "ResNet50": partial(resnet, Bottleneck, 3, 4, 6, 3),
    "ResNet101": partial(resnet, Bottleneck, 3, 4, 23, 3),
    "ResNet152": partial(resnet, Bottleneck, 3, 8, 36, 3),
}
