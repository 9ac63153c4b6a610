"""Weak and strong scaling of ResNet50 in every mode.

Weak: each rank has a batch of its own size. The gain over off is compared, and what is left of
training without communication. There each rank had a GPU and seven cores; here all share one
machine. TensorFlow's own MultiWorkerMirroredStrategy is measured as well.

Strong: the images of a step are the same number for all ranks together, so that more ranks have
less to compute and the same to reduce. The largest gain of any mode is compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from study import Study, Tool, training, whole_steps

from horovod_lab.measuring.literature import GAIN, STRONG_GAIN
from horovod_lab.report.source import Beside, efficiency, gains, largest

BENCHMARKS = {
    "weak": training("--models", "ResNet50", "--peers", "--ranks", 2, 4),
    "strong": Tool(("bench", "training"), (
        "--models", "ResNet50", "--pixels", 96, "--threads", 1, "--global-batch", 16,
        "--ranks", 1, 2, 4))}


class Benchmarks:
    """Each goes on where it was interrupted."""

    passes_on = "horovod-opt bench training"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        pass

    def run(self, options: argparse.Namespace, further: Sequence[str], folder: Path) -> int:
        for name, tool in BENCHMARKS.items():
            (folder / name).mkdir(exist_ok=True)
            status = tool.run(options, further, folder / name)
            if status:
                return status
        return 0


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    weak, strong = (whole_steps([document for document in documents
                                 if document["settings"]["scaling"] == name])
                    for name in BENCHMARKS)
    return [*gains(weak), *efficiency(weak),
            *largest([row for row in strong if row.series in GAIN], "gain", STRONG_GAIN)]


STUDY = Study(
    name="scaling", text=__doc__,
    repeats=("Figure 6.5, p. 120", "Figure 6.16, p. 135", "Figure 6.19, p. 138"),
    measurement=Benchmarks(), compare=compare)

if __name__ == "__main__":
    sys.exit(STUDY.main())
