"""The suite sizes: one allreduce by its size, in each mode."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horovod_lab.bench import worker_job
from horovod_lab.bench.sizes.sizes_pictures import section
from horovod_lab.bench.worker_job import BASE, LIMIT, Series
from horovod_lab.measuring.benchmark import NAME, Benchmark, begin
from horovod_lab.measuring.comparison import in_rounds
from horovod_lab.measuring.documents import DocumentError
from horovod_lab.measuring.present import number
from horovod_opt.arguments import Refusal


@dataclass(frozen=True)
class Job:
    round: int
    ranks: int
    series: Series

    def key(self) -> dict[str, Any]:
        return {"round": self.round, "ranks": self.ranks, "series": self.series.name}

    def __str__(self) -> str:
        return f"round {self.round + 1}  {self.ranks} ranks  {self.series.name}"


def run(options: argparse.Namespace) -> int:
    path = options.output / "sizes.json"
    try:
        document = begin(path, "sizes", {"seconds": options.seconds, "bytes": options.bytes})
    except (Refusal, DocumentError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    series = [Series(LIMIT, communicates=False), Series(BASE), *options.modes,
              *filter(None, (options.oneccl, options.plain))]
    jobs = order(series, options.ranks, options.rounds, document["machine"]["cores"])
    return Sizes(jobs, document, path, options).run()


def order(series: list[Series], ranks: list[int], rounds: int, cores: int) -> list[Job]:
    return [Job(*job) for job in in_rounds(
        ranks, lambda count: [way for way in series if way.fits(count, cores)], rounds)]


class Sizes(Benchmark):
    def __init__(self, jobs: list[Job], document: dict[str, Any], path: Path,
                 options: argparse.Namespace):
        super().__init__(jobs, document, path, section)
        self.options = options

    def measure(self, job: Job) -> dict[str, Any]:
        program = ["allreduces.py", "sizes", "--seconds", str(self.options.seconds),
                   "--bytes", *map(str, self.options.bytes)]
        result = worker_job.run(job.series, program, job.ranks, self.options.timeout)
        return {**result["metrics"], "mpi": result["mpi"]}

    def outcome(self, measurement: dict[str, Any]) -> str:
        return "  ".join(f"{number(value)} us" for value in measurement["microseconds"].values())
