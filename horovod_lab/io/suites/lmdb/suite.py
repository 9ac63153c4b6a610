"""The suite lmdb: LMDBIO's strategies on the same file, in the order in which Caffe reads it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from horovod_lab.io.data import data_folder
from horovod_lab.io.data.records import Records
from horovod_lab.io.ladder import job as ladder
from horovod_lab.io.ladder import provenance
from horovod_lab.io.ladder.place import MEMORY
from horovod_lab.io.strategies import RUNGS
from horovod_lab.io.suites.lmdb.pictures import section
from horovod_lab.io.suites.lmdb.results import SPEED, summary
from horovod_lab.io.suites.suite_benchmark import (
    NAME,
    TESTBEDS,
    SeriesJob,
    SuiteBenchmark,
    check,
    order_jobs,
    try_testbed,
)
from horovod_lab.io.testbeds.testbed import WarmCache
from horovod_lab.measuring import launch
from horovod_lab.measuring.benchmark import begin
from horovod_lab.measuring.documents import DocumentError
from horovod_lab.measuring.present import number
from horovod_opt.arguments import Refusal
from horovod_opt.io.errors import DataError

PAGE = 4096  # bytes that a record takes at least


def run(options: argparse.Namespace) -> int:
    is_warm = options.stand == WarmCache.name
    name = "io-lmdb" if is_warm else f"io-lmdb-{options.stand}"
    path = options.json or options.output / f"{name}.json"
    try:
        _check(options)
        document = begin(path, "io-lmdb", {
            "stand": options.stand, **({} if is_warm else {"share": options.share}),
            "nodes": options.nodes, "records": options.records,
            "record_bytes": options.record_bytes, "batch": options.batch,
            "window": options.window, "coalesce_bytes": options.coalesce_bytes,
            "tokens": options.tokens})
        if not is_warm:
            try_testbed(options)
    except (Refusal, DocumentError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    jobs = order_jobs(RUNGS, options.only, options.ranks, options.rounds)
    return LmdbBenchmark(jobs, document, path, options).run()


def _check(options: argparse.Namespace) -> None:
    """Raises Refusal for what cannot be measured."""
    check(options)
    nodes = options.nodes
    if nodes % options.tokens:
        raise Refusal(f"--tokens {options.tokens}: the readers of {nodes} nodes are no whole "
                      f"number of groups; remedy: a divisor of {nodes}")
    if options.stand != WarmCache.name:
        TESTBEDS[options.stand].check(nodes)
        if options.window != MEMORY:
            raise Refusal(f"--window {options.window} is of one machine, without simulated nodes; "
                          f"remedy: --stand {WarmCache.name}")


class LmdbBenchmark(SuiteBenchmark):
    def __init__(self, jobs: list[SeriesJob], document: dict[str, Any], path: Path,
                 options: argparse.Namespace):
        super().__init__(jobs, document, path, options, section)
        self._records = Records(options.records, options.record_bytes)
        self._folder = data_folder.folder_of(self._data, "lmdb", self._records)

    def prepare(self) -> None:
        """Writes the data, with its index, and its provenance, where they are not there."""
        try:
            if not self._folder.exists():
                self._say(f"Writing {self._records.count} records of {self._records.size} bytes: "
                          f"{self._folder}")
                data_folder.write("lmdb", self._folder, self._records)
            if not (self._folder / provenance.FILE).exists():
                provenance.write(self._folder)
        except (DataError, OSError) as error:
            raise launch.JobFailed(str(error)) from error

    def measure(self, job: SeriesJob) -> dict[str, Any]:
        options, nodes = self._options, self._options.nodes
        global_batch = options.batch * job.ranks
        iterations_per_read = options.coalesce_bytes * nodes // (
            global_batch * max(PAGE, options.record_bytes))
        shape = ladder.Shape(
            job.ranks, job.ranks // nodes, options.batch, options.records // global_batch,
            options.window, max(1, iterations_per_read), options.tokens)
        # Nodes of a warm page cache are ranks that share a buffer, and nothing else.
        simulated_nodes = 1 if options.stand == WarmCache.name else nodes
        try:
            with TESTBEDS[options.stand](self._folder, simulated_nodes, options.share) as testbed:
                return ladder.run(job.series.name, shape, testbed, self._records, options.timeout)
        except OSError as error:
            raise launch.JobFailed(f"the stand cannot be made, or failed: {error}") from error

    def outcome(self, measurement: dict[str, Any]) -> str:
        return f"{number(measurement[SPEED])} samples/s"

    def summary(self) -> dict[str, Any]:
        return {"targets": summary(self.document)}
