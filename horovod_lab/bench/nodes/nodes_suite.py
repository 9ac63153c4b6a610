"""The suite nodes: topo and off between virtual hosts."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from horovod_lab.bench import worker_job
from horovod_lab.bench.nodes.nodes_pictures import section
from horovod_lab.bench.nodes.results import summary
from horovod_lab.bench.nodes.rows import WORKLOADS, Job, Layout, order
from horovod_lab.measuring import launch
from horovod_lab.measuring.benchmark import NAME, Benchmark, begin
from horovod_lab.measuring.documents import DocumentError
from horovod_lab.measuring.present import number
from horovod_lab.measuring.virtual_hosts import NoHosts, VirtualHosts
from horovod_opt.arguments import Refusal


def run(options: argparse.Namespace) -> int:
    path = options.output / "nodes.json"
    try:
        document = begin(path, "nodes", {"seconds": options.seconds})
    except (Refusal, DocumentError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    jobs = order(options.only, options.layouts, options.rounds)
    if not jobs:
        print(f"{NAME}: none of {', '.join(options.only)} is measured in "
              f"{', '.join(options.layouts)}", file=sys.stderr)
        return 2
    return Nodes(jobs, document, path, options).run()


def measure(job: Job, hosts: VirtualHosts, seconds: float, timeout: float) -> dict[str, Any]:
    """What the file holds of the job beside its key. Raises launch.JobFailed."""
    series = dataclasses.replace(
        job.way.series, environment={**job.way.series.environment, "PATH": hosts.path})
    hosts_and_ranks = ",".join(f"{name}:{job.layout.per_host}" for name in hosts.names)
    launcher = (job.way.controller, "-H", hosts_and_ranks, "--disable-cache")
    try:
        result = hosts.on_first(
            worker_job.run, series, [*job.workload.program, "--seconds", str(seconds)],
            job.layout.ranks, timeout, launcher)
    finally:
        hosts.stop_jobs()  # the ranks of other hosts are no children of a launcher that was killed
    metrics, counters = result["metrics"], result["per_rank"].get("counters") or []
    stats = [counted for counted in counters if counted]
    return {**metrics, "mpi": result["mpi"], "stats": stats or None,
            "agreements": max((counted["agreements"] for counted in stats), default=None),
            "step_bytes": max((counted["data_bytes"] / metrics["steps"] for counted in stats
                               if "steps" in metrics), default=None)}


class Nodes(Benchmark):
    def __init__(self, jobs: list[Job], document: dict[str, Any], path: Path,
                 options: argparse.Namespace):
        super().__init__(jobs, document, path, section)
        self.options = options

    def prepare(self) -> None:
        try:
            with _hosts(Layout(1, 1)):
                pass
        except (NoHosts, OSError) as error:
            raise launch.JobFailed(f"this machine can play no other nodes: {error}") from error

    def measure(self, job: Job) -> dict[str, Any]:
        try:
            with _hosts(job.layout) as hosts:
                return measure(job, hosts, self.options.seconds, self.options.timeout)
        except OSError as error:
            raise launch.JobFailed(f"the virtual hosts failed: {error}") from error

    def outcome(self, measurement: dict[str, Any]) -> str:
        workload = WORKLOADS[measurement["workload"]]
        return f"{number(measurement[workload.key])} {workload.unit}"

    def summary(self) -> dict[str, Any]:
        return {"targets": summary(self.document["measurements"])}


@contextlib.contextmanager
def _hosts(layout: Layout) -> Iterator[VirtualHosts]:
    with tempfile.TemporaryDirectory(prefix="horovod-hosts-") as folder, VirtualHosts(
            Path(folder), layout.hosts, layout.megabits) as hosts:
        yield hosts
