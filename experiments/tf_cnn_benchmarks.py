"""The source's own benchmark, tf_cnn_benchmarks, unmodified.

ResNet50 and AlexNet in every mode, from a checkout of tensorflow/benchmarks.

In the source a GPU computes, and a rank has seven cores: off's thread takes a core that little else
wants. Here it spins on the cores on which the two ranks compute, so every mode gains more. With
ResNet50 all that gs gains is MPI's yielding, and half of what nbcs gains. AlexNet has few and large
gradients: it loses the most to communication, and topo, which reduces them in shared memory, gains
as much as with ResNet50, where the source lost.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from networks import gain_of_topo
from study import Study, Tool, horovod_opt, whole_steps

from horovod_lab.report.source import Beside, gains


@dataclass(frozen=True)
class Checkout(Tool):
    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--checkout", type=Path, required=True, metavar="FOLDER",
                            help="of https://github.com/tensorflow/benchmarks")

    def run(self, options: argparse.Namespace, further: Sequence[str], folder: Path) -> int:
        return horovod_opt(*self.command, "--tf-cnn-benchmarks", options.checkout, *self.options,
                           "--output", folder, *further)


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    rows = whole_steps(documents)
    resnet50, alexnet = ([row for row in rows if row.cell.model == name]
                         for name in ("ResNet50", "AlexNet"))
    return [*gains(resnet50), *gain_of_topo(alexnet)]


STUDY = Study(
    name="tf_cnn_benchmarks", text=__doc__,
    repeats=("Figure 6.16, p. 135", "Figure 6.20 (e), p. 140"),
    measurement=Checkout(("bench", "training"), (
        "--models", "ResNet50,AlexNet", "--batch", 4, "--threads", 1, "--ranks", 2)),
    compare=compare, needs=("--checkout", "FOLDER"))

if __name__ == "__main__":
    sys.exit(STUDY.main())
