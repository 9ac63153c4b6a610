"""The options of `horovod-opt bench sizes`."""

from __future__ import annotations

import argparse

from horovod_lab.bench.suite_options import (
    add_bytes,
    add_length,
    add_modes,
    add_oneccl,
    add_output,
    add_plain,
)
from horovod_opt.arguments import positive

SIZES = [1 << 10, 1 << 14, 1 << 17, 1 << 20, 1 << 23, 102_400_000]  # the last: of ResNet50


def add(suites: argparse._SubParsersAction) -> None:
    parser = suites.add_parser(
        "sizes", help="one allreduce by its size, from latency to bandwidth",
        description="Measures one allreduce of each size, alone in a TensorFlow function, in each "
        "mode and without communication, interleaved. Measurements are added to OUTPUT/sizes.json: "
        "a benchmark that was interrupted goes on when it is started again. Exit status 2 if jobs "
        "failed, 130 if interrupted.")
    add_modes(parser)
    add_bytes(parser, SIZES)
    parser.add_argument("--ranks", type=positive, nargs="+", default=[2, 4], metavar="N",
                        help="numbers of ranks (2 4)")
    add_oneccl(parser)
    add_plain(parser)
    add_length(parser, seconds=6.0, timeout=300.0)
    add_output(parser, "sizes.json and sizes.png")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from horovod_lab.bench.sizes import sizes_suite

    return sizes_suite.run(options)
