"""What the suites of `horovod-opt io bench` are as benchmarks."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from horovod_lab.measuring.benchmark import Benchmark, Job
from horovod_lab.measuring.present import Section

NAME = "horovod-opt io bench"


class SuiteBenchmark(Benchmark):
    """`section` is told whether targets are shown."""

    name = NAME

    def __init__(self, planned: Sequence[Job], document: dict[str, Any], path: Path,
                 options: argparse.Namespace, section: Callable[..., Section]):
        super().__init__(planned, document, path,
                         functools.partial(section, targets=options.targets))
        self._options = options
        self._data = (options.data or options.output / "io-data").absolute()
