"""The suite training: images/s of networks in each mode; docs/lab/bench.md."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from horovod_lab.bench.training import jobs
from horovod_lab.bench.training.hosts import HostsError
from horovod_lab.bench.training.jobs import Job
from horovod_lab.bench.training.prepare import prepare
from horovod_lab.bench.training.run_job import Setup, make_images, measure
from horovod_lab.bench.training.scaling_pictures import section
from horovod_lab.measuring import launch
from horovod_lab.measuring.benchmark import NAME, Benchmark, begin
from horovod_lab.measuring.documents import DocumentError
from horovod_opt.arguments import Refusal


def run(options: argparse.Namespace) -> int:
    path = options.output / "bench.json"
    try:
        cells, series, setup = prepare(options)
        document = begin(path, "bench", {
            "scaling": "strong" if options.global_batch else "weak", "seconds": setup.seconds,
            "threads": setup.threads, "hosts": [list(host) for host in setup.hosts.capacities]})
    except (Refusal, HostsError, DocumentError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    planned_jobs = jobs.order(cells, series, options.rounds, document["machine"]["cores"],
                              options.peers)
    return Training(planned_jobs, setup, document, path).run()


class Training(Benchmark):
    def __init__(self, planned_jobs: list[Job], setup: Setup, document: dict[str, Any],
                 path: Path):
        super().__init__(planned_jobs, document, path, section)
        self.setup = setup

    def prepare(self) -> None:
        if any(job.cell.input == "real" for job in self.jobs) and not self.setup.images.exists():
            self.console.print(f"Making the images in {self.setup.images} ...")
            try:
                make_images(self.setup.images)
            except launch.JobFailed as failure:
                raise launch.JobFailed(f"the images could not be made: {failure}") from None

    def measure(self, job: Job) -> dict[str, Any]:
        return measure(job, self.setup)

    def outcome(self, measurement: dict[str, Any]) -> str:
        return f"{measurement['images_per_second']:.3g} images/s"
