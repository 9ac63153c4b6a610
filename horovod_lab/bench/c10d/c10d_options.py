"""The options of `horovod-opt bench c10d`."""

from __future__ import annotations

import argparse

from horovod_lab.bench.suite_options import add_bytes, add_length, add_output
from horovod_opt.arguments import positive

SIZES = [4, 1 << 10, 1 << 14, 1 << 16, 1 << 20, 1 << 25]


def add(suites: argparse._SubParsersAction) -> None:
    parser = suites.add_parser(
        "c10d", help="torch.distributed's backend hvdopt beside gloo",
        description="Measures an allreduce of each size, DistributedDataParallel on ResNet50 (96 "
        "pixels, batches of 4) and idling, under both backends by turns in one job. Measurements "
        "are added to OUTPUT/c10d.json: a benchmark that was interrupted goes on when it is "
        "started again. Exit status 2 if jobs failed, 130 if interrupted.")
    add_bytes(parser, SIZES)
    parser.add_argument("--ranks", type=positive, nargs="+", default=[2, 4], metavar="N",
                        help="numbers of ranks (2 4); trainings only where each has a core")
    parser.add_argument("--hosts", type=positive, nargs="+", default=[1, 2], metavar="N",
                        help="numbers of hosts (1 2), among which the ranks are divided: imitated "
                        "on this one, by ranks that share no memory; trainings on one alone")
    parser.add_argument("--without-training", action="store_true",
                        help="allreduces and idling alone")
    add_length(parser, seconds=30.0, timeout=600.0)
    add_output(parser, "c10d.json and c10d.png")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from horovod_lab.bench.c10d import c10d_suite

    return c10d_suite.run(options)
