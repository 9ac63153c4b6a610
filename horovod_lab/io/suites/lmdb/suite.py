"""The suite lmdb: LMDBIO's strategies on the same file, in the order in which Caffe reads it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from horovod_lab.io.data import prepare
from horovod_lab.io.data.records import Records
from horovod_lab.io.ladder import job as ladder
from horovod_lab.io.ladder import provenance
from horovod_lab.io.ladder.place import MEMORY
from horovod_lab.io.suites.conditions import check, try_stand
from horovod_lab.io.suites.lmdb.jobs import Job, order
from horovod_lab.io.suites.lmdb.pictures import section
from horovod_lab.io.suites.lmdb.results import SPEED, summary
from horovod_lab.io.suites.suite_benchmark import NAME, SuiteBenchmark
from horovod_lab.io.testbeds.by_name import STANDS
from horovod_lab.io.testbeds.warm import Warm
from horovod_lab.measuring import launch
from horovod_lab.measuring.benchmark import begin
from horovod_lab.measuring.documents import DocumentError
from horovod_lab.measuring.present import number
from horovod_opt.arguments import Refusal
from horovod_opt.io.errors import DataError

PAGE = 4096  # bytes that a record takes at least


def run(options: argparse.Namespace) -> int:
    is_warm = options.stand == Warm.name
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
            try_stand(options)
    except (Refusal, DocumentError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    planned = order(options.only, options.ranks, options.rounds)
    return LmdbBenchmark(planned, document, path, options).run()


def _check(options: argparse.Namespace) -> None:
    """Raises Refusal for what cannot be measured."""
    check(options)
    nodes = options.nodes
    if nodes % options.tokens:
        raise Refusal(f"--tokens {options.tokens}: the readers of {nodes} nodes are no whole "
                      f"number of groups; remedy: a divisor of {nodes}")
    if options.stand != Warm.name:
        STANDS[options.stand].check(nodes)
        if options.window != MEMORY:
            raise Refusal(f"--window {options.window} is of one machine, without simulated nodes; "
                          f"remedy: --stand {Warm.name}")


class LmdbBenchmark(SuiteBenchmark):
    def __init__(self, planned: list[Job], document: dict[str, Any], path: Path,
                 options: argparse.Namespace):
        super().__init__(planned, document, path, options, section)
        self._records = Records(options.records, options.record_bytes)
        self._folder = prepare.folder_of(self._data, "lmdb", self._records)

    def prepare(self) -> None:
        """Writes the data, with its index, and its provenance, where they are not there."""
        try:
            if not self._folder.exists():
                self._say(f"Writing {self._records.count} records of {self._records.size} bytes: "
                          f"{self._folder}")
                prepare.write("lmdb", self._folder, self._records)
            if not (self._folder / provenance.FILE).exists():
                provenance.write(self._folder)
        except (DataError, OSError) as error:
            raise launch.JobFailed(str(error)) from error

    def measure(self, job: Job) -> dict[str, Any]:
        options, nodes = self._options, self._options.nodes
        global_batch = options.batch * job.ranks
        together = options.coalesce_bytes * nodes // (
            global_batch * max(PAGE, options.record_bytes))
        shape = ladder.Shape(
            job.ranks, job.ranks // nodes, options.batch, options.records // global_batch,
            options.window, max(1, together), options.tokens)
        # Nodes of a warm page cache are ranks that share a window, and nothing else.
        of_stand = 1 if options.stand == Warm.name else nodes
        try:
            with STANDS[options.stand](self._folder, of_stand, options.share) as stand:
                return ladder.run(job.rung.name, shape, stand, self._records, options.timeout)
        except OSError as error:
            raise launch.JobFailed(f"the stand cannot be made, or failed: {error}") from error

    def outcome(self, measurement: dict[str, Any]) -> str:
        return f"{number(measurement[SPEED])} samples/s"

    def summary(self) -> dict[str, Any]:
        return {"targets": summary(self.document)}
