"""The suite training: what the input costs a training of ResNet50 in mode topo."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from typing import Any

from horovod_lab.bench import worker_job
from horovod_lab.io.suites.suite_benchmark import NAME, SuiteBenchmark
from horovod_lab.io.suites.training.jobs import Job, order
from horovod_lab.io.suites.training.pictures import section
from horovod_lab.io.suites.training.results import ALONE, CPU, SPEED, summary
from horovod_lab.measuring import launch
from horovod_lab.measuring.benchmark import begin
from horovod_lab.measuring.documents import DocumentError
from horovod_lab.measuring.present import number
from horovod_opt.arguments import Refusal

TOPO = worker_job.Series("topo", "topo")


def run(options: argparse.Namespace) -> int:
    path = options.json or options.output / "io-training.json"
    try:
        document = begin(path, "io-training", {
            "stand": "W", "seconds": options.seconds, "batch": options.batch,
            "pixels": options.pixels})
    except (Refusal, DocumentError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    jobs = order(options.only, options.ranks, options.rounds)
    return TrainingBenchmark(jobs, document, path, options, section).run()


class TrainingBenchmark(SuiteBenchmark):
    def prepare(self) -> None:
        """Writes the data that is not there."""
        self._data.mkdir(parents=True, exist_ok=True)
        launch.execute(
            [[sys.executable, str(worker_job.WORKERS / "input_sources.py"), str(self._data),
              str(self._options.pixels)]],
            {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "CUDA_VISIBLE_DEVICES": "-1"},
            self._options.timeout)

    def measure(self, job: Job) -> dict[str, Any]:
        options = self._options
        result = worker_job.run(
            TOPO, ["train_input.py", "--model", "ResNet50", "--batch", str(options.batch),
                   "--pixels", str(options.pixels), "--seconds", str(options.seconds),
                   "--source", job.source.name, "--folder", str(self._data)],
            job.ranks, options.timeout)
        of_ranks = result["per_rank"]
        return {SPEED: result["metrics"][SPEED], "steps": result["metrics"]["steps"],
                CPU: 1e3 * statistics.mean(of_ranks["cpu_seconds"]),
                ALONE: 1e3 * statistics.mean(of_ranks["input_cpu_seconds"]),
                "mpi": result["mpi"]}

    def outcome(self, measurement: dict[str, Any]) -> str:
        return f"{number(measurement[SPEED])} images/s"

    def summary(self) -> dict[str, Any]:
        return {"targets": summary(self.document)}
