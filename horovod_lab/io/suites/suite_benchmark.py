"""What the suites of `horovod-opt io bench` are as benchmarks: can what the options ask for be
measured, and here?"""

from __future__ import annotations

import argparse
import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from horovod_lab.io.data.records import LEAST_BYTES
from horovod_lab.io.testbeds.disk import Disk
from horovod_lab.io.testbeds.parallel import ParallelFileSystem
from horovod_lab.io.testbeds.testbed import Testbed, WarmCache
from horovod_lab.measuring.benchmark import Benchmark, Job
from horovod_lab.measuring.comparison import in_rounds
from horovod_lab.measuring.present import Section
from horovod_opt.arguments import Refusal

NAME = "horovod-opt io bench"
TESTBEDS: dict[str, type[Testbed]] = {
    testbed.name: testbed for testbed in (WarmCache, Disk, ParallelFileSystem)}


def check(options: argparse.Namespace) -> None:
    """Of a suite on small records. Raises Refusal for what cannot be measured anywhere."""
    nodes, ranks = options.nodes, max(options.ranks)
    uneven = [count for count in options.ranks if count % nodes]
    if uneven:
        raise Refusal(f"--ranks {uneven[0]} cannot be shared equally by {nodes} nodes; remedy: a "
                      f"multiple of {nodes}, or other --nodes")
    least = options.batch * ranks
    if options.records < least:
        raise Refusal(f"--records {options.records} is less than a batch of {options.batch} for "
                      f"each of {ranks} ranks; remedy: at least {least}")
    if options.record_bytes <= LEAST_BYTES:
        raise Refusal(f"--record-bytes {options.record_bytes}; remedy: at least {LEAST_BYTES + 1}, "
                      "for a number, a checksum, and something between")


def try_testbed(options: argparse.Namespace) -> None:
    """Makes the testbed once, of nothing. Raises Refusal if it cannot be made here."""
    data = options.data or options.output / "io-data"
    data.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=data) as folder:
        nothing = Path(folder, "nothing")
        nothing.mkdir()
        try:
            with TESTBEDS[options.stand](nothing, options.nodes):
                pass
        except OSError as error:
            raise Refusal(f"--stand {options.stand} cannot be made: {error}; remedy: a machine, or "
                          "a container, whose root may mount file systems") from error


@dataclass(frozen=True)
class SeriesJob:
    """A series, which has a name and a label, at a number of ranks."""

    round: int
    ranks: int
    series: Any

    def key(self) -> dict[str, Any]:
        return {"round": self.round, "ranks": self.ranks, "series": self.series.name}

    def __str__(self) -> str:
        return f"round {self.round + 1}  {self.ranks} ranks  {self.series.label}"


def order_jobs(table: Mapping[str, Any], names: Sequence[str], ranks: Sequence[int], rounds: int
               ) -> list[SeriesJob]:
    """Of the series that `table` has under these names, in rounds."""
    series = [table[name] for name in names]
    return [SeriesJob(*job) for job in in_rounds(list(ranks), lambda _: series, rounds)]


class SuiteBenchmark(Benchmark):
    """`section` is told whether targets are shown."""

    name = NAME

    def __init__(self, jobs: Sequence[Job], document: dict[str, Any], path: Path,
                 options: argparse.Namespace, section: Callable[..., Section]):
        super().__init__(jobs, document, path,
                         functools.partial(section, targets=options.targets))
        self._options = options
        self._data = (options.data or options.output / "io-data").absolute()
