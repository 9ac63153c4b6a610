"""How much of a core the background thread takes while ResNet50 is trained: off, off tuned, topo.

A profile of each: user and system time of the thread, by rank, over the second half of the job.
Where ranks have a core each, a thread that spins shares it with those that compute and so has at
most about half of it; on the source's seven cores it had one for itself.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from study import Study, horovod_opt

from horovod_lab.bench.worker_job import BASE, WORKERS, Series, of_modes
from horovod_lab.measuring.literature import BACKGROUND_CPU
from horovod_lab.profile.classes import BACKGROUND
from horovod_lab.profile.profile_pictures import cpu
from horovod_lab.report.source import Beside
from horovod_opt.arguments import positive

SERIES = (Series(BASE), *of_modes("off+yield,topo"))


class Profiles:
    passes_on = ""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--ranks", type=positive, default=2, metavar="N", help="(%(default)s)")
        parser.add_argument("--seconds", type=positive, default=40, metavar="S",
                            help="that each job trains, beside those it takes to start "
                                 "(%(default)s)")

    def run(self, options: argparse.Namespace, further: Sequence[str], folder: Path) -> int:
        job = ["horovodrun", "-np", options.ranks, "python", WORKERS / "train.py",
               "--model", "ResNet50", "--pixels", 96, "--batch", 4, "--threads", 1,
               "--seconds", options.seconds]
        folders = [folder / series.name.replace(", ", "-") for series in SERIES]
        for series, its in zip(SERIES, folders):
            status = horovod_opt("profile", "--label", series.name, "--output", its, "--", *job,
                                 environ=series.environ())
            if status:
                return status
        return horovod_opt("profile", "--output", folder, "--compare",
                           *(its / "profile.json" for its in folders))


def compare(documents: Sequence[dict[str, Any]]) -> list[Beside]:
    """Means over ranks."""
    return [Beside(BACKGROUND_CPU[document["label"]],
                   statistics.fmean(cpu(rank, BACKGROUND) for rank in document["ranks"]) / 100,
                   f"ResNet50, {document['job']['ranks']} ranks")
            for document in documents if document["label"] in BACKGROUND_CPU]


STUDY = Study(
    name="cpu_usage", text=__doc__, repeats=("Figure 6.10, p. 124", "Figure 6.18, p. 137"),
    measurement=Profiles(), compare=compare, short=True)

if __name__ == "__main__":
    sys.exit(STUDY.main())
