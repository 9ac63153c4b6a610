"""The suite c10d: its jobs, each with both backends."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horovod_lab.bench.c10d.c10d_pictures import hosts_text, section
from horovod_lab.bench.worker_job import WORKERS, parse_result
from horovod_lab.measuring import launch
from horovod_lab.measuring.benchmark import NAME, Benchmark, begin
from horovod_lab.measuring.documents import DocumentError
from horovod_lab.measuring.present import number
from horovod_opt.arguments import Refusal


@dataclass(frozen=True)
class Job:
    round: int
    ranks: int
    hosts: int

    def key(self) -> dict[str, Any]:
        return {"round": self.round, "ranks": self.ranks, "hosts": self.hosts}

    def __str__(self) -> str:
        return f"round {self.round + 1}  {self.ranks} ranks  {hosts_text(self.hosts)}"


def run(options: argparse.Namespace) -> int:
    path = options.output / "c10d.json"
    try:
        document = begin(path, "c10d", {"seconds": options.seconds, "bytes": options.bytes,
                                        "training": not options.without_training})
    except (Refusal, DocumentError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    jobs = [Job(number, ranks, hosts) for number in range(options.rounds)
            for hosts in options.hosts for ranks in options.ranks if ranks % hosts == 0]
    return C10d(jobs, document, path, options).run()


class C10d(Benchmark):
    def __init__(self, jobs: list[Job], document: dict[str, Any], path: Path,
                 options: argparse.Namespace):
        super().__init__(jobs, document, path, section)
        self.options = options

    def measure(self, job: Job) -> dict[str, Any]:
        options = self.options
        trains = (not options.without_training and job.hosts == 1
                  and job.ranks <= self.document["machine"]["cores"])
        environ = {**os.environ, "OMP_NUM_THREADS": "1",
                   "HOROVOD_OPT_NODE_RANKS": str(job.ranks // job.hosts)}
        with tempfile.TemporaryDirectory(prefix="horovod-bench-") as folder:
            command = [sys.executable, str(WORKERS / "backends_torch.py"),
                       "--store", f"{folder}/store", "--ranks", str(job.ranks),
                       "--seconds", str(options.seconds), "--bytes", *map(str, options.bytes),
                       *(["--train"] if trains else [])]
            output = launch.execute([[*command, "--rank", str(rank)] for rank in range(job.ranks)],
                                    environ, options.timeout)
        return parse_result(output)["metrics"]

    def outcome(self, measurement: dict[str, Any]) -> str:
        return "  ".join(f"{name}: " + " ".join(number(us) for us in of_sizes.values()) + " us"
                         for name, of_sizes in measurement["microseconds"].items())
