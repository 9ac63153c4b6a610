"""The suite training: runs every job that the options ask for, and keeps each result at once."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from horovod_opt.arguments import INTERRUPTED
from horovod_opt.bench.training import jobs
from horovod_opt.bench.training.hosts import HostsError
from horovod_opt.bench.training.jobs import Job
from horovod_opt.bench.training.prepare import Refused, prepare
from horovod_opt.bench.training.resume import begin
from horovod_opt.bench.training.run_job import Setup, make_images, measure
from horovod_opt.bench.training.scaling_pictures import section
from horovod_opt.measuring import documents, launch
from horovod_opt.measuring.documents import DocumentError
from horovod_opt.measuring.present import show

NAME = "horovod-opt bench"


def run(options: argparse.Namespace) -> int:
    try:
        cells, series, setup = prepare(options)
        document = begin(options, setup)
    except (Refused, HostsError, DocumentError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    planned = jobs.order(cells, series, options.rounds, document["machine"]["cores"],
                         options.peers)
    return Benchmark(planned, setup, document, options.output).run()


class Benchmark:
    """Runs those of the planned jobs that the document has no result of yet."""

    def __init__(self, planned: list[Job], setup: Setup, document: dict[str, Any], output: Path):
        self.output = output
        self.setup = setup
        self.document = document
        self.console = Console(stderr=True)
        done = [one for one in document["measurements"] if "failed" not in one]
        self.jobs = [job for job in planned if not any(map(job.made, done))]
        self.kept = len(planned) - len(self.jobs)

    def run(self) -> int:
        try:
            status = self._measure()
        except KeyboardInterrupt:
            self.console.print("Interrupted. The same command goes on from here.")
            status = INTERRUPTED
        if self.document["measurements"]:
            self._say(f"Written: {self.output / 'bench.json'}")
            show(section(self.document), self.output)
        return status

    def _measure(self) -> int:
        if self.kept:
            self._say(f"Measured before, and kept: {self.kept} of "
                      f"{self.kept + len(self.jobs)} jobs.")
        if any(job.cell.input == "real" for job in self.jobs) and not self.setup.images.exists():
            self.console.print(f"Making the images in {self.setup.images} ...")
            try:
                make_images(self.setup.images)
            except launch.JobFailed as failure:
                self._say(f"{NAME}: the images could not be made: {failure}")
                return 2
        failed = 0
        with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
                      TimeRemainingColumn(), console=self.console,
                      disable=not self.console.is_terminal) as progress:
            task = progress.add_task("", total=len(self.jobs))
            for job in self.jobs:
                heading = f"round {job.round + 1}  {job.cell}  {job.series.name}"
                progress.update(task, description=heading)
                measurement = self._one(job)
                failed += "failed" in measurement
                self._say(f"{heading}: " + (
                    f"failed: {measurement['failed']}" if "failed" in measurement
                    else f"{measurement['images_per_second']:.3g} images/s"))
                progress.advance(task)
        if failed:
            self._say(f"{NAME}: {failed} of {len(self.jobs)} jobs failed; the others are kept, and "
                      "the same command tries them again")
        return 2 if failed else 0

    def _one(self, job: Job) -> dict[str, Any]:
        started = time.monotonic()
        try:
            result = measure(job, self.setup)
        except launch.JobFailed as failure:
            result = {"failed": str(failure)}
        measurement = {**job.key(), "mode": job.series.mode if job.series.communicates else None,
                       **result, "job_seconds": round(time.monotonic() - started, 1)}
        earlier = [one for one in self.document["measurements"] if not job.made(one)]
        self.document["measurements"] = [*earlier, measurement]
        documents.save(self.output / "bench.json", self.document)
        return measurement

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)
