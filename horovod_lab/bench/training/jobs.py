"""Which jobs a benchmark consists of, and in which order they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from horovod_lab.bench.worker_job import Series
from horovod_lab.measuring.comparison import in_rounds

STRATEGY = "MultiWorkerMirroredStrategy"
TENSORFLOW, TORCH, TF_CNN = "tensorflow", "torch", "tf_cnn_benchmarks"
# The published sizes of the images, in pixels.
PIXELS = {"ResNet18": 224, "ResNet34": 224, "ResNet50": 224, "ResNet101": 224, "ResNet152": 224,
          "AlexNet": 227, "GoogLeNet": 224, "Inception-v3": 299, "VGG16": 224}
# What a network needs to have anything left after its pooling layers.
SMALLEST = {"AlexNet": 67, "Inception-v3": 75}
PEERS = {
    TENSORFLOW: (Series(STRATEGY, communicates=False, arguments=("--strategy",)),),
    TORCH: (Series("DDP", communicates=False, arguments=("--ddp",)),
            Series("DDP, static graph", communicates=False,
                   arguments=("--ddp", "--static-graph"))),
    TF_CNN: (),
}


@dataclass(frozen=True)
class Cell:
    """What the series are compared at. `input` is "synthetic" or "real"; `separate`: gradients are
    reduced after the computation, to see where a step's time goes."""

    model: str
    framework: str
    input: str
    ranks: int
    batch: int  # of a rank
    pixels: int
    separate: bool = False

    def __str__(self) -> str:
        return (f"{self.model}, {self.framework}, {self.input} input, {self.ranks} ranks of "
                f"batch {self.batch}{', in parts' if self.separate else ''}")


@dataclass(frozen=True)
class Job:
    round: int
    cell: Cell
    series: Series

    def key(self) -> dict[str, Any]:
        return {"round": self.round, **asdict(self.cell), "series": self.series.name,
                "mode": self.series.mode if self.series.communicates else None}

    def __str__(self) -> str:
        return f"round {self.round + 1}  {self.cell}  {self.series.name}"


def runs(series: Series, cell: Cell, cores: int) -> bool:
    """Whether the series makes sense there."""
    if cell.separate and not series.communicates:
        return False
    return series.fits(cell.ranks, cores)


def order(cells: Sequence[Cell], series: Sequence[Series], rounds: int, cores: int,
          peers: bool) -> list[Job]:
    """In a round the series of a cell follow one another, each round beginning with another."""
    def of(cell: Cell) -> list[Series]:
        candidates = [*series, *(PEERS[cell.framework] if peers and not cell.separate else ())]
        return [candidate for candidate in candidates if runs(candidate, cell, cores)]

    return [Job(*job) for job in in_rounds(cells, of, rounds)]
