"""Training ResNet50 with TensorFlow on one of input_sources.py: images/s of all ranks, and what
the input costs the processors."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import train
import training
from input_sources import SOURCES, Place
from rank import Rank, Timing
from training import WARM_UP

INPUT_WARM_UP = 64  # batches: more than what was ready


def measure_with_cpu(rank: Rank, step: Callable[[], Any], warm_up: int) -> tuple[Timing, float]:
    """A timing, and the processor seconds of this process in it for an image."""
    cpu: list[float] = []

    def counted() -> None:
        step()
        cpu.append(time.process_time())

    timing = rank.measure(counted, warm_up)
    return timing, (cpu[-1] - cpu[-1 - timing.steps]) / (timing.steps * rank.options.batch)


def main() -> None:
    parser = train.parser()
    parser.add_argument("--source", choices=list(SOURCES), required=True)
    parser.add_argument("--folder", type=Path, required=True, help="of input_sources.make()")
    rank = Rank("train_input", parser=parser)
    rank.init()
    train.place(rank)
    model = train.build(rank)
    data = iter(SOURCES[rank.options.source](Place(
        rank.options.folder, rank.options.batch, model.input_shape[1], rank.rank, rank.size)))
    step = train.Trainer(rank, model).step
    timing, cpu_seconds = measure_with_cpu(rank, lambda: step(*next(data)).numpy(), WARM_UP)
    _, alone = measure_with_cpu(rank, lambda: next(data), INPUT_WARM_UP)
    training.report(rank, timing, cpu_seconds=cpu_seconds, input_cpu_seconds=alone)


if __name__ == "__main__":
    main()
