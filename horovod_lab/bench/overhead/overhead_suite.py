"""The suite overhead: what the background thread costs in each mode; docs/lab/benchmark.md."""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horovod_lab.bench import worker_job
from horovod_lab.bench.overhead import results
from horovod_lab.bench.overhead.overhead_pictures import section
from horovod_lab.bench.overhead.workloads import PROGRAMS, SECONDS, jobs
from horovod_lab.bench.worker_job import Series
from horovod_lab.measuring.benchmark import NAME, Benchmark, begin
from horovod_lab.measuring.documents import DocumentError
from horovod_opt.arguments import Refusal


@dataclass(frozen=True)
class Job:
    round: int
    workload: str
    ranks: int
    series: Series

    def key(self) -> dict[str, Any]:
        return {"round": self.round, "workload": self.workload, "ranks": self.ranks,
                "series": self.series.name}

    def __str__(self) -> str:
        return f"round {self.round + 1}  {self.workload}  {self.ranks} ranks  {self.series.name}"


def run(options: argparse.Namespace) -> int:
    path = options.output / "overhead.json"
    seconds = {name: length / (2 if options.quick else 1) for name, length in SECONDS.items()}
    try:
        document = begin(path, "overhead", {"seconds": seconds})
    except (Refusal, DocumentError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    return Overhead([Job(*job) for job in jobs(options, document["machine"]["cores"])], document,
                    path, options.timeout).run()


class Overhead(Benchmark):
    def __init__(self, jobs: list[Job], document: dict[str, Any], path: Path, timeout: float):
        super().__init__(jobs, document, path, section)
        self.timeout = timeout

    def prepare(self) -> None:
        load = self.document["machine"]["load"]
        if load > 0.5:
            self.console.print(f"This machine is busy (load {load:.1f}): expect a large spread.")

    def measure(self, job: Job) -> dict[str, Any]:
        seconds = self.document["settings"]["seconds"][job.workload]
        result = worker_job.run(job.series, [*PROGRAMS[job.workload], "--seconds", str(seconds)],
                                job.ranks, self.timeout)
        result["metrics"]["memory_mib"] = statistics.mean(result["per_rank"]["memory_mib"])
        return {name: value for name, value in result.items() if name != "workload"}

    def outcome(self, measurement: dict[str, Any]) -> str:
        return "  ".join(
            f"{measurement['metrics'][metric.key]:.4g} {metric.unit}"
            for metric in results.METRICS if metric.workload == measurement["workload"])

    def summary(self) -> dict[str, Any]:
        return {"summary": results.summary(self.document["measurements"])}
