"""Images/s of ResNet50 in bfloat16 on images of hio.torch.loader, in ordinary and in pinned memory,
and on images that are there already. They are stored as bytes: nothing is decoded.

Arguments: device, images a batch, pixels, seconds of a measurement, rounds, workers.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import torch
from common import report
from torch_models import NETWORKS

import horovod_opt.io as hio

SYNTHETIC, WARM_UP, CLASSES, FILES = "synthetic", 5, 4, 1024

folder, kind = Path(sys.argv[1]), sys.argv[2]
batch, pixels = int(sys.argv[3]), int(sys.argv[4])
seconds, rounds, workers = float(sys.argv[5]), int(sys.argv[6]), int(sys.argv[7])
device = torch.device(kind)


def write_images() -> str:
    own = torch.Generator().manual_seed(0)
    for number in range(max(FILES if kind == "cuda" else 0, 4 * batch)):
        file = folder / "images" / str(number % CLASSES) / f"{number}.raw"
        file.parent.mkdir(parents=True, exist_ok=True)
        image = torch.randint(0, 256, (3 * pixels * pixels,), dtype=torch.uint8, generator=own)
        file.write_bytes(image.numpy().tobytes())
    return str(folder / "images")


def as_tensors(samples: hio.SampleBatch) -> tuple[torch.Tensor, torch.Tensor]:
    images = torch.from_numpy(samples.stacked()).view(-1, 3, pixels, pixels)
    return images, torch.from_numpy(samples.labels)


class Training:
    def __init__(self):
        torch.manual_seed(0)
        self.network = NETWORKS["ResNet50" if kind == "cuda" else "ResNet18"]().to(device)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1e-3)

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        images = images.to(device, non_blocking=True).float().div_(255)
        labels = labels.to(device, non_blocking=True)
        self.optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(self.network(images).float(), labels)
        loss.backward()
        self.optimizer.step()

    def rate(self, batches) -> float:
        """Images/s."""
        for _ in range(WARM_UP):
            self.step(*next(batches))
        self.wait()
        steps, begun = 0, time.perf_counter()
        while steps < 3 or time.perf_counter() - begun < seconds:
            self.step(*next(batches))
            steps += 1
        self.wait()
        return batch * steps / (time.perf_counter() - begun)

    def wait(self) -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()


def batches_of(data, **options):
    with hio.torch.loader(data, batch, decode_batch=as_tensors, **options) as loader:
        while True:
            yield from ((it[0], it[1]) for it in loader)


def synthetic():
    images = torch.zeros(batch, 3, pixels, pixels, dtype=torch.uint8, device=device)
    while True:
        yield images, torch.zeros(batch, dtype=torch.int64, device=device)


torch.backends.cudnn.benchmark = True
WAYS = {"ordinary memory, a thread": {}, "pinned memory, a thread": {"pin_memory": True},
        f"ordinary memory, {workers} workers": {"workers": workers},
        f"pinned memory, {workers} workers": {"workers": workers, "pin_memory": True}}
path, training = write_images(), Training()
rates: dict[str, list[float]] = {SYNTHETIC: [], **{way: [] for way in WAYS}}
for _ in range(rounds):
    rates[SYNTHETIC].append(training.rate(synthetic()))
    for way, options in WAYS.items():
        with hio.open(path, checksums=False) as data:
            batches = batches_of(data, **options)
            rates[way].append(training.rate(batches))
            batches.close()
report(rates={way: statistics.median(of_rounds) for way, of_rounds in rates.items()})
