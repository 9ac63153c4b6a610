"""JPEG files through tf.data: what threads bring, and what prefetching hides.

The micro-benchmark out of the page cache, on the simulated hard disk and on the simulated parallel
file system; then, on the disk, the mini-application: files of 12 kB, and after each batch the
process sleeps for half a second in place of a GPU that trains AlexNet for one or two. As root, and
with TensorFlow. The source reads 16,384 files of 112 kB with 8 and 24 cores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from study import ROOT, Study, horovod_opt

from horovod_lab.io.suites.stream.results import LABELS, STEP_SECONDS, Kind, StreamCell, cells
from horovod_lab.measuring.literature import HDD, LUSTRE, SPEEDUP, WAITING
from horovod_lab.report.source import Beside

SUITE = ("io", "bench", "--suite", "stream")
DEVICES = {"disk": HDD, "parallel": LUSTRE}  # by the stand that is like it
MICRO = ("--prefetch", 0)
MINI = ("--stand", "disk", "--only", "tf-data", "--files", 1024, "--file-bytes", 12_000,
        "--preprocessing", "with", "--threads", 8, "--step-seconds", 0.5)


class Stands:
    """Each goes on where it was interrupted."""

    passes_on = " ".join(("horovod-opt", *SUITE))

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        pass

    def run(self, options: argparse.Namespace, further: Sequence[str], folder: Path) -> int:
        for part in (*(("--stand", stand, *MICRO) for stand in ("warm", *DEVICES)), MINI):
            status = horovod_opt(*SUITE, *part, "--data", ROOT / "build" / "io-data",
                                 "--output", folder, *further)
            if status:
                return status
        return 0


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    return [beside for document in documents for beside in (
        waiting(document) if document["settings"][STEP_SECONDS] else threads(document))]


def threads(document: dict[str, Any]) -> Iterator[Beside]:
    """images/s over those of one thread, on the stand that is like the source's device."""
    stand = document["settings"]["stand"]
    for kind, by_threads in cells(document).items():
        for number, reported in SPEEDUP.get(DEVICES.get(stand), {}).items():
            for name in LABELS:
                if number in by_threads and 1 in by_threads:
                    speedup = by_threads[number].over(name, by_threads[1])
                    if speedup is not None:
                        label = f"{reported.label}: {LABELS[name]}, {kind.preprocessing} decoding"
                        yield Beside(replace(reported, label=label), speedup.median,
                                     at(stand, by_threads[number], kind))


def waiting(document: dict[str, Any]) -> Iterator[Beside]:
    """With one batch of prefetching, the number that the source has."""
    stand = document["settings"]["stand"]
    for kind, by_threads in cells(document).items():
        for cell in by_threads.values() if kind.prefetch == 1 else ():
            for name in cell.series:
                spread = cell.spread(name, "waiting")
                if spread is not None:
                    yield Beside(replace(WAITING, label=f"{WAITING.label}: {LABELS[name]}"),
                                 spread.median, at(stand, cell, kind))


def at(stand: str, cell: StreamCell, kind: Kind) -> str:
    return f"stand {stand}, {cell.threads} threads, prefetch {kind.prefetch}"


STUDY = Study(
    name="tensorflow_io", text=__doc__,
    repeats=("Figure 4", "Figure 5", "Figure 6 of Chien et al. 2018"),
    measurement=Stands(), compare=compare)

if __name__ == "__main__":
    sys.exit(STUDY.main())
