"""The options of `horovod-opt bench overhead`."""

from __future__ import annotations

import argparse
from pathlib import Path

from horovod_lab.bench.overhead.workloads import SECONDS
from horovod_lab.bench.suite_options import add_modes, add_plain
from horovod_opt.arguments import positive, some_of


def add(suites: argparse._SubParsersAction) -> None:
    parser = suites.add_parser(
        "overhead", help="small workloads: what the background thread itself costs",
        description="Measures what Horovod's background thread costs in each mode with small "
        "workloads that show it alone: idle, a chain of dependent allreduces, many small ones, and "
        "training of ResNet50; interleaved with off and no communication. Writes "
        "OUTPUT/overhead.json, and goes on where an interrupted one ended. Exit status 2 if jobs "
        "failed, 130 if interrupted.")
    add_modes(parser)
    parser.add_argument("--only", type=some_of(SECONDS), default=",".join(SECONDS),
                        help="workloads to run (%(default)s)")
    parser.add_argument("--ranks", type=positive, nargs="+", default=[2, 4],
                        help="ranks that train ResNet50 (2 4); other workloads run with the first")
    parser.add_argument("--rounds", type=positive, default=3,
                        help="how often each job is run (%(default)s)")
    parser.add_argument("--quick", action="store_true",
                        help="one round of half the length, with the first of --ranks")
    parser.add_argument("--timeout", type=positive, default=300,
                        help="seconds after which a job is killed (%(default)s)")
    add_plain(parser)
    parser.add_argument("--output", type=Path, default=Path("bench"), metavar="FOLDER",
                        help="for overhead.json and overhead.png (%(default)s)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from horovod_lab.bench.overhead import overhead_suite

    return overhead_suite.run(options)
