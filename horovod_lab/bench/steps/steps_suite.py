"""The suite steps: which mode is the fastest for which kind of training step."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from horovod_lab.bench import worker_job
from horovod_lab.bench.steps.kinds import KINDS, Job, order
from horovod_lab.bench.steps.results import NOT_SUPPORTED, summary
from horovod_lab.bench.steps.steps_pictures import section
from horovod_lab.measuring import launch
from horovod_lab.measuring.benchmark import NAME, Benchmark, begin
from horovod_lab.measuring.documents import DocumentError
from horovod_lab.measuring.present import number
from horovod_opt.arguments import Refusal

# glibc gives back what is free at the end of a heap, and takes it again page by page: in some jobs
# of any mode, which then lose up to a third of a step's time with it.
KEEPS_MEMORY = {"MALLOC_TRIM_THRESHOLD_": str(2**29), "MALLOC_MMAP_THRESHOLD_": str(2**25)}


def run(options: argparse.Namespace) -> int:
    path = options.output / "steps.json"
    try:
        document = begin(path, "steps", {"seconds": options.seconds})
    except (Refusal, DocumentError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    jobs = order(options.only, options.modes, options.ranks, options.rounds,
                 document["machine"]["cores"])
    return Steps(jobs, document, path, options).run()


def measure(job: Job, seconds: float, timeout: float) -> dict[str, Any]:
    """What the file holds of the job beside its key. Raises launch.JobFailed."""
    environment = {name: os.environ.get(name, value) for name, value in KEEPS_MEMORY.items()}
    series = replace(job.series, environment={**environment, **job.series.environment})
    result = worker_job.run(series, [*job.kind.program, "--seconds", str(seconds)], job.ranks,
                            timeout)
    metrics, per_rank = result["metrics"], result["per_rank"]
    if "not_supported" in metrics:
        raise launch.JobFailed(f"{NOT_SUPPORTED}: {metrics['not_supported']}")
    stats = [counted for counted in per_rank["counters"] if counted]
    return {**metrics, "mpi": result["mpi"], "stats": stats or None,
            "rounds": max((counted["requested_rounds"] for counted in stats), default=None),
            "memory_mib": max(per_rank["memory_mib"])}


class Steps(Benchmark):
    def __init__(self, jobs: list[Job], document: dict[str, Any], path: Path,
                 options: argparse.Namespace):
        super().__init__(jobs, document, path, section)
        self.options = options

    def measure(self, job: Job) -> dict[str, Any]:
        return measure(job, self.options.seconds, self.options.timeout)

    def outcome(self, measurement: dict[str, Any]) -> str:
        kind = KINDS[measurement["step"]]
        return f"{number(measurement[kind.key])} {kind.unit}"

    def summary(self) -> dict[str, Any]:
        return {"targets": summary(self.document["measurements"])}
