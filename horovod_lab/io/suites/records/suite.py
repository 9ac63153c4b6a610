"""The suite records: what an input pipeline itself costs, for records of a few KB."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

from horovod_lab.io.data.data_folder import folder_of
from horovod_lab.io.data.records import Records
from horovod_lab.io.environment import ELSEWHERE, Environment, find
from horovod_lab.io.peers import PEERS
from horovod_lab.io.suites.records.pictures import section
from horovod_lab.io.suites.records.results import summary
from horovod_lab.io.suites.records.targets import SPEED
from horovod_lab.io.suites.suite_benchmark import (
    NAME,
    TESTBEDS,
    SeriesJob,
    SuiteBenchmark,
    check,
    order_jobs,
    try_testbed,
)
from horovod_lab.io.testbeds import first_epoch, steady_state
from horovod_lab.io.testbeds.testbed import WarmCache
from horovod_lab.measuring import launch
from horovod_lab.measuring.benchmark import begin
from horovod_lab.measuring.documents import DocumentError
from horovod_lab.measuring.present import number
from horovod_opt.arguments import Refusal


def run(options: argparse.Namespace) -> int:
    is_warm = options.stand == WarmCache.name
    name = "io-records" if is_warm else f"io-records-{options.stand}"
    path = options.json or options.output / f"{name}.json"
    try:
        check(options)
        TESTBEDS[options.stand].check(options.nodes)
        environment = find(options.peers)
        absent = {name: reason for name in options.only
                  if (reason := environment.explain_absence(PEERS[name].needs))}
        names_here = [name for name in options.only if name not in absent]
        if not names_here:
            raise Refusal(f"nothing can be measured: {next(iter(absent.values()))}")
        names = sorted({need for peer in PEERS.values() for need in peer.needs} | {"lmdb", "numpy"})
        document = begin(path, "io-records", {
            "stand": options.stand,
            **({} if is_warm else {"nodes": options.nodes, "share": options.share,
                                   "speed": dict(TESTBEDS[options.stand].speed)}),
            "seconds": options.seconds, "records": options.records,
            "record_bytes": options.record_bytes, "batch": options.batch,
            "ranks_python": environment.version,
            "ranks_versions": {name: environment.versions[name] for name in names
                               if name in environment.versions}})
        try_testbed(options)
    except (Refusal, DocumentError) as error:
        print(f"{NAME}: {error}", file=sys.stderr)
        return 2
    for name, reason in absent.items():
        print(f"{NAME}: {PEERS[name].label} is not measured: {reason}", file=sys.stderr)
    document["not_measured"] = absent
    jobs = order_jobs(PEERS, names_here, options.ranks, options.rounds)
    return RecordsBenchmark(jobs, document, path, options, environment).run()


class RecordsBenchmark(SuiteBenchmark):
    def __init__(self, jobs: list[SeriesJob], document: dict[str, Any], path: Path,
                 options: argparse.Namespace, environment: Environment):
        super().__init__(jobs, document, path, options, section)
        self._environment = environment
        self._records = Records(options.records, options.record_bytes)

    def prepare(self) -> None:
        """Writes the data that is not there."""
        for form in dict.fromkeys(job.series.format for job in self.jobs):
            folder = folder_of(self._data, form, self._records)
            if folder.exists():
                continue
            self._say(f"Writing {self._records.count} records of {self._records.size} bytes: "
                      f"{folder}")
            process = subprocess.run(
                [self._environment.python, "-m", "horovod_lab.io.data.data_folder", form,
                 str(folder), str(self._records.count), str(self._records.size)],
                cwd=ELSEWHERE, stdin=subprocess.DEVNULL)
            if process.returncode:
                raise launch.JobFailed(f"{folder} could not be written (see above)")

    def measure(self, job: SeriesJob) -> dict[str, Any]:
        options, python = self._options, self._environment.python
        folder = folder_of(self._data, job.series.format, self._records)
        if options.stand == WarmCache.name:
            return steady_state.run(job.series, job.ranks, folder, self._records, options.batch,
                                    options.seconds, python, options.timeout)
        try:
            with TESTBEDS[options.stand](folder, options.nodes, options.share) as testbed:
                return first_epoch.run(testbed, job.series, job.ranks, self._records, options.batch,
                                       options.seconds, python, options.timeout)
        except OSError as error:
            raise launch.JobFailed(f"the stand cannot be made, or failed: {error}") from error

    def outcome(self, measurement: dict[str, Any]) -> str:
        return f"{number(measurement[SPEED])} samples/s"

    def summary(self) -> dict[str, Any]:
        return {"targets": summary(self.document)}
